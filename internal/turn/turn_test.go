package turn_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/turn"
)

func TestTurnsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turn.Turn
		require.NoError(t, turns.Enter(t.Context()))
		var came []int
		for i := range 3 {
			go func() {
				assert.NoError(t, turns.Enter(t.Context()))
				came = append(came, i) // one at a time
				turns.Leave()
			}()
			synctest.Wait()
		}
		assert.Empty(t, came)
		turns.Leave()
		synctest.Wait()
		assert.Equal(t, []int{0, 1, 2}, came)
		assert.True(t, turns.Free())
	})
}

func TestWhoeverGivesUpIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turn.Turn
		require.NoError(t, turns.Enter(t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		go func() { assert.ErrorIs(t, turns.Enter(ctx), enough) }()
		synctest.Wait()
		done := false
		go func() {
			assert.NoError(t, turns.Enter(t.Context()))
			done = true
		}()
		synctest.Wait()
		cancel(enough)
		synctest.Wait()
		turns.Leave()
		synctest.Wait()
		assert.True(t, done)
		assert.True(t, turns.Busy())
		turns.Leave()
		assert.True(t, turns.Free())
	})
}

// A turn that comes in the moment in which the call gives up is passed on.
func TestATurnThatComesTooLateIsPassedOn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			var turns turn.Turn
			require.NoError(t, turns.Enter(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if turns.Enter(ctx) == nil {
					turns.Leave()
				}
			}()
			synctest.Wait()
			cancel()
			turns.Leave() // before the call has seen that
			synctest.Wait()
			require.True(t, turns.Free())
		})
	}
}

type waker struct{ woken atomic.Int32 }

func (w *waker) Wake() { w.woken.Add(1) }

func TestThoseWhoWaitAreKnownUntilTheyDoNot(t *testing.T) {
	var turns turn.Turn
	var one, other waker
	turns.Lock()
	assert.Empty(t, turns.Waits())
	turns.Await(&one)
	turns.Await(&other)
	assert.False(t, turns.Free())
	turns.Unlock()
	turns.Forgo(&one)
	turns.Forgo(&one)
	turns.Lock()
	for _, w := range turns.Waits() {
		w.Wake()
	}
	turns.Unlock()
	assert.Zero(t, one.woken.Load())
	assert.EqualValues(t, 1, other.woken.Load())
	turns.Forgo(&other)
	assert.True(t, turns.Free())
}
