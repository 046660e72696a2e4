package several

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// pair is a multilock of two reentrant locks.
func pair(s *holdfast.Session, a, b string) *multilock.MultiLock {
	return multilock.New(rlock.New(s, a, nil), rlock.New(s, b, nil))
}

func TestAMultiLockHasAllOrNone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	m := multilock.New(rlock.New(s, "c", nil), fairlock.New(s, "a", nil), rwlock.New(s, "b", nil).Read(),
		setlock.New(s, "d", nil))
	require.Equal(t, "a, b, c, d", m.Name())
	taken := kit.Lock(t, t.Context(), rlock.New(other, "c", nil))
	_, err := m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.ErrorContains(t, err, `multilock "a, b, c, d": try lock: rlock "c": try lock: `)
	kit.WaitInVain(t, m.TryLockFor, time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = m.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	kit.Await(t, "that nothing else is held", func() bool { return len(srv.Keyspace(t)) == 1 })
	require.NoError(t, taken.Release())

	h := kit.Lock(t, t.Context(), m)
	require.Equal(t, "a, b, c, d", h.Name())
	require.Empty(t, h.ID())
	require.Zero(t, h.Token())
	require.NoError(t, h.Err())
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	require.Greater(t, time.Until(h.Deadline()), 50*time.Second)
	ctx = h.Context(t.Context())
	inner := kit.Lock(t, ctx, m2(s)) // any call with the context re-enters
	require.NoError(t, inner.Release())
	require.NoError(t, h.Release())
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
	require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
	require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
	require.Empty(t, srv.Keyspace(t))
}

// m2 returns some of the locks of the test above, in another order, one of them inside a multilock.
func m2(s *holdfast.Session) *multilock.MultiLock {
	return multilock.New(multilock.New(fairlock.New(s, "a", nil)), rlock.New(s, "c", nil))
}

func TestAMultiLockNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	srv.ResetStats(t)
	for _, c := range []struct {
		says string
		m    *multilock.MultiLock
	}{
		{`multilock "": lock: no locks are given`, multilock.New()},
		{`multilock "": lock: a lock is nil`, multilock.New(rlock.New(s, "a", nil), nil)},
		{
			`multilock "a, a": lock: lock "a" is given twice`,
			multilock.New(rlock.New(s, "a", nil), rlock.New(s, "a", &rlock.Options{Fenced: true})),
		},
		{`multilock "b, b": lock: lock "b" is given twice`, multilock.New(rlock.New(s, "b", nil), fairlock.New(s, "b", nil))},
		{
			`multilock "c, c": lock: lock "c" is given twice`,
			multilock.New(rwlock.New(s, "c", nil).Read(), multilock.New(rwlock.New(s, "c", nil).Read())),
		},
		{`multilock ", x": lock: lock "": name is empty`, pair(s, "", "x")},
		{
			`multilock "e, f": lock: lock "f": Options.FixedLea`,
			multilock.New(rlock.New(s, "e", nil), rlock.New(s, "f", &rlock.Options{FixedLease: 1})),
		},
		{`lock "": 0 locks are given, must be at least 3`, multilock.New(multilock.NewRedLock(nil, nil))},
		{`lock: a lock is nil`, multilock.New((*rlock.Mutex)(nil))},
		{`lock: a lock is nil`, multilock.New(rlock.New(s, "h", nil), multilock.New(rlock.New(s, "i", nil), nil))},
		{`lock "g": Options.Token is set, must not be`, multilock.New(setlock.New(s, "g", &setlock.Options{Token: "host"}))},
	} {
		_, err := c.m.Lock(t.Context())
		assert.ErrorContains(t, err, c.says)
		_, err = c.m.TryLock(t.Context())
		assert.Error(t, err)
		_, err = c.m.TryLockFor(t.Context(), time.Second)
		assert.Error(t, err)
	}
	assert.Zero(t, srv.CommandStats(t)["evalsha"])
	halves := rwlock.New(s, "d", nil)
	require.NoError(t, kit.Lock(t, t.Context(), multilock.New(halves.Write(), rlock.New(other, "a", nil))).Release())
}

// A tagged is a lock of the user's own. Go cannot compare two of them.
type tagged struct {
	holdfast.Locker
	tags any
}

// Locks that cannot be compared are not known to be one, which re-enters.
func TestAMultiLockOfLocksThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := tagged{rlock.New(kit.Open(t, srv.Addr(), nil), "a", nil), []string{"tag"}}
	require.NoError(t, kit.Lock(t, t.Context(), multilock.New(l, l)).Release())
	require.Empty(t, srv.Keyspace(t))
}

// An observer that panics when it is told that a hold has ended, which the call could not use, can be survived by the
// caller; and the other holds are given back.
func TestACallerOfAMultiLockMayRecover(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Observer: &holdfast.Observer{
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			return func(holdfast.Ended) {
				if of.Name == "a" {
					panic("no more")
				}
			}
		},
	}})
	taken := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "c", nil))
	m := multilock.New(rlock.New(s, "a", nil), fairlock.New(s, "b", nil), rlock.New(s, "c", nil))
	require.PanicsWithValue(t, "no more", func() { _, _ = m.TryLock(t.Context()) })
	require.NoError(t, taken.Release())
	kit.Await(t, "the others", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// The hold ends when that of any member does, and the others are given back at once.
func TestAMultiLockEndsWithItsFirstMember(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 3 * time.Second})
	m := multilock.New(rlock.New(a, "a", nil), rlock.New(b, "b", nil))
	for name, end := range map[string]struct {
		do  func()
		err error
	}{
		"lost":   {func() { srv.Do(t, "DEL", "b") }, holdfast.ErrLost},
		"forced": {func() { _, _ = rlock.New(a, "a", nil).ForceUnlock(t.Context()) }, holdfast.ErrLost},
	} {
		h := kit.Lock(t, t.Context(), m)
		ctx := h.Context(t.Context())
		end.do()
		kit.Within(t, 4*time.Second, ctx.Done(), name)
		require.ErrorIs(t, context.Cause(ctx), end.err)
		require.ErrorIs(t, h.Err(), end.err)
		kit.Await(t, "the others", func() bool { return len(srv.Keyspace(t)) == 0 })
		require.ErrorIs(t, h.Release(), end.err)
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), end.err)
		require.ErrorIs(t, h.Detach(), end.err)
	}
	h := kit.Lock(t, t.Context(), m)
	require.NoError(t, b.Close())
	require.ErrorIs(t, h.Err(), holdfast.ErrClosed)
	kit.Await(t, "the others", func() bool { return len(srv.Keyspace(t)) == 0 })
	require.ErrorIs(t, h.Release(), holdfast.ErrClosed)
}

// Every member is released, whatever happens to the others, and the error has everything that went wrong.
func TestAMultiLockReleasesAll(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	var locks []holdfast.Locker
	for _, name := range []string{"a", "b", "c", "d"} {
		locks = append(locks, rlock.New(s, name, &rlock.Options{FixedLease: time.Minute}))
	}
	h := kit.Lock(t, t.Context(), multilock.New(locks...))
	srv.Do(t, "DEL", "a", "c") // nobody has noticed
	err := h.Release()
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.ErrorContains(t, err, `lost "a"`)
	require.ErrorContains(t, err, `lost "c"`)
	require.Empty(t, srv.Keyspace(t))

	h = kit.Lock(t, t.Context(), multilock.New(locks...))
	require.NoError(t, h.Detach())
	require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
	require.NoError(t, s.Close())
	require.Len(t, srv.Keyspace(t), 4)
}

// In whatever order locks are given, and on however many servers, callers do not deadlock; and what they protect is
// theirs alone.
func TestMultiLocksDoNotWaitInACircle(t *testing.T) {
	t.Parallel()
	const callers, rounds, names = 8, 6, 4
	one, two := redistest.Start(t), redistest.Start(t)
	var inside [2 * names]atomic.Int64
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range callers {
		sessions := []*holdfast.Session{kit.Open(t, one.Addr(), nil), kit.Open(t, two.Addr(), nil)}
		all.Go(func() {
			for range rounds {
				picked := rand.Perm(2 * names)[:2+rand.IntN(3)]
				var locks []holdfast.Locker
				for _, i := range picked {
					locks = append(locks, rlock.New(sessions[i%2], fmt.Sprint("lock ", i/2), nil))
				}
				assert.NoError(t, holdfast.Do(ctx, multilock.New(locks...).Lock, func(context.Context) error {
					for _, i := range picked {
						assert.EqualValues(t, 1, inside[i].Add(1))
					}
					kit.SleepUntil(time.Now().Add(rand.N(3 * time.Millisecond)))
					for _, i := range picked {
						inside[i].Add(-1)
					}
					return nil
				}))
			}
		})
	}
	all.Wait()
	kit.Await(t, "empty servers", func() bool { return kit.KeysLeft(t, []*redistest.Server{one, two}) == 0 })
}

// A waiter for one lock delays callers that need no more than the others by at most a second.
func TestAMultiLockThatWaitsLetsOthersPass(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	taken := kit.Lock(t, t.Context(), fairlock.New(other, "b", nil))
	got := kit.GoLock(t.Context(), multilock.New(rlock.New(s, "a", nil), fairlock.New(s, "b", nil)).Lock)
	kit.Await(t, "the first member", func() bool { return srv.Int(t, "EXISTS", "a") == 1 })
	took := kit.Stopwatch()
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(other, "a", nil)).Release())
	require.Less(t, took(), 3*time.Second, "it waits without end")
	require.NoError(t, taken.Release())
	r := kit.Within(t, kit.LongestWait, got, "both")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
}

// A call that takes its members one by one gets them, too, if others hold each for longer than its first patience.
func TestAMultiLockIsNotStarvedByWhoHoldsItsMembersForLong(t *testing.T) {
	t.Parallel()
	const longerThanItsPatience = 1200 * time.Millisecond
	srv := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer func() {
		cancel()
		others.Wait()
	}()
	members := func() (a, b holdfast.Locker) { // one by one, as they are of two kinds
		s := kit.Open(t, srv.Addr(), nil)
		return rlock.New(s, "a", nil), fairlock.New(s, "b", nil)
	}
	hold := func(l holdfast.Locker) {
		others.Go(func() {
			for ctx.Err() == nil {
				if h, err := l.Lock(ctx); err == nil {
					kit.SleepUntil(time.Now().Add(longerThanItsPatience))
					assert.NoError(t, h.Release())
				}
			}
		})
	}
	for range 3 {
		a, b := members()
		hold(a)
		hold(b)
	}
	kit.Await(t, "two holders", func() bool { return srv.Int(t, "EXISTS", "a", "b") == 2 })
	h, err := multilock.New(members()).TryLockFor(t.Context(), 50*time.Second)
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

// Nothing is left behind, whenever a wait is cancelled and whatever fails on the way.
func TestAMultiLockLeavesNoMemberBehind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	s, behind := kit.Open(t, srv.Addr(), nil), kit.Open(t, proxied.Addr(), nil)
	m := multilock.New(rlock.New(s, "a", nil), rlock.New(behind, "b", nil), rlock.New(s, "c", nil))
	taken := kit.Lock(t, t.Context(), rlock.New(s, "c", nil))
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Millisecond))
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	kit.Await(t, "the others", func() bool { return len(srv.Keyspace(t)) == 1 })
	require.NoError(t, taken.Release())

	rule := proxied.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.DropReply, proxy.EveryTime)
	_, err := m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	rule.Remove()
	kit.Await(t, "what was given up", func() bool { return len(srv.Keyspace(t)) == 0 })

	srv.Do(t, "SET", "c", "no lock")
	_, err = m.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
	require.Len(t, srv.Keyspace(t), 1)
}
