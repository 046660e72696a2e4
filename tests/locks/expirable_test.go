package locks

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestExpirablePermitsAreTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 5, 0)
	b := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 9, time.Hour)
	kit.RequirePermits(t, b, 5, 0)
	one, err := a.Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, "exports", one.Name())
	require.Len(t, one.ID(), 32)
	three, err := b.AcquireN(t.Context(), 3)
	require.NoError(t, err)
	require.Len(t, three, 3)
	kit.RequirePermits(t, a, 1, 4)
	require.ElementsMatch(t, append(kit.HoldIDs(three...), one.ID()), kit.PermitIDs(t, srv))
	holds, err := a.TryAcquireN(t.Context(), 2)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.Empty(t, holds)
	two, err := a.TryAcquire(t.Context())
	require.NoError(t, err)
	const wait = 2 * time.Second // long enough that its looks have answers
	began := time.Now()
	_, err = b.TryAcquireFor(t.Context(), wait)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `semaphore.Expirable "exports": try acquire for: `)
	require.GreaterOrEqual(t, time.Since(began), wait)
	require.NoError(t, one.Release())
	require.ErrorIs(t, one.Release(), holdfast.ErrNotHeld)
	require.NoError(t, three[1].Release())
	require.NoError(t, a.Release(t.Context(), three[0].ID(), three[2].ID()))
	kit.RequirePermits(t, a, 4, 1)
	require.ErrorIs(t, three[0].Release(), holdfast.ErrLost)
	require.ErrorIs(t, a.Release(t.Context(), three[0].ID()), holdfast.ErrNotHeld)
	require.ErrorIs(t, a.Release(t.Context(), two.ID(), three[0].ID()), holdfast.ErrNotHeld, "all or none")
	require.NoError(t, two.Err())
	require.NoError(t, a.Release(t.Context(), two.ID()))
	require.ErrorIs(t, two.Err(), holdfast.ErrLost, "the same session knows at once")
	kit.RequirePermits(t, a, 5, 0)

	require.NoError(t, a.AddPermits(t.Context(), -4))
	kit.RequirePermits(t, a, 1, 0)
	require.NoError(t, b.SetPermits(t.Context(), 3))
	kit.RequirePermits(t, a, 3, 0)
	_, err = b.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, a.SetPermits(t.Context(), 1))
	kit.RequirePermits(t, b, -1, 2)
	was, err := a.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.Empty(t, srv.Keyspace(t))
	was, err = a.Delete(t.Context())
	require.NoError(t, err)
	require.False(t, was)
}

func TestLeasesOfPermits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	for name, c := range map[string]struct {
		fixed, least, most time.Duration
	}{
		"renewed": {0, kit.Lease * 2 / 3, kit.Lease},
		"fixed":   {time.Hour, 59 * time.Minute, time.Hour},
		"forever": {semaphore.Forever, semaphore.Forever, semaphore.Forever},
	} {
		t.Run(name, func(t *testing.T) {
			e := kit.NewExports(t, s, 1, c.fixed)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			left, err := e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, left, c.least)
			assert.LessOrEqual(t, left, c.most)
			assert.NoError(t, h.Err())
			assert.Greater(t, time.Until(h.Deadline()), c.least/100*97)

			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 2*time.Hour))
			left, err = e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			assert.Greater(t, left, 119*time.Minute)
			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), semaphore.Forever))
			left, err = e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			assert.Equal(t, semaphore.Forever, left)
			assert.Equal(t, "922337203685477", srv.Strs(t, "ZRANGE", "{exports}:timeout", "0", "-1", "WITHSCORES")[1])
			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 400*time.Millisecond))
			assert.Less(t, time.Until(h.Deadline()), 400*time.Millisecond)
			ctx := h.Context(t.Context())
			kit.Within(t, 2*time.Second, ctx.Done(), "the end")
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
			kit.Await(t, "the permit", func() bool {
				n, err := e.AvailablePermits(t.Context())
				return assert.NoError(t, err) && n == 1
			})
			for what, err := range map[string]error{
				"RemainingLease": kit.ErrorOf(e.RemainingLease(t.Context(), h.ID())),
				"UpdateLease":    e.UpdateLease(t.Context(), h.ID(), time.Hour),
				"Release":        e.Release(t.Context(), h.ID()),
			} {
				assert.ErrorIs(t, err, holdfast.ErrNotHeld, what)
			}
		})
	}
}

// If a process dies, its permits come back; waiters sleep exactly that long.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	srv := redistest.Start(t)
	e := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 3, 0)
	dead, err := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 0, lease).AcquireN(t.Context(), 3)
	require.NoError(t, err)
	for _, h := range dead {
		require.NoError(t, h.Detach())
	}
	srv.ResetStats(t)
	took := kit.Stopwatch()
	holds, err := e.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, holds, 2)
	require.Less(t, took(), lease+time.Second) // one that is not exact looks after 4 s
	require.LessOrEqual(t, srv.CommandStats(t)["evalsha"], int64(2+3), "two attempts to learn the clock, and it slept")
	kit.RequirePermits(t, e, 1, 2)
}

// A caller that wants many permits is not overtaken by those that want few, and those behind follow while there are
// permits.
func TestThoseWhoWaitForPermitsAreServedInOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, s, 5, 0)
	all, err := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 5, 0).AcquireN(t.Context(), 5)
	require.NoError(t, err)
	got := make(chan int, 4)
	var calls sync.WaitGroup
	wait := func(n int) {
		calls.Go(func() {
			_, err := e.AcquireN(t.Context(), n)
			assert.NoError(t, err)
			got <- n
		})
		kit.Await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
		kit.SleepUntil(time.Now().Add(20 * time.Millisecond)) // time for the others to join the line behind it
	}
	wait(3)
	wait(1)
	wait(1)
	for _, h := range all[:2] {
		require.NoError(t, h.Release())
	}
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // nobody may take them in this time
	require.Empty(t, got)
	kit.RequirePermits(t, e, 2, 3)
	srv.ResetStats(t)
	require.NoError(t, all[2].Release())
	require.Equal(t, 3, kit.Within(t, kit.Told, got, "the three"))
	for _, h := range all[3:] {
		require.NoError(t, h.Release())
	}
	for range 2 {
		require.Equal(t, 1, kit.Within(t, kit.Told, got, "the one"))
	}
	calls.Wait()
	require.LessOrEqual(t, srv.CommandStats(t)["evalsha"], int64(3+1+2*2), "one is woken for each permit, and the next")
}

// A permit has no owner: the context of its hold carries the caller's, and whoever has it takes more permits.
func TestPermitsHaveNoOwner(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, s, 2, 0)
	outer := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	first, err := e.Acquire(outer.Context(t.Context()))
	require.NoError(t, err)
	ctx := first.Context(outer.Context(t.Context()))
	inner, err := rlock.New(s, "orders", nil).TryLock(ctx)
	require.NoError(t, err, "the owner is the lock's")
	require.Equal(t, outer.ID(), inner.ID())
	another, err := e.TryAcquire(ctx)
	require.NoError(t, err)
	require.NotEqual(t, first.ID(), another.ID())
	_, err = e.TryAcquire(ctx)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, first.Release())
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.NoError(t, another.Err())

	bare, err := e.Acquire(t.Context())
	require.NoError(t, err)
	one, err := rlock.New(s, "a", nil).TryLock(bare.Context(t.Context()))
	require.NoError(t, err)
	_, err = rlock.New(s, "a", nil).TryLock(bare.Context(t.Context()))
	require.ErrorIs(t, err, holdfast.ErrBusy, "without an owner each call has its own")
	require.NoError(t, one.Release())
}

// A permit that is released elsewhere by its id is lost here, unless it was detached; and Close gives back the
// others.
func TestPermitsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e, elsewhere := kit.NewExports(t, s, 5, 0), kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 5, 0)
	holds, err := e.AcquireN(t.Context(), 5)
	require.NoError(t, err)
	require.NoError(t, holds[0].Detach())
	require.NoError(t, holds[1].Detach())
	ctx := holds[2].Context(t.Context())
	require.NoError(t, elsewhere.Release(t.Context(), holds[0].ID(), holds[2].ID()))
	kit.RequirePermits(t, e, 2, 3)
	kit.Within(t, kit.Lease/3+kit.Told, ctx.Done(), "the next renewal")
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
	require.ErrorIs(t, holds[2].Release(), holdfast.ErrLost)
	require.NoError(t, elsewhere.Release(t.Context(), holds[3].ID()))
	require.ErrorIs(t, holds[3].Release(), holdfast.ErrLost, "nobody noticed until then")
	require.NoError(t, s.Close())
	require.ErrorIs(t, holds[4].Err(), holdfast.ErrClosed)
	kit.RequirePermits(t, elsewhere, 4, 1)
	require.Equal(t, kit.HoldIDs(holds[1]), kit.PermitIDs(t, srv), "Close leaves detached holds alone")
}

// An id means nothing to another semaphore: it changes nothing, and the permit stays held.
func TestAPermitIsGivenBackToItsOwnSemaphoreAlone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	s := kit.Open(t, proxied.Addr(), nil)
	e := kit.NewExports(t, s, 2, time.Hour)
	other := semaphore.NewExpirable(s, "imports", nil)
	require.NoError(t, other.SetPermits(t.Context(), 2))
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	theirs, err := other.Acquire(t.Context())
	require.NoError(t, err)
	before := h.Deadline()

	require.ErrorIs(t, other.Release(t.Context(), h.ID()), holdfast.ErrNotHeld)
	require.ErrorIs(t, other.Release(t.Context(), theirs.ID(), h.ID()), holdfast.ErrNotHeld)
	require.ErrorIs(t, other.UpdateLease(t.Context(), h.ID(), time.Second), holdfast.ErrNotHeld)
	dropped := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "release"), proxy.DropReply, proxy.EveryTime)
	require.ErrorIs(t, other.Release(t.Context(), h.ID()), holdfast.ErrUnknown)
	dropped.Remove()
	require.NoError(t, h.Err())
	require.NoError(t, theirs.Err())
	require.Equal(t, before, h.Deadline())
	kit.RequirePermits(t, e, 1, 1)
	require.NoError(t, h.Release())
	kit.RequirePermits(t, e, 2, 0)

	h, err = e.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, semaphore.NewExpirable(s, "exports", nil).Release(t.Context(), h.ID()))
	require.ErrorIs(t, h.Err(), holdfast.ErrLost, "another value of the same semaphore")
}

func TestADeletedSemaphoreTakesItsPermitsAlong(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	e, elsewhere := kit.NewExports(t, s, 2, 0),
		kit.NewExports(t, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second}), 2, 0)
	here, err := e.Acquire(t.Context())
	require.NoError(t, err)
	there, err := elsewhere.Acquire(t.Context())
	require.NoError(t, err)
	was, err := e.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, here.Err(), holdfast.ErrLost)
	kit.Await(t, "the next renewal", func() bool { return there.Err() != nil })
	require.ErrorIs(t, there.Err(), holdfast.ErrLost)
	require.Empty(t, srv.Keyspace(t))
}

// Nobody here trusts a permit of a semaphore that may yet be deleted.
func TestASemaphoreThatMayBeDeletedTakesItsPermitsAlong(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), nil), 1, 0)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	deletes := proxied.On(kit.ScriptNamed("semaphore_delete"), proxy.Stall, proxy.First)
	kit.GiveUp(t, deletes, func(ctx context.Context) error { return kit.ErrorOf(e.Delete(ctx)) })
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
}

// A Delete that the server executes late removes no other semaphore, whose holders would not learn of it.
func TestALateDeleteRemovesNoOtherSemaphore(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for name, remove := range map[string]func(ctx context.Context, s *holdfast.Session) (bool, error){
		"counting": func(ctx context.Context, s *holdfast.Session) (bool, error) {
			return semaphore.New(s, "pool").Delete(ctx)
		},
		"expirable": func(ctx context.Context, s *holdfast.Session) (bool, error) {
			return semaphore.NewExpirable(s, "exports", nil).Delete(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, proxied := kit.StartProxied(t)
			opts := &holdfast.Options{Lease: lease}
			s, other := kit.Open(t, proxied.Addr(), opts), kit.Open(t, srv.Addr(), opts)
			require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "warm", nil)).Release()) // it knows the server's clock
			deletes := proxied.On(kit.ScriptNamed("semaphore_delete"), proxy.Stall, proxy.First)
			kit.GiveUp(t, deletes, func(ctx context.Context) error { return kit.ErrorOf(remove(ctx, s)) })
			sent := time.Now() // or earlier

			p, e := kit.NewPool(t, other, 1), kit.NewExports(t, other, 1, time.Hour)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			kit.SleepUntil(sent.Add(lease/3 + 10*time.Millisecond))
			deletes.Release()
			deletes.WaitAnswered(t, 1)
			free(t, p, 1)
			kit.RequirePermits(t, e, 0, 1)
			require.NoError(t, h.Release())
		})
	}
}

// Nor does a session trust for long what it was granted by a semaphore that it may have deleted afterwards.
func TestADeleteWithoutAReplyIsNoticed(t *testing.T) {
	t.Parallel()
	const fixed = 18 * time.Second
	_, proxied := kit.StartProxied(t)
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 2 * time.Second}), 1, fixed)
	deletes := proxied.On(kit.ScriptNamed("semaphore_delete"), proxy.Stall, proxy.First)
	kit.GiveUp(t, deletes, func(ctx context.Context) error { return kit.ErrorOf(e.Delete(ctx)) })
	h, err := e.Acquire(t.Context()) // by another connection
	require.NoError(t, err)
	kit.SleepUntil(time.Now().Add(time.Second)) // then the session has asked for what it holds, because of that
	deletes.Release()
	deletes.WaitAnswered(t, 1)
	kit.AwaitSoon(t, fixed/3+3*time.Second, "the loss", func() bool { return errors.Is(h.Err(), holdfast.ErrLost) })
}

// However many leases end at once, all permits come back, and this keeps the server busy for no longer than it
// should. Its processor's time counts: on a busy machine it also waits for one.
func TestManyPermitsComeBack(t *testing.T) {
	t.Parallel()
	const many, longest = 200_000, 20 * time.Millisecond
	for name, ask := range map[string]func(t *testing.T, e *semaphore.Expirable){
		"AvailablePermits": func(t *testing.T, e *semaphore.Expirable) { kit.RequirePermits(t, e, many, 0) },
		"TryAcquireN": func(t *testing.T, e *semaphore.Expirable) {
			holds, err := e.TryAcquireN(t.Context(), 2500)
			require.NoError(t, err)
			require.NoError(t, e.Release(t.Context(), kit.HoldIDs(holds...)...))
		},
		"Acquire": func(t *testing.T, e *semaphore.Expirable) {
			for range 3 {
				h, err := e.Acquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Release())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			e := kit.NewExports(t, kit.Open(t, p.Addr(), nil), 0, time.Hour)
			srv.Do(t, "SET", "exports", "0")
			const atOnce = 10_000 // or it might not answer in time on a busy machine
			for i := 0; i < many; i += atOnce {
				srv.Do(t, "EVAL", `for i = ARGV[1] + 1, ARGV[2] do
					redis.call('ZADD', KEYS[1], i, string.format('%016d', i)) end`,
					"1", "{exports}:timeout", strconv.Itoa(i), strconv.Itoa(i+atOnce))
			}
			used := make(chan float64, 1000) // by the server when each script comes, and at the end
			rule := p.On(func(command []string) bool {
				if kit.AnyScript(command) {
					used <- srv.CPU(t)
				}
				return false
			}, proxy.Pass, proxy.EveryTime)
			ask(t, e)
			rule.Remove()
			used <- srv.CPU(t)
			close(used)
			slowest, before := time.Duration(0), <-used
			for after := range used {
				slowest = max(slowest, time.Duration((after-before)*float64(time.Microsecond)))
				before = after
			}
			t.Log("the server was busy for", slowest)
			require.NotZero(t, slowest)
			require.Less(t, slowest, longest)
			kit.RequirePermits(t, e, many, 0)
		})
	}
}

// A thousand permits of one semaphore are renewed together.
func TestPermitsAreRenewedTogether(t *testing.T) {
	t.Parallel()
	const permits, lease, batch = 1000, 6 * time.Second, 500
	srv := redistest.Start(t)
	o, s := observed(t, srv, lease)
	e := kit.NewExports(t, s, permits, 0)
	holds, err := e.AcquireN(t.Context(), permits)
	require.NoError(t, err)
	srv.ResetStats(t)
	began := time.Now()
	kit.Await(t, "two leases", func() bool { return time.Since(began) > 2*lease })
	for _, h := range holds {
		require.NoError(t, h.Err())
	}
	calls := srv.CommandStats(t)["evalsha"]
	again := (o.sum("renewal badly") + batch - 1) / batch // the machine may have stood still meanwhile
	require.LessOrEqual(t, calls, int64(permits/batch)*(int64(time.Since(began)/(lease/3))+1)+int64(again))
	require.NoError(t, e.Release(t.Context(), kit.HoldIDs(holds...)...))
	kit.RequirePermits(t, e, permits, 0)
}
