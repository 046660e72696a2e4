package interop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// A release by one side wakes the other by its message: every time, as nothing else wakes it so soon, and mostly in no
// time at all.
func TestReleaseWakesTheOtherSide(t *testing.T) { requireReleaseWakes(t, alone(t), cells(woken...)) }

func TestFairReleaseWakesTheOtherSide(t *testing.T) {
	requireReleaseWakes(t, alone(t), cells(fairKinds...))
}

func requireReleaseWakes(t *testing.T, s *site, cells []cell) {
	t.Helper()
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleetFor(c.kind, fleetOptions{})
			f.proves(t, wakeUp, c.kind.name, c.first)
			requireAtOnce(t, func(name string) time.Duration { return f.handOver(t, c, f.of(t, c.kind, name)) })
		})
	}
}

// handOver has the first side hold a lock until the second waits, and returns how long it took that to get it after the
// release.
func (f *fleet) handOver(t *testing.T, c cell, lock string) time.Duration {
	t.Helper()
	holder, waiter := c.first.owner(t, f, c.kind, lock), c.second.owner(t, f, c.rival, lock)
	holder.lock(t)
	a := f.wait(t, waiter, f.mapped(lock)[0])
	took := timed(t, func() { holder.unlock(t) }, a)
	waiter.unlock(t)
	return took
}

// timed does what ends some waits, and returns how long the longest of them took from then on, without the time in
// which this process stood still.
func timed(t *testing.T, do func(), waits ...*attempt) (longest time.Duration) {
	t.Helper()
	began, still := time.Now(), kit.Stillness()
	do()
	for _, a := range waits {
		a.await(t, promptly)
		longest = max(longest, a.granted.Sub(began))
	}
	return longest - still()
}

// requireAtOnce wants a wake-up to be a message's doing, every time. Each is for a fresh name, so that the waiter
// subscribes afresh. Without one the first in the line of an rlock looks again after 250 ms, and all others later.
func requireAtOnce(t *testing.T, wakeUp func(name string) time.Duration) {
	t.Helper()
	var times []time.Duration
	for range kit.Stressed(5, 20) {
		times = append(times, wakeUp(unique("x")))
	}
	slices.Sort(times)
	median, longest := times[len(times)/2], times[len(times)-1]
	t.Logf("median %v, longest %v", median, longest)
	require.Less(t, median, 200*time.Millisecond, "%v", times)
	require.Less(t, longest, time.Second, "%v", times)
}

// A release wakes the other side in a few ms. On a busy machine it may take longer, but by no more than 20 times what a
// client needs beside it that waits for an element of a list.
func TestAReleaseWakesAsAListDoes(t *testing.T) {
	for _, c := range cells(plain, fair) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: f.addresses(), DisableCache: true})
			require.NoError(t, err)
			defer client.Close()
			var wakes, bare []time.Duration
			for range 20 {
				wakes = append(wakes, f.handOver(t, c, unique("x")))
				bare = append(bare, f.pushes(t, client))
			}
			slices.Sort(wakes)
			slices.Sort(bare)
			median, least := wakes[len(wakes)/2], bare[len(bare)/2]
			t.Logf("median %v, of a list %v", median, least)
			require.Less(t, median, 10*time.Millisecond+20*least, "%v", wakes)
		})
	}
}

// pushes pushes an element onto a list for which the client waits, and returns how long that takes.
func (f *fleet) pushes(t *testing.T, client rueidis.Client) time.Duration {
	t.Helper()
	woken := make(chan time.Time, 1)
	go func() {
		_ = client.Do(t.Context(), client.B().Blpop().Key("list").Timeout(10).Build()).Error()
		woken <- time.Now()
	}()
	kit.Await(t, "the client waits", func() bool {
		return strings.Contains(f.server().Str(t, "INFO", "clients"), "blocked_clients:1")
	})
	pushed := time.Now()
	f.server().Do(t, "RPUSH", "list", "element")
	return (<-woken).Sub(pushed)
}

// A lock that polls needs no message, and finds the other side's release by itself.
func TestPollingFindsTheRelease(t *testing.T) {
	t.Parallel()
	for _, c := range cells(spin) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			holder, waiter := c.first.owner(t, f, c.kind, "x"), c.second.owner(t, f, c.kind, "x")
			holder.lock(t)
			a := f.wait(t, waiter, "x")
			holder.unlock(t)
			a.await(t, promptly)
			waiter.unlock(t)
		})
	}
}

// Whoever takes a lock away from its holder, the one who waits is woken at once, and the holder learns that it has
// lost it when it gives it back.
func TestForceUnlockWakesWaiters(t *testing.T) {
	t.Parallel()
	requireForceWakes(t, alone(t), cells(kinds...))
}

func TestFairForceUnlockWakesWaiters(t *testing.T) {
	t.Parallel()
	requireForceWakes(t, alone(t), cells(fairKinds...))
}

func TestRWForceUnlockWakesWaiters(t *testing.T) {
	t.Parallel()
	requireForceWakes(t, alone(t), clashes())
}

// requireForceWakes has the first side of each cell take a lock away.
func requireForceWakes(t *testing.T, s *site, cells []cell) {
	t.Helper()
	for _, c := range cells {
		for _, held := range languages {
			for _, awaited := range languages {
				t.Run(c.name+", held by "+held.name+", awaited by "+awaited.name, func(t *testing.T) {
					f := s.fleetFor(c.kind, fleetOptions{})
					f.proves(t, forced, c.kind.name, c.first)
					requireForced(t, f, c, held, awaited)
				})
			}
		}
	}
}

func requireForced(t *testing.T, f *fleet, c cell, held, awaited language) {
	t.Helper()
	name := f.fresh(t, c.kind)
	holder, forcer := held.owner(t, f, c.kind, name), c.first.owner(t, f, c.kind, name)
	waiter := awaited.owner(t, f, c.rival, name)
	holder.lock(t)
	a := f.wait(t, waiter, name)
	require.True(t, forcer.forceUnlock(t))
	a.await(t, promptly)
	holder.unlockLost(t)
	require.True(t, waiter.held(t))
	waiter.unlock(t)
	require.False(t, forcer.forceUnlock(t), "freed what nobody holds")
}
