package interop_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A release by one side wakes the other by its message: every time, as nothing else wakes it so soon, and mostly in no
// time at all.
func TestReleaseWakesTheOtherSide(t *testing.T) {
	eachKind(t, woken, func(t *testing.T, k kind, first, second language) {
		f := newFleet(t, fleetOptions{})
		requireQuickWakeUps(t, f, k, first, second, 20)
	})
}

// requireQuickWakeUps has the second language wait for the first, once per round, each time for a fresh name: so the
// waiter subscribes afresh.
func requireQuickWakeUps(t *testing.T, f *fleet, k kind, first, second language, rounds int) {
	t.Helper()
	var times []time.Duration
	for round := range rounds {
		name := fmt.Sprint("x", round)
		holder, waiter := first.owner(t, f, k, name), second.owner(t, f, k, name)
		holder.lock(t)
		a := f.wait(t, waiter, name)
		released := time.Now()
		holder.unlock(t)
		a.await(t, promptly)
		times = append(times, a.granted.Sub(released))
		waiter.unlock(t)
	}
	slices.Sort(times)
	median := times[len(times)/2]
	t.Logf("%s releases, %s has it: median %v, longest %v", first.name, second.name, median, times[len(times)-1])
	require.Less(t, median, 200*time.Millisecond, "%v", times)
}

// A lock that polls needs no message, and finds the other side's release by itself.
func TestPollingFindsTheRelease(t *testing.T) {
	eachDirection(t, func(t *testing.T, first, second language) {
		f := newFleet(t, fleetOptions{})
		holder, waiter := first.owner(t, f, spin, "x"), second.owner(t, f, spin, "x")
		holder.lock(t)
		a := f.waitPolling(t, waiter, "x")
		holder.unlock(t)
		a.await(t, promptly)
		waiter.unlock(t)
	})
}

// Whoever takes a lock away from its holder, the one who waits is woken at once, and the holder learns that it has
// lost it when it gives it back.
func TestForceUnlockWakesWaiters(t *testing.T) {
	for _, k := range woken {
		t.Run(k.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			for _, h := range languages {
				for _, forced := range languages {
					for _, w := range languages {
						name := fmt.Sprintf("held by %s, forced by %s, awaited by %s", h.name, forced.name, w.name)
						holder, forcer, waiter := h.owner(t, f, k, name), forced.owner(t, f, k, name), w.owner(t, f, k, name)
						holder.lock(t)
						a := f.wait(t, waiter, name)
						require.True(t, forcer.forceUnlock(t))
						a.await(t, promptly)
						holder.unlockLost(t)
						require.True(t, waiter.held(t), name)
						waiter.unlock(t)
						require.False(t, forcer.forceUnlock(t), name)
					}
				}
			}
		})
	}
}

// In a cluster the message goes by sharded channels, on the shard of the lock.
func TestClusterReleaseWakesTheOtherSide(t *testing.T) {
	f := newClusterFleet(t)
	eachDirection(t, func(t *testing.T, first, second language) {
		requireQuickWakeUps(t, f, plain, first, second, 6)
	})
	if _, err := f.server().Try("PUBSUB", "SHARDNUMSUB"); err != nil {
		t.Skipf("plain channels were used: %v", err)
	}
	eachDirection(t, func(t *testing.T, first, second language) {
		holder, waiter := first.owner(t, f, plain, "{tag}:x"), second.owner(t, f, plain, "{tag}:x")
		holder.lock(t)
		a := f.wait(t, waiter, "{tag}:x")
		sharded, plainly := f.listeners(t, lockChannel("{tag}:x"))
		require.EqualValues(t, 1, sharded)
		require.Zero(t, plainly)
		holder.unlock(t)
		a.await(t, promptly)
		waiter.unlock(t)
	})
}
