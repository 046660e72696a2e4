package interop_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// grantLease is for how long a release grants a lock, of which Java sees the TTL.
const grantLease = 10 * time.Second

// newGrant has a session of Go wait for another one, and get the lock by its release.
func newGrant(t *testing.T, f *fleet, name string) *goOwner {
	t.Helper()
	holder := golang.owner(t, f, plain, name)
	waiter := newGoUser(holdfast.NewOwner(t.Context()), f.another(t), plain, name)
	holder.lock(t)
	a := f.wait(t, waiter, name)
	f.handOn(t, holder)
	a.await(t, promptly)
	return waiter
}

// handOn releases a lock when a release hands it on, and the waiter has read its last answer.
func (f *fleet) handOn(t *testing.T, holder owner) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	kit.AwaitHandOn(t, f.server())
	holder.unlock(t)
}

// line has n sessions stand in the line of a lock that is taken, one behind the other.
func (f *fleet) line(t *testing.T, n int, name string) (waiters []*goOwner, attempts []*attempt) {
	t.Helper()
	for range n {
		w := newGoUser(holdfast.NewOwner(t.Context()), f.another(t), plain, name)
		waiters, attempts = append(waiters, w), append(attempts, w.start())
		kit.Await(t, "it stands in the line", func() bool {
			return f.server().Int(t, "LLEN", wire.Line(name)) == int64(len(waiters))
		})
	}
	return waiters, attempts
}

// another is one more session of the fleet.
func (f *fleet) another(t *testing.T) []*holdfast.Session {
	t.Helper()
	sessions, err := openWritten(f.written(), f.options.lease.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sessions[0].Close()) })
	return sessions
}

// Java sees in a lock that a release has granted what it sees in any other.
func TestJavaSeesAGrant(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	waiter := newGrant(t, f, "x")
	thread := f.client.Thread(t, "thread")
	lock := thread.Object(interop.RLock, "x")
	require.True(t, lock.Do(t, "isLocked").Bool())
	require.False(t, lock.Do(t, "isHeldByCurrentThread").Bool())
	require.Zero(t, lock.Do(t, "getHoldCount").Int())
	require.False(t, lock.Do(t, "tryLock").Bool())
	ttl := lock.Do(t, "remainTimeToLive").Int()
	require.Positive(t, ttl)
	require.LessOrEqual(t, ttl, grantLease.Milliseconds())
	requireMonitorException(t, lock.Try(t, "unlock").Err)
	kit.Await(t, "the first renewal", func() bool {
		return lock.Do(t, "remainTimeToLive").Int() > grantLease.Milliseconds()
	})
	require.True(t, waiter.held(t))

	a := newJavaUser(f.client.Thread(t, "waiter"), plain, "x")
	waiting := f.wait(t, a, "x")
	waiter.unlock(t)
	waiting.await(t, promptly)
	a.unlock(t)
}

// Java takes away what a release has granted. The holder learns of it, and the first in the line has the lock soon.
func TestJavaTakesAGrantAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	waiter := newGrant(t, f, "x")
	waiters, attempts := f.line(t, 2, "x")
	lock := f.client.Thread(t, "thread").Object(interop.RLock, "x")
	require.True(t, lock.Do(t, "forceUnlock").Bool())
	attempts[0].await(t, promptly)
	waiter.unlockLost(t)
	requireWaiting(t, attempts[1])
	waiters[0].unlock(t)
	attempts[1].await(t, promptly)
	waiters[1].unlock(t)
	require.False(t, lock.Do(t, "forceUnlock").Bool())
}

// A process that dies when a release has granted it the lock keeps others from it for no longer than the lease of a
// grant, though its own is longer: Go, and Java, which sees the TTL.
func TestAGrantToTheDeadEnds(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: 20 * time.Second})
			holder := golang.owner(t, f, plain, "x")
			holder.lock(t)
			dead := golang.loner(t, f, plain, "x")
			a := f.wait(t, dead, "x")
			f.handOn(t, holder)
			a.await(t, promptly)
			dead.Kill()
			killed := time.Now()
			next := l.owner(t, f, plain, "x")
			b := f.wait(t, next, "x")
			b.await(t, grantLease+promptly)
			t.Logf("%v after the kill", b.granted.Sub(killed).Round(time.Millisecond))
			require.Greater(t, b.granted.Sub(killed), grantLease/2, "before the lease was over")
			next.unlock(t)
		})
	}
}

// Java dies while it holds a lock for which several sessions stand in line: these have it when its lease is over.
func TestJavaDiesBeforeALine(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	victim := java.victim(t, []grab{{cell{pair: pair{plain, plain}}, f, "x"}})
	waiters, attempts := f.line(t, 3, "x")
	victim.Kill()
	killed := time.Now()
	for range attempts { // in the order in which they look
		i := first(t, attempts)
		t.Logf("%v after the kill", attempts[i].granted.Sub(killed).Round(time.Millisecond))
		waiters[i].unlock(t)
		attempts[i] = &attempt{}
	}
}

// first is the attempt that is granted before the others are.
func first(t *testing.T, attempts []*attempt) (i int) {
	t.Helper()
	kit.Await(t, "one has the lock", func() bool {
		i = slices.IndexFunc(attempts, func(a *attempt) bool { return kit.Closed(a.done) })
		return i >= 0
	})
	require.NoError(t, attempts[i].err)
	return i
}

// Java's release wakes the first session in the line, however many stand there, and the next ones follow.
func TestJavaReleasesBeforeALine(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	holder := java.owner(t, f, plain, "x")
	holder.lock(t)
	waiters, attempts := f.line(t, 3, "x")
	holder.unlock(t)
	for i, a := range attempts {
		a.await(t, promptly)
		waiters[i].unlock(t)
	}
}
