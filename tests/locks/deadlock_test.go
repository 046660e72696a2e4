package locks

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// breaking opens a session whose youngest call in a cycle fails.
func breaking(t *testing.T, srv *redistest.Server) *holdfast.Session {
	t.Helper()
	return breakingWith(t, srv, nil)
}

func breakingWith(t *testing.T, srv *redistest.Server, o *holdfast.Observer) *holdfast.Session {
	t.Helper()
	return kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 20 * time.Second, BreakDeadlocks: true, Observer: o})
}

// A cyclist has one lock and waits for the next one's.
type cyclist struct {
	hold *holdfast.Hold
	next <-chan kit.Result
}

// Of owners that wait for each other in a circle, for locks of any kind, the youngest fails; and the others go on.
func TestTheYoungestCallOfACycleFails(t *testing.T) {
	t.Parallel()
	type locks func(s *holdfast.Session, name string) holdfast.Locker
	rlocks := func(s *holdfast.Session, name string) holdfast.Locker { return rlock.New(s, name, nil) }
	reads := func(s *holdfast.Session, name string) holdfast.Locker { return rwlock.New(s, name, nil).Read() }
	writes := func(s *holdfast.Session, name string) holdfast.Locker { return rwlock.New(s, name, nil).Write() }
	for name, c := range map[string]struct {
		owners int
		has    locks
		wants  locks // has, if it is nil
	}{
		"three with fair locks": {owners: 3, has: func(s *holdfast.Session, name string) holdfast.Locker {
			return fairlock.New(s, name, nil)
		}},
		"two that write":                   {owners: 2, has: writes},
		"two that write, and would read":   {owners: 2, has: writes, wants: reads},
		"three that read, and would write": {owners: 3, has: reads, wants: writes},
		"two that want several": {owners: 2, has: rlocks, wants: func(s *holdfast.Session, name string) holdfast.Locker {
			return multilock.New(rlock.New(s, "free", nil), rlock.New(s, name, nil))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			if c.wants == nil {
				c.wants = c.has
			}
			all := make([]cyclist, c.owners)
			sessions := make([]*holdfast.Session, c.owners)
			waits := make(chan struct{}, 1)
			begun := &holdfast.Observer{Wait: func(holdfast.Subject) func() {
				select {
				case waits <- struct{}{}:
				default:
				}
				return nil
			}}
			for i := range all {
				sessions[i] = breakingWith(t, srv, begun)
				all[i].hold = kit.Lock(t, t.Context(), c.has(sessions[i], fmt.Sprint("lock ", i)))
			}
			for i := range all {
				want := c.wants(sessions[i], fmt.Sprint("lock ", (i+1)%c.owners))
				all[i].next = kit.GoLock(all[i].hold.Context(t.Context()), want.Lock)
				kit.Within(t, time.Minute, waits, "the wait")
				kit.SleepUntil(time.Now().Add(5 * time.Millisecond)) // so that it is known who is the youngest
			}
			r := kit.Within(t, time.Minute, all[c.owners-1].next, "the end of the youngest wait")
			require.ErrorIs(t, r.Err, holdfast.ErrDeadlock)
			for i := range all {
				assert.ErrorContains(t, r.Err, all[i].hold.ID())
				assert.ErrorContains(t, r.Err, fmt.Sprintf("%q", fmt.Sprint("lock ", i)))
			}
			for i := c.owners - 1; i >= 0; i-- { // each gives back what it has, and so lets the one before it go on
				require.NoError(t, all[i].hold.Release())
				if i > 0 {
					got := kit.Within(t, time.Minute, all[i-1].next, "the lock")
					require.NoError(t, got.Err)
					require.NoError(t, got.Hold.Release())
				}
			}
		})
	}
}

// Of two locks that one command took, and that have one owner on the server, neither goes on to another owner of the
// session: the two would be taken for one, and a call that the one waits for would seem to wait for the other.
func TestNoCycleLeadsThroughLocksThatWereTakenTogether(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	waits := make(chan struct{}, 10)
	begun := &holdfast.Observer{Wait: func(holdfast.Subject) func() {
		waits <- struct{}{}
		return nil
	}}
	s, other := breakingWith(t, srv, begun), breakingWith(t, srv, begun)
	a, b := rlock.New(s, "a", nil), rlock.New(s, "b", nil)
	both := kit.Lock(t, t.Context(), multilock.New(a, b))
	first, second, third := both.Context(t.Context()), holdfast.NewOwner(t.Context()), holdfast.NewOwner(t.Context())
	hasA, hasB := kit.Lock(t, first, a), kit.Lock(t, first, b)
	require.NoError(t, both.Release())
	gotA := kit.GoLock(second, a.Lock)
	kit.Within(t, time.Minute, waits, "the second to wait for a")
	require.NoError(t, hasA.Release())
	nextA := kit.Granted(t, kit.LongestWait, gotA, "a")
	require.NotEqual(t, hasB.ID(), nextA.ID())

	hasX := kit.Lock(t, third, rlock.New(other, "x", nil))
	gotB := kit.GoLock(third, rlock.New(other, "b", nil).Lock) // the first has it, and waits for nobody
	kit.Within(t, time.Minute, waits, "the third to wait for b")
	gotX := kit.GoLock(second, rlock.New(s, "x", nil).Lock)
	kit.Within(t, time.Minute, waits, "the second to wait for x")
	kit.SleepUntil(time.Now().Add(3 * time.Second)) // a cycle would have been found within 2
	require.NoError(t, hasB.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, gotB, "b").Release())
	require.NoError(t, hasX.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, gotX, "x").Release())
	require.NoError(t, nextA.Release())
}

// Without the option, and without sessions that tell, a cycle lasts; and a chain of waits is none.
func TestOnlyCyclesAreBroken(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	known := &holdfast.Options{Lease: 20 * time.Second}
	silent, told, breaks := kit.Open(t, srv.Addr(), nil), kit.OpenKnown(t, at(srv.Addr()), known), breaking(t, srv)
	pairs := []struct{ a, b *holdfast.Session }{{told, told}, {silent, breaks}}
	var waits []<-chan kit.Result
	var holds []*holdfast.Hold
	ctx, cancel := context.WithCancel(t.Context())
	for i, p := range pairs {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		first, second := kit.Lock(t, ctx, rlock.New(p.a, a, nil)), kit.Lock(t, ctx, rlock.New(p.b, b, nil))
		holds = append(holds, first, second)
		waits = append(waits, kit.GoLock(first.Context(ctx), rlock.New(p.a, b, nil).Lock),
			kit.GoLock(second.Context(ctx), rlock.New(p.b, a, nil).Lock))
	}
	// A chain: each waits for the next one's, and the last one for nothing.
	for i := range 3 {
		h := kit.Lock(t, ctx, rlock.New(breaks, fmt.Sprint("chain ", i), nil))
		holds = append(holds, h)
		if i > 0 {
			waits = append(waits, kit.GoLock(h.Context(ctx), rlock.New(breaks, fmt.Sprint("chain ", i-1), nil).Lock))
		}
	}
	kit.SleepUntil(time.Now().Add(3 * time.Second)) // a cycle would have been found within 2
	for _, w := range waits {
		require.Empty(t, w)
	}
	cancel()
	for _, w := range waits {
		require.ErrorIs(t, kit.Within(t, 5*time.Second, w, "its end").Err, context.Canceled)
	}
	for _, h := range holds {
		require.NoError(t, h.Release())
	}
}

// A server that had no memory for a moment does not keep deadlocks from being broken when it has some again.
func TestAServerWithoutMemoryOnceKeepsNoDeadlockFromBeingBroken(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	oom := p.On(proxy.Command("SET").With("holdfast_session"),
		proxy.Answer("-OOM command not allowed when used memory > 'maxmemory'."), proxy.First)
	s := kit.OpenKnown(t, at(p.Addr()), &holdfast.Options{Lease: 6 * time.Second, BreakDeadlocks: true})
	a, b := rlock.New(s, "a", nil), rlock.New(s, "b", nil)
	first := kit.Lock(t, t.Context(), a)
	oom.Wait(t, 1)
	second := kit.Lock(t, t.Context(), b)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	one := kit.GoLock(first.Context(ctx), b.Lock)
	two := kit.GoLock(second.Context(ctx), a.Lock)
	r := kit.Within(t, 15*time.Second, kit.AnyOf(one, two), "the end of the deadlock")
	require.ErrorIs(t, r.Err, holdfast.ErrDeadlock)
}

// Two reports that came after another one were found out one after the other. So those that did not come do not count.
func TestOnlyReportsOfWaitsThatCameAreCounted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.OpenKnown(t, at(p.Addr()), &holdfast.Options{Lease: 20 * time.Second, BreakDeadlocks: true})
	kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "b", nil))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "a", nil))
	kit.GoLock(hold.Context(t.Context()), rlock.New(s, "b", nil).Lock)
	told := func() (n int64) {
		var said struct{ Told int64 }
		_ = json.Unmarshal([]byte(srv.Str(t, "GET", wire.SessionKey(hold.ID()[:36]))), &said)
		return said.Told
	}
	kit.Await(t, "a report", func() bool { return told() > 0 })
	lost := p.On(proxy.Command("SET").With("holdfast_session"), proxy.Answer("-OOM command not allowed"), proxy.EveryTime)
	lost.Wait(t, 3)
	lost.Remove()
	before := told()
	kit.Await(t, "another report", func() bool { return told() > before })
	count := told()
	require.LessOrEqual(t, count, srv.CommandStats(t)["set"])
}

// A deadlock is broken however many calls of the session have waited for longer, which wait behind it.
func TestADeadlockBehindManyWaitsIsBroken(t *testing.T) {
	t.Parallel()
	srv, waits := redistest.Start(t), make(chan struct{}, 100)
	s := breakingWith(t, srv, &holdfast.Observer{Wait: func(holdfast.Subject) func() {
		waits <- struct{}{}
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hot, cold := rlock.New(s, "hot", nil), rlock.New(s, "cold", nil)
	first, second := kit.Lock(t, ctx, hot), kit.Lock(t, ctx, cold)
	var all []<-chan kit.Result
	for i := range 40 { // each has a lock of its own, which nobody wants
		own := kit.Lock(t, ctx, rlock.New(s, fmt.Sprint("own ", i), nil))
		all = append(all, kit.GoLock(own.Context(ctx), hot.Lock))
		kit.Within(t, time.Minute, waits, "the wait")
	}
	one := kit.GoLock(second.Context(ctx), hot.Lock)
	kit.Within(t, time.Minute, waits, "the wait")
	two := kit.GoLock(first.Context(ctx), cold.Lock)
	all = append(all, requireEnds(t, one, two))
	cancel()
	for _, other := range all {
		kit.Within(t, kit.LongestWait, other, "its end")
	}
}

// A deadlock of a writer and one of many readers, each of a session of its own, is broken.
func TestADeadlockWithOneOfManyReadersIsBroken(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for range 140 {
		reader := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute})
		kit.Lock(t, t.Context(), rwlock.New(reader, "r", nil).Read())
	}
	a, b := breaking(t, srv), breaking(t, srv)
	first := kit.Lock(t, t.Context(), rlock.New(a, "a", nil))
	second := kit.Lock(t, t.Context(), rwlock.New(b, "r", nil).Read())
	ctx, cancel := context.WithCancel(t.Context())
	one := kit.GoLock(first.Context(ctx), rwlock.New(a, "r", nil).Write().Lock)
	two := kit.GoLock(second.Context(ctx), rlock.New(b, "a", nil).Lock)
	other := requireEnds(t, one, two)
	cancel()
	kit.Within(t, kit.LongestWait, other, "the other one's end")
}

// requireEnds requires that one of two calls fails because they wait for each other, and returns the other one.
func requireEnds(t *testing.T, one, two <-chan kit.Result) (other <-chan kit.Result) {
	t.Helper()
	calls := kit.AnyOf(one, two)
	r := kit.Within(t, time.Minute, calls, "the end of the deadlock")
	require.ErrorIs(t, r.Err, holdfast.ErrDeadlock)
	return calls
}

// A wake-up that a waiter of a fair lock gets while it queues up anew, because it has lost its place, is not forgotten.
func TestADeadlockIsBrokenWhileAPlaceIsLost(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	opts := &holdfast.Options{Lease: 20 * time.Second, BreakDeadlocks: true}
	x, y := kit.OpenKnown(t, at(srv.Addr()), opts), kit.OpenKnown(t, at(p.Addr()), opts)
	const f, l = "fair", "plain"
	hasF := kit.Lock(t, t.Context(), fairlock.New(x, f, nil))
	hasL := kit.Lock(t, t.Context(), rlock.New(y, l, nil))
	older := kit.GoLock(hasF.Context(t.Context()), rlock.New(x, l, nil).Lock)
	kit.Await(t, "the older one's place", func() bool { return srv.Int(t, "LLEN", wire.Line(l)) == 1 })
	time.Sleep(50 * time.Millisecond)
	younger := kit.GoLock(hasL.Context(t.Context()), fairlock.New(y, f, nil).Lock)

	told := p.On(proxy.Command("GET").With(x.ID()), proxy.HoldReply, proxy.Times(4))
	told.Wait(t, 1)
	srv.Do(t, "DEL", wire.FairQueue(f), wire.FairDue(f), wire.FairOurs(f), wire.FairAlive(f)) // the place is lost
	attempt := p.On(kit.ScriptNamed("fairlock_acquire"), proxy.Stall, proxy.First)
	srv.Do(t, "PUBLISH", wire.FairTold(f)+y.ID(), "x") // it looks
	attempt.Wait(t, 1)
	told.Release()
	time.Sleep(100 * time.Millisecond) // the deadlock is found meanwhile
	attempt.Release()
	took := kit.Stopwatch()
	r := kit.Within(t, kit.LongestWait, younger, "the end of the younger wait")
	require.ErrorIs(t, r.Err, holdfast.ErrDeadlock)
	require.Less(t, took(), 700*time.Millisecond) // it would look by itself a second later
	require.NoError(t, hasL.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, older, "plain").Release())
	require.NoError(t, hasF.Release())
}

// A multilock lets go of what it has before long, so whoever waits for that is no reason for it to fail.
func TestAMultiLockGivesWayInADeadlock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, kit.ClientOption(srv.Addr()), &holdfast.Options{Lease: kit.Lease, BreakDeadlocks: true})
	a, b := fairlock.New(s, "a", nil), fairlock.New(s, "b", nil)
	waiting := func(n int64) {
		kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", "redisson_lock_queue:{a}") == n })
	}
	before := kit.Lock(t, t.Context(), a)
	other := kit.Lock(t, t.Context(), b)
	both := kit.GoLock(t.Context(), multilock.New(a, b).Lock)
	waiting(1)
	crossing := kit.GoLock(other.Context(t.Context()), a.Lock)
	waiting(2)
	kit.SleepUntil(time.Now().Add(5 * time.Second)) // for as long it is then patient
	require.NoError(t, before.Release())
	require.NoError(t, kit.Granted(t, 20*time.Second, crossing, "the call that waits for the multilock").Release())
	require.NoError(t, other.Release())
	require.NoError(t, kit.Granted(t, 20*time.Second, both, "the multilock").Release())
}
