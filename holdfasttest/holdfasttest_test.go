package holdfasttest_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
)

// A kind makes a lock of a session, or something else that only one at a time can have.
type kind func(s *holdfast.Session, fixed time.Duration) holdfast.Locker

var kinds = map[string]kind{
	"rlock": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return rlock.New(s, "x", &rlock.Options{FixedLease: fixed})
	},
	"fairlock": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return fairlock.New(s, "x", &fairlock.Options{FixedLease: fixed})
	},
	"rwlock": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return rwlock.New(s, "x", &rwlock.Options{FixedLease: fixed}).Write()
	},
	"rwlock writers first": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return rwlock.New(s, "x", &rwlock.Options{FixedLease: fixed, PreferWriter: true}).Write()
	},
	"setlock": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return setlock.New(s, "x", &setlock.Options{FixedLease: fixed})
	},
	"setlock with a token": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return setlock.New(s, "x", &setlock.Options{FixedLease: fixed, Token: "worker"})
	},
	"multilock": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return multilock.New(rlock.New(s, "x", &rlock.Options{FixedLease: fixed}),
			fairlock.New(s, "y", &fairlock.Options{FixedLease: fixed}))
	},
	"multilock of one kind": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return multilock.New(rlock.New(s, "x", &rlock.Options{FixedLease: fixed}),
			rlock.New(s, "y", &rlock.Options{FixedLease: fixed}))
	},
	"semaphore": func(s *holdfast.Session, fixed time.Duration) holdfast.Locker {
		return permit{semaphore.NewExpirable(s, "x", &semaphore.ExpirableOptions{FixedLease: fixed})}
	},
}

// A permit is taken like a lock.
type permit struct{ *semaphore.Expirable }

func (p permit) Lock(ctx context.Context) (*holdfast.Hold, error) {
	if _, err := p.TrySetPermits(ctx, 1); err != nil {
		return nil, err
	}
	return p.Acquire(ctx)
}

func (p permit) TryLock(ctx context.Context) (*holdfast.Hold, error) { return p.TryAcquire(ctx) }

// eachKind runs a test for each kind. It begins with a lock that one session holds and another one waits for.
func eachKind(t *testing.T, fixed time.Duration,
	test func(*testing.T, *holdfasttest.Server, *holdfast.Hold, <-chan result),
) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := holdfasttest.NewServer(t)
			a, b := k(server.Open(nil), fixed), k(server.Open(nil), fixed)
			hold := mustLock(t, a.Lock)
			got := inBackground(t.Context(), b.Lock)
			waiting(t, server, 1)
			test(t, server, hold, got)
		})
	}
}

// lost requires that a hold is lost and that everybody can know it.
func lost(t *testing.T, hold *holdfast.Hold, ctx context.Context) {
	t.Helper()
	err, ok := errors.AsType[*holdfast.LostError](hold.Err())
	require.True(t, ok, "%v", hold.Err())
	assert.Contains(t, hold.Name(), err.Name, "or one of them")
	assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
	assert.ErrorIs(t, hold.Release(), holdfast.ErrLost)
}

func TestLose(t *testing.T) {
	eachKind(t, 0, func(t *testing.T, _ *holdfasttest.Server, hold *holdfast.Hold, got <-chan result) {
		ctx := hold.Context(t.Context())
		holdfasttest.Lose(t, hold)
		lost(t, hold, ctx)
		r := within(t, got, "the lock")
		require.NoError(t, r.err)
		require.NoError(t, r.hold.Release())
	})
}

// A lock that the code under test has taken itself is lost by name.
func TestLoseByName(t *testing.T) {
	eachKind(t, 0, func(t *testing.T, server *holdfasttest.Server, hold *holdfast.Hold, got <-chan result) {
		ctx := hold.Context(t.Context())
		server.Lose("x") // one member of a multilock
		lost(t, hold, ctx)
		require.NoError(t, within(t, got, "the lock").err)
	})
}

func TestLoseByNameLosesAllThatHaveIt(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	a, b := server.Open(nil), server.Open(nil)
	permits := semaphore.NewExpirable(a, "pool", nil)
	_, err := permits.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	first, second := mustLock(t, permits.TryAcquire), mustLock(t, semaphore.NewExpirable(b, "pool", nil).TryAcquire)
	other := mustLock(t, rlock.New(a, "pool:2", nil).TryLock)
	server.Lose("pool")
	require.ErrorIs(t, first.Err(), holdfast.ErrLost)
	require.ErrorIs(t, second.Err(), holdfast.ErrLost)
	require.NoError(t, other.Err())
	holdfasttest.AssertPermits(t, permits, 3)
}

func TestThereIsNothingToLoseOfThatName(t *testing.T) {
	t.Parallel()
	fake := &fakeTest{TB: t}
	fake.run(func() {
		server := holdfasttest.NewServer(fake)
		require.NoError(t, mustLock(t, rlock.New(server.Open(nil), "orders:42", nil).TryLock).Release())
		server.Lose("orders:42")
	})
	require.Equal(t, []string{`holdfasttest: Lose: no session of the server's holds "orders:42"`}, fake.failures)
}

func TestAssertCounts(t *testing.T) {
	t.Parallel()
	s := holdfasttest.Open(t)
	permits, expirable, ready := semaphore.New(s, "pool"), semaphore.NewExpirable(s, "leased", nil),
		latch.New(s, "ready")
	for _, set := range []func(context.Context, int) (bool, error){
		permits.TrySetPermits, expirable.TrySetPermits,
		ready.TrySetCount,
	} {
		_, err := set(t.Context(), 3)
		require.NoError(t, err)
	}
	require.NoError(t, permits.Acquire(t.Context(), 2))
	mustLock(t, expirable.TryAcquire)
	require.NoError(t, ready.CountDown(t.Context()))
	holdfasttest.AssertPermits(t, permits, 1)
	holdfasttest.AssertPermits(t, expirable, 2)
	holdfasttest.AssertCount(t, ready, 2)

	fake := &fakeTest{TB: t}
	fake.run(func() {
		holdfasttest.AssertPermits(fake, permits, 3)
		holdfasttest.AssertPermits(fake, expirable, 3)
		holdfasttest.AssertCount(fake, ready, 0)
	})
	require.Equal(t, []string{
		`holdfasttest: AssertPermits: 1 permit of "pool" is free, not 3`,
		`holdfasttest: AssertPermits: 2 permits of "leased" are free, not 3`,
		`holdfasttest: AssertCount: the count of "ready" is 2, not 0`,
	}, fake.failures)

	require.NoError(t, s.Close())
	fake = &fakeTest{TB: t}
	fake.run(func() {
		holdfasttest.AssertPermits(fake, permits, 1)
		holdfasttest.AssertCount(fake, ready, 2)
	})
	require.Len(t, fake.failures, 2)
	for _, failure := range fake.failures {
		assert.Contains(t, failure, holdfast.ErrClosed.Error())
	}
}

// A holder of only a moment has not published yet who it is; a failing test takes the time to wait for that.
func TestAssertFreeNamesTheLabelOfAYoungHold(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	l := rlock.New(server.Open(&holdfast.Options{Label: "billing"}), "x", nil)
	hold := mustLock(t, l.TryLock)
	silent := rlock.New(server.Open(&holdfast.Options{Anonymous: true}), "y", nil)
	mustLock(t, silent.TryLock)
	fake := &fakeTest{TB: t}
	fake.run(func() { holdfasttest.AssertFree(fake, l, silent) })
	require.Len(t, fake.failures, 2)
	assert.Contains(t, fake.failures[0], "by "+hold.ID())
	assert.Contains(t, fake.failures[0], `label "billing"`)
	assert.NotContains(t, fake.failures[1], "label")
}

func TestWhatIsLostIsFree(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	for name, k := range kinds {
		a, b := server.Open(nil), server.Open(nil)
		hold := mustLock(t, k(a, 0).Lock)
		holdfasttest.Lose(t, hold)
		again, err := k(b, 0).TryLock(t.Context())
		require.NoError(t, err, name)
		require.NoError(t, again.Release())
		server.Forget()
	}
}

func TestNestedHoldsAreLostTogether(t *testing.T) {
	t.Parallel()
	l := rlock.New(holdfasttest.Open(t), "x", nil)
	outer := mustLock(t, l.TryLock)
	inner, err := l.TryLock(outer.Context(t.Context()))
	require.NoError(t, err)
	ctx := outer.Context(t.Context())
	holdfasttest.Lose(t, inner)
	lost(t, inner, inner.Context(t.Context()))
	lost(t, outer, ctx)
	holdfasttest.AssertFree(t, l)
}

// A hold of several locks may contain another hold of several locks.
func TestAllThatSeveralLocksConsistOfIsLost(t *testing.T) {
	t.Parallel()
	var servers []holdfast.Locker
	var free []holdfasttest.Lock
	for range 3 {
		l := rlock.New(holdfasttest.Open(t), "x", nil)
		servers, free = append(servers, l), append(free, l)
	}
	y := rlock.New(holdfasttest.Open(t), "y", nil)
	hold := mustLock(t, multilock.New(multilock.NewRedLock(servers, nil), y).TryLock)
	for _, l := range free { // two grants are enough for the RedLock
		eventually(t, "the third", func() bool {
			locked, err := l.Locked(t.Context())
			require.NoError(t, err)
			return locked
		})
	}
	ctx := hold.Context(t.Context())
	holdfasttest.Lose(t, hold)
	lost(t, hold, ctx)
	holdfasttest.AssertFree(t, append(free, y)...)
}

func TestThereIsNothingToLose(t *testing.T) {
	t.Parallel()
	hold := mustLock(t, rlock.New(holdfasttest.Open(t), "orders:42", nil).TryLock)
	require.NoError(t, hold.Release())
	fake := &fakeTest{TB: t}
	fake.run(func() { holdfasttest.Lose(fake, hold) })
	require.Len(t, fake.failures, 1)
	assert.Equal(t, `holdfasttest: Lose: the hold of "orders:42" has ended already: `+holdfast.ErrNotHeld.Error(),
		fake.failures[0])
}

func TestLoseDoesNotWaitForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	l := rlock.New(server.Open(nil), "x", nil)
	hold := mustLock(t, l.TryLock)
	server.Stop()
	holdfasttest.Lose(t, hold)
	require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
	server.Restart()
	mustLock(t, l.Lock) // it was given back as soon as that was possible
}

func TestAssertFreeSaysWhoHoldsIt(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	s := server.Open(nil)
	rw := rwlock.New(s, "catalog", nil)
	held, free := rlock.New(s, "orders:42", nil), rlock.New(s, "orders:43", nil)
	hold, reader := mustLock(t, held.TryLock), mustLock(t, rw.Read().TryLock)

	fake := &fakeTest{TB: t}
	fake.run(func() { holdfasttest.AssertFree(fake, free, held, rw.Read(), rw.Write()) })
	require.Len(t, fake.failures, 2)
	assert.Contains(t, fake.failures[0],
		`holdfasttest: AssertFree: rlock "orders:42" is held`+"\n\tby "+hold.ID()+", 1×, for another ")
	assert.Contains(t, fake.failures[0], "s if it is not renewed")
	assert.Contains(t, fake.failures[1], `rwlock.Read "catalog" is held`+"\n\tby "+reader.ID())

	require.NoError(t, hold.Release())
	require.NoError(t, reader.Release())
	holdfasttest.AssertFree(t, held, rw.Read(), rw.Write())

	require.NoError(t, s.Close())
	fake = &fakeTest{TB: t}
	fake.run(func() { holdfasttest.AssertFree(fake, held) })
	require.Len(t, fake.failures, 1)
	assert.Contains(t, fake.failures[0], `cannot tell whether rlock "orders:42" is free`)
	assert.Contains(t, fake.failures[0], holdfast.ErrClosed.Error())
}

// A lease that ends because time passes is told to who watches, at once.
func TestWatchersAreToldWhenTimePasses(t *testing.T) {
	t.Parallel()
	for name, make := range kinds {
		server := holdfasttest.NewServer(t)
		watched, ok := make(server.Open(nil), 0).(interface {
			Watch(ctx context.Context) iter.Seq2[holdfast.State, error]
		})
		if !ok { // several, or a semaphore
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold, err := make(server.Open(nil), time.Minute).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, hold.Detach())
			took := stopwatch()
			for state, err := range watched.Watch(t.Context()) {
				require.NoError(t, err)
				if state != holdfast.Held {
					require.Equal(t, holdfast.Expired, state)
					break
				}
				go server.Advance(time.Minute + time.Second)
			}
			require.Less(t, took(), 4*time.Second)
		})
	}
}
