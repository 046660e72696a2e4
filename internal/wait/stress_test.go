package wait_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// hold is the longest time for which a name is held.
const hold = 100 * time.Microsecond

// A name is a lock as its server has it, with the line in front of it. This session reports its releases itself, by a
// message, or both.
type name struct {
	q     *lines
	taken atomic.Bool
	heads atomic.Int32 // places that know that they are first
	holds atomic.Int32
}

func (n *name) release() {
	n.taken.Store(false)
	told := rand.IntN(3)
	if told != 0 {
		n.q.Wake(x)
	}
	if told != 1 {
		n.q.publish("x")
	}
}

// lock waits as an acquisition does: it asks the server at once if nobody waits, and otherwise joins the line.
func (n *name) lock(t *testing.T, ctx context.Context) error {
	t.Helper()
	const lease = time.Hour
	var place *wait.Place
	var taken time.Duration
	head := false
	note := func() {
		if !head && place.Head() {
			head = true
			assert.EqualValues(t, 1, n.heads.Add(1), "places that are the first")
		}
	}
	defer func() {
		if head {
			n.heads.Add(-1)
		}
		if place != nil {
			place.Leave(taken)
		}
	}()
	for {
		if place == nil && n.q.Empty(x) || place != nil && place.Head() {
			if n.taken.CompareAndSwap(false, true) {
				taken = lease
				return nil
			}
		}
		if place == nil {
			place = n.q.Join(x, true, false)
			note()
		}
		if rand.IntN(5) == 0 {
			place.Wake() // for some other reason
		}
		if rand.IntN(2) == 0 {
			time.Sleep(rand.N(hold)) // a slow look
		}
		err := place.Wait(ctx, wait.Interval(lease))
		note()
		if err != nil {
			return err
		}
	}
}

// Many callers come, wait, give up, hold and release. No wake-up is lost: a lost one would let its waiter sleep for
// at least four seconds, ten times as long as all holds together may take.
func TestNobodyIsStuckAndOneIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 40, 50
		n := &name{q: newLines(t)}
		n.q.confirm = true
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if rand.IntN(4) == 0 {
						ctx, cancel = context.WithTimeout(ctx, rand.N(10*hold))
					}
					if err := n.lock(t, ctx); err != nil {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					} else {
						n.holds.Add(1)
						time.Sleep(rand.N(hold))
						n.release()
					}
					cancel()
					time.Sleep(rand.N(callers * hold)) // so that the line is sometimes short
				}
			})
		}
		wg.Wait()
		assert.Less(t, time.Since(n.q.began), shortest, "%d holds of at most %v", n.holds.Load(), hold)
		assert.Greater(t, n.holds.Load(), int32(callers*rounds/2))
		assert.True(t, n.q.Empty(x))
		assert.Zero(t, n.q.standing("x"))
	})
}
