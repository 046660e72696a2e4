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

// An oblivious is a server that knows no script, whose caller leaves when it says so.
type oblivious struct {
	single

	b     rueidis.Builder
	no    error
	leave func()
	asked *int
}

func (o oblivious) B() rueidis.Builder { return o.b }

func (o oblivious) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	*o.asked++
	o.leave()
	return rueidis.NewErrorResult(o.no)
}

// A script that its server does not know is not sent in full for a caller that has left. Nothing is under way then, so
// nothing is sent in order to learn when it is over.
func TestACallerThatLeavesAServerWithoutItsScriptLeavesNothing(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	asked := 0
	r := NewRunner(oblivious{b: builder(t), no: answer(t, "NOSCRIPT No matching script."), leave: leave, asked: &asked},
		func() time.Duration { return 0 }, time.Minute)
	err := r.Run(ctx, Take, NewCall(Load("rlock_release")).Key("x"))
	r.Wait()
	require.Equal(t, Refused, ClassOf(err))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, asked)
	require.True(t, r.nodes.gate("x").places[Take].TryAcquire(placesIn[Take]))
}
