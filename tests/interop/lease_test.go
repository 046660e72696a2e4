package interop_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shortLease is the lease of holds whose end is waited for.
const shortLease = 3 * time.Second

// The watchdog of one side keeps the other out for as long as the hold lives, here for three leases.
func TestWatchdogKeepsTheOtherSideOut(t *testing.T)     { requireWatchdog(t, cells(kinds...)) }
func TestFairWatchdogKeepsTheOtherSideOut(t *testing.T) { requireWatchdog(t, cells(fairKinds...)) }
func TestRWWatchdogKeepsTheOtherSideOut(t *testing.T)   { requireWatchdog(t, clashes()) }

func requireWatchdog(t *testing.T, cells []cell) {
	t.Helper()
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	var waits sync.WaitGroup // all at once: they take their time
	for _, c := range cells {
		holder, other := c.first.owner(t, f, c.kind, c.name), c.second.owner(t, f, c.rival, c.name)
		holder.lock(t)
		waits.Go(func() {
			assert.False(t, other.tryLock(t, 3*shortLease), c.name)
			assert.True(t, holder.held(t), c.name)
			holder.unlock(t)
			assert.True(t, other.tryLock(t, 0), c.name)
			other.unlock(t)
		})
	}
	waits.Wait()
}

// A process that is killed while it holds a lock keeps the other side out until its lease has ended, and no longer.
func TestKilledHolderFreesTheOtherSide(t *testing.T) {
	requireFreedByLease(t, cells(plain))
}

func TestFairKilledHolderFreesTheOtherSide(t *testing.T) {
	requireFreedByLease(t, cells(fairKinds...))
}

func TestRWKilledHolderFreesTheOtherSide(t *testing.T) {
	requireFreedByLease(t, clashes())
}

func requireFreedByLease(t *testing.T, cells []cell) {
	t.Helper()
	t.Parallel()
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: shortLease})
			holder, waiter := c.first.loner(t, f, c.kind, "x"), c.second.owner(t, f, c.rival, "x")
			holder.start().await(t, promptly)
			a := f.wait(t, waiter, "x")
			holder.Kill()
			asked := time.Now()
			rest := time.Duration(f.server().Int(t, "PTTL", "x")) * time.Millisecond
			require.Positive(t, rest)
			a.await(t, rest+promptly)
			require.GreaterOrEqual(t, a.granted.Sub(asked), rest-5*time.Millisecond, "granted before the lease had ended")
			waiter.unlock(t)
		})
	}
}
