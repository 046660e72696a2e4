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
func TestReleaseWakesTheOtherSide(t *testing.T)     { requireReleaseWakes(t, woken...) }
func TestFairReleaseWakesTheOtherSide(t *testing.T) { requireReleaseWakes(t, fairKinds...) }

func requireReleaseWakes(t *testing.T, kinds ...kind) {
	t.Helper()
	for _, c := range cells(kinds...) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			requireQuickWakeUps(t, f, c, 20)
		})
	}
}

// requireQuickWakeUps has the second language wait for the first, once per round, each time for a fresh name: so the
// waiter subscribes afresh.
func requireQuickWakeUps(t *testing.T, f *fleet, c cell, rounds int) {
	t.Helper()
	var times []time.Duration
	for round := range rounds {
		name := fmt.Sprint("x", round)
		holder, waiter := c.first.owner(t, f, c.kind, name), c.second.owner(t, f, c.rival, name)
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
	t.Logf("%s releases, %s has it: median %v, longest %v", c.first.name, c.second.name, median, times[len(times)-1])
	require.Less(t, median, 200*time.Millisecond, "%v", times)
}

// A lock that polls needs no message, and finds the other side's release by itself.
func TestPollingFindsTheRelease(t *testing.T) {
	for _, c := range cells(spin) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			holder, waiter := c.first.owner(t, f, c.kind, "x"), c.second.owner(t, f, c.kind, "x")
			holder.lock(t)
			a := f.waitPolling(t, waiter, "x")
			holder.unlock(t)
			a.await(t, promptly)
			waiter.unlock(t)
		})
	}
}

// Whoever takes a lock away from its holder, the one who waits is woken at once, and the holder learns that it has
// lost it when it gives it back.
func TestForceUnlockWakesWaiters(t *testing.T)     { requireForceWakes(t, alike(woken...)) }
func TestFairForceUnlockWakesWaiters(t *testing.T) { requireForceWakes(t, alike(fairKinds...)) }
func TestRWForceUnlockWakesWaiters(t *testing.T)   { requireForceWakes(t, rivals) }

func requireForceWakes(t *testing.T, pairs []pair) {
	t.Helper()
	for _, p := range pairs {
		f := newFleet(t, fleetOptions{})
		for _, held := range languages {
			for _, forced := range languages {
				for _, awaited := range languages {
					name := fmt.Sprintf("%s held by %s, forced by %s, %s awaited by %s",
						p.kind.name, held.name, forced.name, p.rival.name, awaited.name)
					t.Run(name, func(t *testing.T) {
						requireForced(t, f, p, held, forced, awaited)
					})
				}
			}
		}
	}
}

func requireForced(t *testing.T, f *fleet, p pair, held, forced, awaited language) {
	t.Helper()
	name := t.Name()
	holder, forcer, waiter := held.owner(t, f, p.kind, name), forced.owner(t, f, p.kind, name), awaited.owner(t, f, p.rival, name)
	holder.lock(t)
	a := f.wait(t, waiter, name)
	require.True(t, forcer.forceUnlock(t))
	a.await(t, promptly)
	holder.unlockLost(t)
	require.True(t, waiter.held(t))
	waiter.unlock(t)
	require.False(t, forcer.forceUnlock(t), "freed what nobody holds")
}

// In a cluster the message goes by sharded channels where the servers have them, since Redis 7.0.
func TestClusterReleaseWakesTheOtherSide(t *testing.T) {
	requireReleaseWakesInCluster(t, cells(plain))
}

func TestFairClusterReleaseWakesTheOtherSide(t *testing.T) {
	requireReleaseWakesInCluster(t, cells(fair))
}

func TestRWClusterReleaseWakesTheOtherSide(t *testing.T) {
	requireReleaseWakesInCluster(t, clashes())
}

func requireReleaseWakesInCluster(t *testing.T, cells []cell) {
	t.Helper()
	f := newClusterFleet(t)
	_, err := f.server().Try("PUBSUB", "SHARDNUMSUB")
	sharding := err == nil
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			requireQuickWakeUps(t, f, c, 6)

			name := "{tag}:" + c.name // fresh: a subscription outlasts its last waiter
			holder, waiter := c.first.owner(t, f, c.kind, name), c.second.owner(t, f, c.rival, name)
			holder.lock(t)
			a := f.wait(t, waiter, name)
			channel := c.kind.channel(name)
			if c.kind.fair {
				channel += ":" + f.queue(t, name)[0]
			}
			sharded, plain := f.listeners(t, channel)
			require.Equal(t, sharding, sharded == 1)
			require.Equal(t, sharding, plain == 0)
			holder.unlock(t)
			a.await(t, promptly)
			waiter.unlock(t)
		})
	}
}
