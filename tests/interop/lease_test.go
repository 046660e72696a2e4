package interop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortLease is the lease of holds whose end is waited for.
const shortLease = 4 * time.Second

// watchedLease is the lease of what must be kept alive for longer: who stands still for three seconds, just when it is
// to be renewed, keeps it.
const watchedLease = 6 * time.Second

// The watchdog of one side keeps the other out for as long as the hold lives, here for three leases.
func TestWatchdogKeepsTheOtherSideOut(t *testing.T) {
	t.Parallel()
	requireWatchdog(t, alone(t), slices.Concat(cells(kinds...), cells(fairKinds...), clashes(), cells(severalKinds...)))
}

func requireWatchdog(t *testing.T, s *site, cells []cell) {
	t.Helper()
	allAtOnce(t, cells, func(t *testing.T, c cell) {
		f := s.fleetFor(c.kind, fleetOptions{lease: watchedLease})
		f.proves(t, watchdog, c.kind.name, c.first)
		lock := f.fresh(t, c.kind)
		holder, other := c.first.owner(t, f, c.kind, lock), c.second.owner(t, f, c.rival, lock)
		holder.lock(t)
		require.False(t, other.tryLock(t, 3*watchedLease))
		require.True(t, holder.held(t))
		holder.unlock(t)
		require.True(t, other.tryLock(t, promptly)) // of several, some may learn of the release later
		other.unlock(t)
	})
}

// A process that is killed while it holds a lock keeps the other side out until its lease has ended, and no longer.
func TestKilledHolderFreesTheOtherSide(t *testing.T) {
	t.Parallel()
	requireFreedByLease(t, alone(t),
		slices.Concat(cells(kinds...), cells(fairKinds...), clashes(), cells(severalKinds...)))
}

// requireFreedByLease kills who holds locks, one process of each language, and wants the leases to keep the other side
// out.
func requireFreedByLease(t *testing.T, s *site, cells []cell) {
	t.Helper()
	locks := map[string][]grab{}
	for _, c := range cells {
		f := s.fleetFor(c.kind, fleetOptions{lease: watchedLease}) // the victim keeps it until it is killed
		locks[c.first.name] = append(locks[c.first.name], grab{c, f, f.fresh(t, c.kind)})
	}
	for killed, grabs := range locks {
		t.Run(killed+" is killed", func(t *testing.T) { requireFreed(t, grabs) })
	}
}

// grab is a lock that the first language of the cell is to have.
type grab struct {
	cell
	fleet *fleet
	lock  string
}

// requireFreed kills the first language of some cells, and wants the second to have the locks when their leases are
// over.
func requireFreed(t *testing.T, grabs []grab) {
	t.Helper()
	victim := grabs[0].first.victim(t, grabs)
	var cells []cell
	waiters, attempts, of := map[string]owner{}, map[string]*attempt{}, map[string]grab{}
	for _, g := range grabs {
		w := g.second.owner(t, g.fleet, g.rival, g.lock)
		cells, of[g.name] = append(cells, g.cell), g
		waiters[g.name], attempts[g.name] = w, g.fleet.wait(t, w, g.fleet.mapped(g.lock)[0])
	}
	victim.Kill()
	asked := time.Now()
	allAtOnce(t, cells, func(t *testing.T, c cell) {
		f := of[c.name].fleet
		f.proves(t, crash, c.kind.name, c.first)
		rest := f.rest(t, c.kind, of[c.name].lock)
		attempts[c.name].await(t, rest+promptly)
		require.GreaterOrEqual(t, attempts[c.name].granted.Sub(asked), rest-5*time.Millisecond,
			"granted before the lease had ended")
		waiters[c.name].unlock(t)
	})
}

// rest is for how long a lock is taken that nobody renews: while all of its keys are there, or for a RedLock most.
func (f *fleet) rest(t *testing.T, k kind, lock string) time.Duration {
	t.Helper()
	var rests []time.Duration
	for _, key := range f.mapped(lock) {
		for _, node := range f.homesOf(t, key) {
			rest := time.Duration(node.Int(t, "PTTL", key)) * time.Millisecond
			require.Positive(t, rest)
			rests = append(rests, rest)
		}
	}
	slices.Sort(rests)
	if k.name == red.name {
		return rests[len(rests)/2]
	}
	return rests[len(rests)-1]
}
