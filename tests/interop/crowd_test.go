package interop_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// What semaphores of both sorts must do for crowds of both sides.
const (
	crowdPermits = 3
	crowdWaiters = 6 // see crowdWaits
)

// requireCrowd has four workers of each side, of whom each second one wants two permits, take 25 turns each at the
// semaphore "s". Work makes a worker's turn, which calls stay while it has n permits: there are never more inside than
// permits, and all are back in the end, when free says so. Look looks at the semaphore now and then.
func requireCrowd(
	t *testing.T, f *fleet, work func(l language, worker, n int) (turn func(round int, stay func())), look func(), free func() int,
) {
	t.Helper()
	const each, rounds = 4, 25
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
			n := 1 + i%2
			turn := work(l, i, n)
			workers.Go(func() {
				for round := range rounds {
					turn(round, func() {
						move("INCRBY", n)
						for range 10 { // stays while others come
							move("INCRBY", 0)
						}
						move("DECRBY", n)
					})
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		workers.Wait()
	}()
	for working := true; working; {
		look()
		select {
		case <-done:
			working = false
		case <-time.After(time.Millisecond):
		}
	}
	t.Log("most permits in use at once:", most.Load())
	await(t, "what was forgotten comes back", func() bool { return free() == crowdPermits })
	require.Equal(t, map[string]redistest.Value{
		"inside": {Type: "string", Content: "0"},
		"s":      {Type: "string", Content: strconv.Itoa(crowdPermits)},
	}, state(t, f.server()))
}

// crowdWaits has three of each side wait for a permit. Of those of Go only the first is seen to listen: it does so for
// all of its session.
func crowdWaits(wait func(l language, seen bool) *attempt) (waits []*attempt) {
	for i := range crowdWaiters / len(languages) {
		for _, l := range languages {
			waits = append(waits, wait(l, i == 0 || l.name == java.name))
		}
	}
	return waits
}
