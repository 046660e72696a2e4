package script

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A single is a client of one server.
type single struct{ rueidis.Client }

func (single) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// A call that could outlast its caller says why that one gave up, if it was not sent by then.
func TestACallThatWaitsForAPlaceEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRunner(single{}, func() time.Duration { return 0 }, time.Minute)
		defer r.nodes.gate("x").leave()() // calls wait meanwhile
		caller, giveUp := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := r.place(&Outlasting{Context: t.Context(), Caller: caller}, Take, "x")
			failed <- err
		}()
		synctest.Wait()
		giveUp(assert.AnError)
		err := <-failed
		require.Equal(t, Refused, ClassOf(err))
		require.ErrorIs(t, err, assert.AnError)
		require.Equal(t, assert.AnError.Error(), err.Error())
	})
}
