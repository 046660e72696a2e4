package interop_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// What semaphores of both sorts must do for crowds of both sides.
const (
	crowdPermits = 3
	crowdWaiters = 6
)

// Of a crowd of both sides there are never more inside than permits, and all permits are back in the end.
func TestSemaphoreCrowd(t *testing.T) {
	t.Parallel()
	requireCrowd(t, semaphores)
}

// Nor are there if some never give back what they have. At no time is there a permit too many or too few.
func TestExpirableCrowd(t *testing.T) {
	t.Parallel()
	requireCrowd(t, expirables)
}

// requireCrowd has four workers of each side, of whom each second one wants two permits, take 25 turns each at a
// semaphore.
func requireCrowd(t *testing.T, sort kind) {
	t.Helper()
	const each, rounds = 4, 25
	leased := sort.name == expirableRow
	f := newFleet(t, fleetOptions{})
	require.True(t, golang.permits(t, f, sort, "s").trySet(t, crowdPermits))
	var most atomic.Int64
	move := func(command string, n int) {
		inside, err := f.server().Try(command, "inside", strconv.Itoa(n))
		assert.NoError(t, err)
		now, _ := inside.(int64)
		assert.LessOrEqual(t, now, int64(crowdPermits))
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); {
			seen = most.Load()
		}
	}
	var workers sync.WaitGroup
	for i := range each {
		for _, l := range languages {
			n, p := 1+i%2, l.permits(t, f, sort, "s")
			workers.Go(func() {
				for round := range rounds {
					if leased && i < 2 && round%8 == 7 {
						p.acquire(t, n, briefLease) // and forgets it
						continue
					}
					ids := p.acquire(t, n, 0)
					move("INCRBY", n)
					for range 10 { // stays while others come
						move("INCRBY", 0)
					}
					move("DECRBY", n)
					p.give(t, ids...)
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		workers.Wait()
	}()
	for working := leased; working; {
		const both = `return redis.call('GET', KEYS[1]) + redis.call('ZCARD', KEYS[2])`
		require.EqualValues(t, crowdPermits, f.server().Int(t, "EVAL", both, "2", "s", permitsKey("s")))
		select {
		case <-done:
			working = false
		case <-time.After(time.Millisecond):
		}
	}
	<-done
	t.Log("most permits in use at once:", most.Load())
	users := []permits{golang.permits(t, f, sort, "s"), java.permits(t, f, sort, "s")}
	kit.Await(t, "what was forgotten comes back", func() bool { return users[1].free(t) == crowdPermits })
	requirePermits(t, crowdPermits, 0, "the end", users...)
	require.Equal(t, map[string]redistest.Value{
		"inside": {Type: "string", Content: "0"},
		"s":      {Type: "string", Content: strconv.Itoa(crowdPermits)},
	}, state(t, f.server()))
}
