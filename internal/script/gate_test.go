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

// A refusing is a server that says no, whose caller leaves when it does.
type refusing struct {
	single

	b     rueidis.Builder
	no    error
	leave func()
	asked *int
}

func (f refusing) B() rueidis.Builder { return f.b }

func (f refusing) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	*f.asked++
	f.leave()
	return rueidis.NewErrorResult(f.no)
}

func (f refusing) DoMulti(ctx context.Context, commands ...rueidis.Completed) (results []rueidis.RedisResult) {
	for _, c := range commands {
		results = append(results, f.Do(ctx, c))
	}
	return results
}

// A call that a server does not know, or not with all its keys, is not sent again for a caller that has left. Nothing
// is under way then, so nothing is sent in order to learn when it is over.
func TestACallerThatLeavesARefusedCallLeavesNothing(t *testing.T) {
	for _, no := range []string{"NOSCRIPT No matching script.", "TRYAGAIN Multiple keys"} {
		for _, batch := range []bool{false, true} {
			ctx, leave := context.WithCancel(t.Context())
			asked := 0
			server := refusing{b: builder(t), no: answer(t, no), leave: leave, asked: &asked}
			r := NewRunner(server, func() time.Duration { return 0 }, time.Minute)
			calls := []*Call{NewCall(Load("rlock_release")).Key("x").Spare("y")}
			var err error
			if batch {
				r.RunAll(ctx, calls, func(_ int, failure error) { err = failure })
			} else {
				err = r.Run(ctx, Take, calls[0])
			}
			r.Wait()
			require.Equal(t, Refused, ClassOf(err), "%s, batch: %v", no, batch)
			require.Equal(t, 1, asked)
			require.True(t, r.nodes.gate("x").places[Take].TryAcquire(placesIn[Take]))
		}
	}
}
