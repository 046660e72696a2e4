package several

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// reentrantLocks returns reentrant locks of a session.
func reentrantLocks(s *holdfast.Session, names ...string) (locks []holdfast.Locker) {
	for _, name := range names {
		locks = append(locks, rlock.New(s, name, nil))
	}
	return locks
}

// One command takes any number of reentrant locks of one session, and another one gives them back.
func TestLocksAlikeAreTakenByOneCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	m := multilock.New(reentrantLocks(s, "a", "b", "c", "d", "e", "f", "g", "h")...)
	// the session learns the server's clock, and the server the scripts
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	srv.ResetStats(t)
	h := kit.Lock(t, t.Context(), m)
	require.Len(t, srv.Keyspace(t), 8)
	_, err := rlock.New(other, "h", nil).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, h.Release())
	require.Empty(t, srv.Keyspace(t))
	require.EqualValues(t, 3, srv.CommandStats(t)["evalsha"], "one of the three is the other session's")

	// Each is an ordinary lock: it can be re-entered by itself, and then outlives the others.
	h = kit.Lock(t, t.Context(), m)
	ctx := h.Context(t.Context())
	inner := kit.Lock(t, ctx, rlock.New(s, "c", nil))
	again := kit.Lock(t, ctx, m)
	require.NoError(t, again.Release())
	require.NoError(t, h.Release())
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.Len(t, srv.Keyspace(t), 1)
	require.NoError(t, inner.Err())
	require.NoError(t, inner.Release())
	require.Empty(t, srv.Keyspace(t))

	// Each is also renewed by itself, and its loss is noticed.
	const lease = 5 * time.Second // a busy machine stands still for a second
	short := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease})
	h = kit.Lock(t, t.Context(), multilock.New(reentrantLocks(short, "a", "b")...))
	before := h.Deadline()
	kit.Await(t, "a renewal", func() bool { return h.Deadline().After(before) })
	srv.Do(t, "DEL", "b")
	kit.Within(t, lease, h.Context(t.Context()).Done(), "the loss")
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	kit.Await(t, "the other one", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// Locks with tokens are not taken by one command, which would issue none.
func TestLocksAlikeWithTokensIssueThem(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	var locks []holdfast.Locker
	for _, name := range []string{"a", "b"} {
		locks = append(locks, rlock.New(s, name, &rlock.Options{Fenced: true}))
	}
	require.NoError(t, kit.Lock(t, t.Context(), multilock.New(locks...)).Release())
	for _, l := range locks {
		token, err := l.(*rlock.Mutex).LastToken(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, token)
	}
}

// Nobody ever sees some of them taken and others not.
func TestLocksAlikeAreTakenInOneStep(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		m := multilock.New(reentrantLocks(kit.Open(t, srv.Addr(), nil), "a", "b", "c")...)
		all.Go(func() {
			for ctx.Err() == nil {
				assert.NoError(t, holdfast.Do(t.Context(), m.Lock, func(context.Context) error {
					kit.SleepUntil(time.Now().Add(time.Millisecond))
					return nil
				}))
			}
		})
	}
	seen := map[int64]int{}
	many := kit.Stressed(500, 2000)
	for ctx.Err() == nil && seen[3] < many {
		seen[srv.Int(t, "EXISTS", "a", "b", "c")]++
	}
	cancel()
	all.Wait()
	require.Equal(t, many, seen[3])
	require.Zero(t, seen[1]+seen[2], "%v", seen)
}

// A caller that wants several at once gets them even if others take single ones all the time.
func TestLocksOfOneKindAreTakenThoughNeverFreeTogether(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	names := []string{"a", "b", "c"}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, name := range names {
		for range 3 {
			l := rlock.New(kit.Open(t, srv.Addr(), nil), name, nil)
			all.Go(func() {
				for ctx.Err() == nil {
					assert.NoError(t, holdfast.Do(t.Context(), l.Lock, func(context.Context) error {
						kit.SleepUntil(time.Now().Add(5 * time.Millisecond))
						return nil
					}))
				}
			})
		}
	}
	kit.Await(t, "all to be taken", func() bool { return srv.Int(t, "EXISTS", names[0], names[1], names[2]) == 3 })
	for range 2 {
		r := kit.Within(t, 15*time.Second,
			kit.GoLock(t.Context(), multilock.New(reentrantLocks(s, names...)...).Lock), "all")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	}
}

// Calls that share an owner get the locks together, even if somebody else waits between them.
func TestLocksAlikeAreReenteredByTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	ctx := holdfast.NewOwner(t.Context())
	for i := range 5 {
		m := multilock.New(reentrantLocks(s, fmt.Sprint("a", i), fmt.Sprint("b", i))...)
		taken := kit.Lock(t, t.Context(), m)
		first := kit.GoLock(ctx, m.Lock)
		kit.Await(t, "the first to wait", func() bool {
			return slices.Contains(srv.Strs(t, "PUBSUB", "CHANNELS"), wire.LockChannel(fmt.Sprint("a", i)))
		})
		stranger := kit.GoLock(t.Context(), m.Lock)
		second := kit.GoLock(ctx, m.Lock)
		require.NoError(t, taken.Release())
		one := kit.Within(t, 10*time.Second, first, "the first")
		two := kit.Within(t, 10*time.Second, second, "the second, which re-enters")
		require.NoError(t, one.Err)
		require.NoError(t, two.Err)
		require.NoError(t, one.Hold.Release())
		require.NoError(t, two.Hold.Release())
		r := kit.Within(t, 10*time.Second, stranger, "the stranger")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	}
	require.Empty(t, srv.Keyspace(t))
}

// In a cluster one call takes the locks of one slot; others are taken one by one.
func TestLocksAlikeInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	s, other := kit.OpenCluster(t, cluster, nil), kit.OpenCluster(t, cluster, nil)
	for _, names := range [][]string{{"{tag}a", "{tag}b"}, {"a", "b", "c"}} {
		h := kit.Lock(t, t.Context(), multilock.New(reentrantLocks(s, names...)...))
		require.Len(t, cluster.Keyspace(t), len(names))
		got := kit.GoLock(t.Context(), multilock.New(reentrantLocks(other, names...)...).Lock)
		require.NoError(t, h.Release())
		r := kit.Within(t, 5*time.Second, got, fmt.Sprint(names))
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
		require.Empty(t, cluster.Keyspace(t))
	}
}

// While a slot moves, neither node serves several keys of it together, of which some are not there. So the locks are
// taken and given back one by one, at once.
func TestLocksAlikeWhoseSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	s := kit.OpenCluster(t, cluster, nil)
	for _, when := range []string{"before it is taken", "before any key moves", "when all keys have moved"} {
		t.Run(when, func(t *testing.T) {
			names := []string{"{" + when + "}a", "{" + when + "}b"}
			m := multilock.New(reentrantLocks(s, names...)...)
			to := cluster.Nodes[0]
			if to == cluster.NodeOf(t, names[0]) {
				to = cluster.Nodes[1]
			}
			var move *redistest.Move
			var h *holdfast.Hold
			if when == "before it is taken" {
				move = cluster.OpenSlot(t, names[0], to)
				var err error
				h, err = m.TryLock(t.Context())
				require.NoError(t, err)
			} else {
				h = kit.Lock(t, t.Context(), m)
				move = cluster.OpenSlot(t, names[0], to)
			}
			if when == "when all keys have moved" {
				move.Take(t, names...)
			}
			require.NoError(t, h.Release())
			move.Finish(t)
			require.Empty(t, cluster.Keyspace(t))
			require.NoError(t, kit.Lock(t, t.Context(), m).Release(), "together again")
			require.Empty(t, cluster.Keyspace(t))
		})
	}
}

// A call that is given up leaves nothing behind, long before the lease ends.
func TestLocksAlikeThatWereGivenUpAreGivenBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: time.Hour})
	m := multilock.New(reentrantLocks(s, "a", "b", "c")...)
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	rule := p.On(kit.ScriptNamed("rlock_acquire_all"), proxy.DropReply, proxy.EveryTime)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := m.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.ErrorContains(t, err, `multilock "a, b, c": try lock: `)
	rule.Remove()
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// A grant that comes when the lease may have ended is not accepted.
func TestLocksAlikeGrantedTooLateAreNotHeld(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	const length = 3 * time.Second
	m := multilock.New(rlock.New(s, "a", &rlock.Options{FixedLease: length}), rlock.New(s, "b", nil))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	rule := p.On(kit.ScriptNamed("rlock_acquire_all"), proxy.HoldReply, proxy.First)
	got := kit.GoLock(t.Context(), m.TryLock)
	rule.Wait(t, 1)
	kit.SleepUntil(time.Now().Add(length))
	rule.Release()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the outcome").Err, holdfast.ErrUnknown)
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// Such a grant is given back, or a call that waits would wait for itself.
func TestLocksAlikeGrantedTooLateAreTakenAnew(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second}) // so that the connection is not given up
	const length = time.Second
	m := multilock.New(rlock.New(s, "a", &rlock.Options{FixedLease: length}),
		rlock.New(s, "b", &rlock.Options{FixedLease: time.Hour}))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release()) // now the server's clock is known
	rule := p.On(kit.ScriptNamed("rlock_acquire_all"), proxy.HoldReply, proxy.First)
	got := kit.GoLock(t.Context(), m.Lock)
	rule.Wait(t, 1)
	kit.SleepUntil(time.Now().Add(length))
	rule.Release()
	require.NoError(t, kit.Granted(t, kit.Told, got, "the locks").Release())
	require.Empty(t, srv.Keyspace(t))
}

// A call for several locks whose ctx ends because somebody else has another one, as in an errgroup, gives back what it
// has got meanwhile.
func TestLocksComeBackThoughTheContextEndedBusy(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	m := multilock.New(rlock.New(s, "a", nil), rlock.New(s, "b", nil))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release()) // the session knows the server's clock
	held := p.On(kit.ScriptNamed("rlock_acquire_all"), proxy.HoldReply, proxy.First)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- kit.ErrorOf(m.Lock(ctx)) }()
	held.Wait(t, 1)
	kit.Await(t, "both", func() bool { return srv.Int(t, "EXISTS", "a", "b") == 2 })
	cancel(holdfast.ErrBusy)
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, ended, "the end"), context.Canceled)
	held.Remove()
	kit.AwaitFor(t, kit.Lease/2, "both to come back", func() bool { return srv.Int(t, "EXISTS", "a", "b") == 0 })
}

// If a lost reply may have granted the locks, they are given back as soon as somebody else is known to have one of
// them.
func TestLocksAlikeThatWereHalfTakenAreGivenBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s, other := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	short := rlock.New(s, "a", &rlock.Options{FixedLease: 5 * time.Second})
	m := multilock.New(short, rlock.New(s, "b", &rlock.Options{FixedLease: time.Hour}))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	rule := p.On(kit.ScriptNamed("rlock_acquire_all"), proxy.DropReply, proxy.First)
	p.RefuseNew(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := kit.GoLock(ctx, m.Lock)
	rule.Wait(t, 1)
	h := kit.Lock(t, t.Context(), rlock.New(other, "a", nil)) // when its lease has ended
	p.RefuseNew(false)
	kit.Await(t, "the other lock to be given back", func() bool { return srv.Int(t, "EXISTS", "b") == 0 })
	cancel()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the end of the wait").Err, context.Canceled)
	require.NoError(t, h.Release())
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// A lock that cannot be released does not keep the others.
func TestLocksAlikeAreReleasedButForTheOneThatCannotBe(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Hour})
	h := kit.Lock(t, t.Context(), multilock.New(reentrantLocks(s, "a", "b", "c")...))
	srv.Do(t, "SET", "b", "no lock")
	require.ErrorIs(t, h.Release(), holdfast.ErrWrongKind)
	require.Equal(t, map[string]redistest.Value{"b": {Type: "string", Content: "no lock"}}, srv.Keyspace(t))
}

// Nor does one whose line cannot be read, or the others would seem to have been lost when they are given back.
func TestLocksAlikeAreNotLostThoughALineCannotBeRead(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	h := kit.Lock(t, t.Context(), multilock.New(reentrantLocks(s, "a", "b", "c")...))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := kit.GoLock(ctx, rlock.New(other, "b", nil).Lock)
	kit.Await(t, "the waiter in its line", func() bool { return srv.Int(t, "EXISTS", wire.LineAlive("b")) == 1 })
	srv.Do(t, "SET", wire.LineAlive("b"), "no line")
	err := h.Release()
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, holdfast.ErrLost)
	require.Zero(t, srv.Int(t, "EXISTS", "a", "c"))
	cancel()
	require.Error(t, kit.Within(t, kit.LongestWait, waiter, "the end of the wait").Err)
}

// A call that has had no reply does not take its own locks for somebody else's, though the server refuses to serve them
// together by then, because their slot moves.
func TestLocksAlikeAreNotBusyBecauseOfALostReply(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	m := multilock.New(reentrantLocks(s, "a", "b")...)
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	takes := kit.ScriptNamed("rlock_acquire_all")
	p.On(takes, proxy.DropReply, proxy.First)
	moves := p.On(takes, proxy.Answer("-TRYAGAIN Multiple keys request during rehashing of slot"), proxy.Second)
	p.On(kit.ScriptNamed("rlock_release"), proxy.Delay(time.Second), proxy.EveryTime)
	_, err := m.TryLock(t.Context())
	moves.Wait(t, 1)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// A call that waits behind a renewal that has no reply has not heard of anybody who has one of them.
func TestLocksAlikeAreNotBusyBehindARenewalAtASilentServer(t *testing.T) {
	t.Parallel()
	s, ctx, end := kit.BehindARenewal(t)
	_, err := multilock.New(reentrantLocks(s, "a", "b")...).TryLockFor(ctx, 200*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrNoReply)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	end()
}
