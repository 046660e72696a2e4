package interop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// What one side holds on three servers the other cannot take, on all or on any of them. Whoever waits is woken.
func TestRedLockExclusion(t *testing.T) {
	t.Parallel()
	severally(t, red, 3, func(t *testing.T, f *fleet, c cell) {
		f.proves(t, exclusion, red.name, c.first)
		holder, other := c.first.owner(t, f, red, "x"), c.second.owner(t, f, red, "x")
		holder.lock(t)
		f.awaitKeys(t, 1, "x")
		for _, o := range append(f.singles(t, c.second, "x"), other) {
			requireBusy(t, o)
			require.False(t, o.held(t))
		}
		require.True(t, holder.held(t))
		f.requireKeys(t, 1, "x")

		a := f.wait(t, other, "x")
		holder.unlock(t)
		a.await(t, promptly)
		requireBusy(t, holder)
		other.unlock(t)
		f.awaitKeys(t, 0)
	})
}

// Whoever has one server of three is in nobody's way, and whoever has two is, to both sides.
func TestRedLockGoesToTheMajority(t *testing.T) {
	t.Parallel()
	severally(t, red, 3, func(t *testing.T, f *fleet, c cell) {
		rival, o := c.first.owner(t, f, red, "x"), c.second.owner(t, f, red, "x")
		single := f.singles(t, c.first, "x")
		for i := range single {
			single[i].lock(t)
			require.True(t, o.tryLock(t, 0))
			requireBusy(t, rival)
			require.True(t, single[i].held(t))
			o.unlock(t)

			next := single[(i+1)%len(single)]
			kit.Await(t, "the next server has it back", func() bool { return next.tryLock(t, 0) })
			requireBusy(t, o)
			requireBusy(t, rival)
			single[i].unlock(t)
			kit.Await(t, "two servers have it back", func() bool { return o.tryLock(t, 0) })
			requireBusy(t, rival)
			o.unlock(t)
			next.unlock(t)
			f.awaitKeys(t, 0)
		}
	})
}

// On each server the states of a member, and the messages, are those of a single lock, in both languages.
func TestRedLockGoldenStates(t *testing.T) {
	t.Parallel()
	requireGoldenMembers(t, red, 3, "x")
}

// Nobody is inside with anybody else, and everybody gets in, though some have one server when others have the next.
func TestRedLockExclusionUnderContention(t *testing.T) {
	t.Parallel()
	f := newWideFleet(t, fleetOptions{}, 3)
	var owners []owner
	for range 2 {
		owners = append(owners, golang.owner(t, f, red, "x"), java.owner(t, f, red, "x"))
	}
	f.contend(t, 25, owners...)
	f.server().Do(t, "DEL", "counter")
	f.awaitKeys(t, 0)
}

// One server of three may end while the lock is held, or hang: it stays the holder's, also beyond its lease, and then
// goes from hand to hand as before.
func TestRedLockSurvivesAServer(t *testing.T) {
	t.Parallel()
	for _, c := range cells(red) {
		for what, failure := range map[string]struct {
			server     int
			fail, mend func(*redistest.Server)
			held       time.Duration
		}{
			"the first is killed": {0, (*redistest.Server).Stop, (*redistest.Server).Restart, beyondLease},
			"the last hangs":      {2, (*redistest.Server).Pause, (*redistest.Server).Resume, 0},
		} {
			t.Run(c.name+", "+what, func(t *testing.T) {
				t.Parallel()
				f := newWideFleet(t, fleetOptions{lease: shortLease, timeout: time.Second}, 3)
				holder, other := c.first.owner(t, f, red, "x"), c.second.owner(t, f, red, "x")
				holder.lock(t)
				f.awaitKeys(t, 1, "x")
				failed := f.nodes[failure.server]
				f.nodes = slices.Delete(f.nodes, failure.server, failure.server+1)
				failure.fail(failed)
				defer failure.mend(failed) // or the session would try it in vain at its end

				requireBusy(t, other)
				require.False(t, other.tryLock(t, failure.held))
				f.requireKeys(t, 1, "x")
				for range 2 {
					before := f.scripts(t)
					a := other.start()
					kit.Await(t, "the other side asks", func() bool { return f.scripts(t) > before })
					requireWaiting(t, a)
					holder.unlock(t)
					a.await(t, looks) // Java waits for the answer of one that hangs
					requireBusy(t, holder)
					f.requireKeys(t, 1, "x")
					holder, other = other, holder
				}
				holder.unlock(t)
				f.awaitKeys(t, 0)
			})
		}
	}
}
