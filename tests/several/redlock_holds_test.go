package several

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A hold that was granted so late that too little is left of it is given back, and the call tries again.
func TestARedLockIsGrantedWithMinValidity(t *testing.T) {
	t.Parallel()
	const length, most = 4 * time.Second, 3500 * time.Millisecond
	f := kit.NewFleet(t, 5)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: length}), kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{
			TrustRestarted: true, ServerTimeout: 2 * time.Second, MinValidity: most,
		})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the sessions know the servers' clocks
	remove := f.OnEach(acquires, proxy.Delay(length-most), proxy.EveryTime, 0, 1, 2)
	_, err := l.TryLock(t.Context())
	require.ErrorContains(t, err, `redlock "orders": try lock: too little of the lease is left: `)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	f.Empty()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.Empty()

	got := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "an attempt", func() bool { return kit.KeysLeft(t, f.Servers) > 0 })
	remove()
	r := kit.Within(t, 10*time.Second, got, "the lock, as servers are fast again")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	f.Empty()
}

// A detached hold is left to its leases, and is taken on no other server.
func TestADetachedRedLockIsLeftToItsLeases(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	f := kit.NewFleet(t, 5)
	near, other := f.Near(&holdfast.Options{Lease: length}),
		kit.RedLock(f.Far(nil), kit.Orders, kit.ReentrantMember, kit.Patient)
	f.Cut(3)
	f.Cut(4)
	h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
	require.Equal(t, []int{1, 1, 1, 0, 0}, f.Counts(near))
	ctx := h.Context(t.Context())
	require.NoError(t, h.Detach())
	detached := time.Now()
	require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
	require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
	f.Heal()
	for _, s := range near {
		require.NoError(t, s.Close())
	}
	require.Equal(t, []int{1, 1, 1, 0, 0}, f.Counts(near))
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	kit.GrantAndRelease(t, kit.GoLock(t.Context(), other.Lock))
	require.Less(t, time.Since(detached), 2*length, "it was renewed")
	f.Empty()
}

// A hold is extended on most servers, or not at all.
func TestARedLockIsExtendedByMostServers(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	for _, o := range []kit.Outage{kit.Killed, kit.Paused} {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			f := kit.NewFleet(t, 5)
			near := f.Near(&holdfast.Options{Lease: length})
			h := f.Everywhere(kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
			two := f.Strike(o, 0, 3)
			before, began := h.Deadline(), time.Now()
			require.NoError(t, h.Extend(t.Context(), length))
			extended, took := h.Deadline(), time.Since(began)
			require.Greater(t, extended, before)
			third := f.Strike(o, 1)
			err := h.Extend(t.Context(), 2*length)
			require.Error(t, err)
			require.NotErrorIs(t, err, holdfast.ErrLost)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, h.Err())
			require.WithinDuration(t, extended, h.Deadline(), took,
				"it is the deadline of the last server that is needed")
			third()
			two()
			if o.Name == kit.Paused.Name {
				require.NoError(t, h.Extend(t.Context(), 2*length))
				require.NoError(t, h.Release())
			}
		})
	}
}

// When two calls of one owner wait, the second does not wait for a stranger that waits behind the first.
func TestAnOwnerOfARedLockPassesWaiters(t *testing.T) {
	t.Parallel()
	const rounds = 20
	f := kit.NewFleet(t, 5)
	l, theirs := kit.RedLock(f.Near(nil), kit.Orders, kit.ReentrantMember, kit.Patient),
		kit.RedLock(f.Far(nil), kit.Orders, kit.ReentrantMember, kit.Patient)
	for range rounds {
		taken := kit.Lock(t, t.Context(), theirs)
		ctx := holdfast.NewOwner(t.Context())
		var calls [3]<-chan kit.Result
		for _, i := range rand.Perm(len(calls)) { // they come in any order
			if i > 0 {
				calls[i] = kit.GoLock(ctx, l.Lock)
				continue
			}
			calls[i] = kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
				return nil, holdfast.Do(ctx, l.Lock, func(context.Context) error { return nil })
			})
		}
		require.NoError(t, taken.Release())
		var both []*holdfast.Hold
		for _, call := range calls[1:] { // none is released before both are granted
			r := kit.Within(t, 10*time.Second, call, "the lock")
			require.NoError(t, r.Err)
			both = append(both, r.Hold)
		}
		for _, h := range both {
			require.NoError(t, h.Release())
		}
		require.NoError(t, kit.Within(t, 10*time.Second, calls[0], "the stranger's turn").Err)
	}
	f.Empty()
}

// A RedLock may be one of several locks that are needed together.
func TestARedLockIsAMemberOfAMultiLock(t *testing.T) {
	t.Parallel()
	const length = 8 * time.Second
	f, single := kit.NewFleet(t, 5), redistest.Start(t)
	opts := &holdfast.Options{Lease: length}
	several := func(sessions []*holdfast.Session) (*multilock.MultiLock, *rlock.Mutex) {
		stock := rlock.New(kit.Open(t, single.Addr(), opts), "stock", nil)
		return multilock.New(kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient), stock), stock
	}
	near, far := f.Near(opts), f.Far(opts)
	mine, _ := several(near)
	theirs, stock := several(far)
	require.Equal(t, "orders, stock", mine.Name())
	h := f.Everywhere(mine.Lock)
	_, err := theirs.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	repair := f.Strike(kit.Killed, 0, 1)
	f.Keeps(length*5/4, h, kit.RedLock(far, kit.Orders, kit.ReentrantMember, kit.Patient))
	require.NoError(t, kit.Lock(t, h.Context(t.Context()), mine).Release()) // an owner re-enters both
	next := kit.GoLock(t.Context(), theirs.Lock)
	require.NoError(t, h.Release())
	kit.GrantAndRelease(t, next)
	repair()
	f.Empty()

	// Neither is held without the other.
	taken := kit.Lock(t, t.Context(), stock)
	_, err = mine.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	f.Empty()
	require.NoError(t, taken.Release())
	h = kit.Lock(t, t.Context(), mine)
	ctx := h.Context(t.Context())
	repair = f.Strike(kit.Killed, 0, 1, 2)
	kit.Within(t, 2*length, ctx.Done(), "the loss")
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	kit.Await(t, "the other one", func() bool { return len(single.Keyspace(t)) == 0 })
	require.ErrorIs(t, h.Release(), holdfast.ErrLost)
	repair()
	f.Empty()
}

// A RedLock is held for no longer than its session allows, though its members have come at different times and each of
// them could be had again.
func TestARedLockIsNotHeldForLongerThanItMayBe(t *testing.T) {
	t.Parallel()
	const length, most = 6 * time.Second, 16 * time.Second // a renewal may be late by half of that
	servers := kit.StartServers(t, 3)
	sessions := kit.OpenAll(t, servers, &holdfast.Options{Lease: length, MaxHold: most})
	h := kit.Lock(t, t.Context(), kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient))
	began := time.Now()
	for i, srv := range servers[:2] {
		kit.SleepUntil(began.Add(time.Duration(i+1) * most / 4))
		srv.Do(t, "DEL", kit.Orders)
		kit.Await(t, "the member again", func() bool { return srv.Int(t, "EXISTS", kit.Orders) == 1 })
	}
	require.NoError(t, h.Err())
	kit.AwaitFor(t, time.Minute, "its end", func() bool { return h.Err() != nil })
	require.ErrorContains(t, h.Err(), "held for longer than Options.MaxHold, 16s")
	require.ErrorIs(t, h.Release(), holdfast.ErrLost)
}

// A member that is granted later has the note of the call as well.
func TestALaterMemberOfARedLockHasTheNote(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 3)
	var sessions []*holdfast.Session
	for _, srv := range servers {
		client := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
		sessions = append(sessions, kit.OpenKnown(t, client, &holdfast.Options{Lease: kit.Lease}))
	}
	l := kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := kit.Lock(t, holdfast.WithNote(t.Context(), "request 42"), l)
	third := rlock.New(sessions[2], kit.Orders, nil)
	noted := func(not string) (id string) {
		kit.Await(t, "the note", func() bool {
			holders, err := third.Holders(t.Context())
			if err != nil || len(holders) != 1 || holders[0].ID == not || holders[0].Note != "request 42" {
				return false
			}
			id = holders[0].ID
			return true
		})
		return id
	}
	first := noted("")
	servers[2].Do(t, "DEL", kit.Orders)
	noted(first)
	require.NoError(t, h.Release())
}

// A server that is gone for long says nothing of how long a hold was trusted that did not need it.
func TestARedLockTellsUntilWhenItWasTrusted(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	f := kit.NewFleet(t, 3)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: length}), kit.Orders, kit.ReentrantMember, kit.Patient)
	began := time.Now()
	h := f.Everywhere(l.Lock)
	f.Cut(0)
	kit.SleepUntil(time.Now().Add(length * 5 / 4)) // this one is lost
	require.NoError(t, h.Err())
	cut := time.Now()
	f.Cut(1)
	f.Cut(2)
	kit.Within(t, 2*length, h.Context(t.Context()).Done(), "the loss")
	lost, ok := errors.AsType[*holdfast.LostError](h.Err())
	require.True(t, ok, h.Err())
	require.True(t, h.Deadline().After(cut), "by %v", cut.Sub(h.Deadline()))
	require.LessOrEqual(t, lost.Held, h.Deadline().Sub(began))
	f.Heal()
	f.Empty()
}

// A multilock of RedLocks alone has a call as well as a hold.
func TestAMultiLockOfRedLocksIsObserved(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls, holds := map[string]int{}, map[string]int{}
	count := func(of map[string]int, kind string) {
		mu.Lock()
		defer mu.Unlock()
		of[kind]++
	}
	sessions := kit.NewFleet(t, 3).Far(&holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
		Acquire: func(_ context.Context, of holdfast.Subject) func(holdfast.Acquired) {
			return func(holdfast.Acquired) { count(calls, of.Kind) }
		},
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			return func(holdfast.Ended) { count(holds, of.Kind) }
		},
	}})
	h := kit.Lock(t, t.Context(), multilock.New(
		kit.RedLock(sessions, "a", kit.ReentrantMember, kit.Patient),
		kit.RedLock(sessions, "b", kit.ReentrantMember, kit.Patient)))
	require.NoError(t, h.Release())
	mu.Lock()
	defer mu.Unlock()
	for _, of := range []map[string]int{calls, holds} {
		assert.Equal(t, 1, of["multilock"])
		assert.Equal(t, 2, of["redlock"])
	}
}

// Any of the sessions may want to know where its member was taken.
func TestASessionOfARedLockKnowsWhereItsMemberWasTaken(t *testing.T) {
	t.Parallel()
	var log kit.Journal
	servers := kit.StartServers(t, 3)
	sessions := kit.OpenAll(t, servers[:2], nil)
	sessions = append(sessions, kit.Open(t, servers[2].Addr(), &holdfast.Options{
		Lease: kit.Lease, LongHold: 100 * time.Millisecond, Places: true, Logger: log.JsonLogger(),
	}))
	h := kit.Lock(t, t.Context(), kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient))
	const long = "holdfast: held for long"
	kit.Await(t, "a line about the member", func() bool { return len(log.EntriesOf(t, long, kit.Orders)) > 0 })
	assert.Contains(t, log.EntriesOf(t, long, kit.Orders)[0]["taken_at"], "locking.go")
	require.NoError(t, h.Release())
}

// A call waits behind others for the same RedLock, and not behind those for another one that has the same first lock.
func TestRedLocksWithTheSameFirstLockDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	waits := make(chan struct{}, 1)
	near := f.Near(&holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
		Wait: func(of holdfast.Subject) func() {
			if of.Kind == "redlock" {
				select {
				case waits <- struct{}{}:
				default:
				}
			}
			return nil
		},
	}})
	for _, s := range f.Far(nil)[1:3] {
		kit.Lock(t, t.Context(), rlock.New(s, kit.Orders, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := kit.GoLock(ctx, kit.RedLock(near[:3], kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
	kit.Within(t, kit.LongestWait, waits, "the wait")
	second := kit.RedLock([]*holdfast.Session{near[0], near[3], near[4]}, kit.Orders, kit.ReentrantMember, kit.Patient)
	h, err := second.TryLockFor(t.Context(), kit.LongestWait)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, first, "the end of the wait").Err, context.Canceled)
}
