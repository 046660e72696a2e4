package locks

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
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
	began := time.Now()
	_, err = b.TryAcquireFor(t.Context(), 100*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `semaphore.Expirable "exports": try acquire for: `)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
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
	require.ErrorIs(t, two.Err(), holdfast.ErrLost, "told at once in the same session")
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
		"renewed": {0, 2 * time.Second, 3 * time.Second},
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

// Whoever dies, its permits come back; and who waits for them sleeps just so long.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	t.Parallel()
	const lease = 700 * time.Millisecond
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
	require.Less(t, took(), lease+300*time.Millisecond)
	require.LessOrEqual(t, srv.CommandStats(t)["evalsha"], int64(2+3), "two attempts bring the clock, and it slept")
	kit.RequirePermits(t, e, 1, 2)
}

func TestAnExpirableNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := semaphore.NewExpirable(s, "exports", nil)
	srv.ResetStats(t)
	ctx := t.Context()
	const id, tooMany = "00112233445566778899aabbccddeeff", 1 << 53
	fixed := func(d time.Duration) *semaphore.Expirable {
		return semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: d})
	}
	for says, err := range map[string]error{
		`semaphore.Expirable "exports": acquire n: permits are -1, must be from 0 to 10000`:                        kit.ErrorOf(e.AcquireN(ctx, -1)),
		`semaphore.Expirable "exports": try acquire n: permits are 10001, must be from 0 to 10000`:                 kit.ErrorOf(e.TryAcquireN(ctx, 10001)),
		`semaphore.Expirable "exports": try acquire n for: permits are -1, must be from 0 to 10000`:                kit.ErrorOf(e.TryAcquireNFor(ctx, -1, time.Second)),
		`semaphore.Expirable "exports": try set permits: permits are -1, must be from 0 to 2^53 - 1`:               kit.ErrorOf(e.TrySetPermits(ctx, -1)),
		`semaphore.Expirable "exports": set permits: permits are 9007199254740992, must be from 0 to 2^53 - 1`:     e.SetPermits(ctx, tooMany),
		`semaphore.Expirable "exports": add permits: permits are -9007199254740992, must be from -(2^53 - 1) to`:   e.AddPermits(ctx, -tooMany),
		`semaphore.Expirable "exports": release: permit id is "abc", must be 32 hexadecimal characters`:            e.Release(ctx, id, "abc"),
		`semaphore.Expirable "exports": release: permit id is "` + id + `00", must be 32 hexadecimal characters`:   e.Release(ctx, id+"00"),
		`semaphore.Expirable "exports": release: permit id "` + strings.ToUpper(id) + `" is given twice`:           e.Release(ctx, id, strings.ToUpper(id)),
		`semaphore.Expirable "exports": release: ids are 10001, must be 10000 at the most`:                         e.Release(ctx, make([]string, 10001)...),
		`semaphore.Expirable "exports": update lease: permit id is "", must be 32 hexadecimal characters`:          e.UpdateLease(ctx, "", time.Hour),
		`semaphore.Expirable "exports": update lease: lease is 9ms, must be at least 10ms`:                         e.UpdateLease(ctx, id, 9*time.Millisecond),
		`semaphore.Expirable "exports": remaining lease: permit id is "\x00", must be 32 hexadecimal characters`:   kit.ErrorOf(e.RemainingLease(ctx, "\x00")),
		`semaphore.Expirable "exports": acquire: Options.FixedLease is 9ms, must be 0 or at least 10ms`:            kit.ErrorOf(fixed(9 * time.Millisecond).Acquire(ctx)),
		`semaphore.Expirable "exports": available permits: Options.FixedLease is -1ns, must be 0 or at least 10ms`: kit.ErrorOf(fixed(-1).AvailablePermits(ctx)),
		`semaphore.Expirable "": acquire n: name is empty`:                                                         kit.ErrorOf(semaphore.NewExpirable(s, "", nil).AcquireN(ctx, 0)),
		`semaphore.Expirable "": release: name is empty`:                                                           semaphore.NewExpirable(s, "", nil).Release(ctx),
	} {
		assert.ErrorContains(t, err, says)
		assert.Equal(t, strings.Contains(says, ": permit id is "), errors.Is(err, holdfast.ErrNotHeld), says)
	}
	for _, take := range []func() ([]*holdfast.Hold, error){
		func() ([]*holdfast.Hold, error) { return e.AcquireN(ctx, 0) },
		func() ([]*holdfast.Hold, error) { return e.TryAcquireN(ctx, 0) },
		func() ([]*holdfast.Hold, error) { return e.TryAcquireNFor(ctx, 0, time.Hour) },
	} {
		holds, err := take()
		assert.NoError(t, err, "there are always none")
		assert.Empty(t, holds)
	}
	assert.NoError(t, e.Release(ctx))
	assert.Zero(t, srv.CommandStats(t)["evalsha"]+srv.CommandStats(t)["eval"])
}

// Whatever the id, it is refused before anything is sent, or nobody has it.
func FuzzAPermitIDIsRefusedOrNotHeld(f *testing.F) {
	srv := redistest.Start(f)
	e := kit.NewExports(f, kit.Open(f, srv.Addr(), nil), 1, time.Hour)
	held, err := e.Acquire(context.Background())
	require.NoError(f, err)
	for _, id := range []string{"", "abc", strings.Repeat("0", 32), strings.Repeat("zz", 16), held.ID() + " ", strings.Repeat("aB", 16)} {
		f.Add(id, int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, id string, lease int64) {
		if id == held.ID() {
			return
		}
		bytes, bad := hex.DecodeString(id)
		for what, err := range map[string]error{
			"release": e.Release(t.Context(), id),
			"update":  e.UpdateLease(t.Context(), id, max(time.Duration(lease), 10*time.Millisecond)),
			"remains": kit.ErrorOf(e.RemainingLease(t.Context(), id)),
		} {
			if bad != nil || len(bytes) != 16 {
				require.ErrorContains(t, err, "must be 32 hexadecimal characters", what)
			}
			require.ErrorIs(t, err, holdfast.ErrNotHeld, what)
		}
		require.NoError(t, held.Err())
		kit.RequirePermits(t, e, 0, 1)
	})
}

// Whatever the count and the lease: they are refused, or as many permits are taken for as long, and all come back.
func FuzzCountsAndLeasesOfPermits(f *testing.F) {
	srv := redistest.Start(f)
	s := kit.Open(f, srv.Addr(), nil)
	for _, n := range []int{-1, 0, 1, 7, 10000, 10001, 1 << 53} {
		for _, lease := range []int64{-1, 0, 1, int64(9999 * time.Microsecond), int64(time.Hour) + 1, math.MaxInt64} {
			f.Add(n, lease)
		}
	}
	f.Fuzz(func(t *testing.T, n int, lease int64) {
		fixed := time.Duration(lease)
		e := semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: fixed})
		if fixed < 0 || fixed > 0 && fixed < 10*time.Millisecond || n < 0 || n > 10000 {
			require.ErrorContains(t, kit.ErrorOf(e.TryAcquireN(t.Context(), n)), "must be")
			return
		}
		require.NoError(t, e.SetPermits(t.Context(), n))
		defer func() { require.NoError(t, kit.ErrorOf(e.Delete(t.Context()))) }()
		holds, err := e.TryAcquireN(t.Context(), n)
		require.NoError(t, err)
		require.Len(t, holds, n)
		if fixed > 0 && fixed < time.Minute {
			return // it may be over by now
		}
		for _, h := range holds[:min(n, 3)] {
			left, err := e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			require.Greater(t, left, max(fixed, 3*time.Second)-2*time.Second)
			require.LessOrEqual(t, left, lengthOf(fixed))
			require.NoError(t, h.Release())
			holds = holds[1:]
		}
		require.NoError(t, e.Release(t.Context(), kit.HoldIDs(holds...)...))
		kit.RequirePermits(t, e, n, 0)
	})
}

// lengthOf is the lease of a permit in whole ms; renewed ones have 3 s.
func lengthOf(fixed time.Duration) time.Duration {
	switch fixed {
	case 0:
		return 3 * time.Second
	case semaphore.Forever:
		return fixed
	}
	return fixed + time.Millisecond
}

// Who wants many is not passed over by who wants few, and those behind follow as long as there are permits.
func TestThoseWhoWaitForPermitsAreServedInOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, s, 4, 0)
	all, err := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 4, 0).AcquireN(t.Context(), 4)
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
		kit.SleepUntil(time.Now().Add(20 * time.Millisecond)) // in which the others stand behind it
	}
	wait(3)
	wait(1)
	for _, h := range all[:2] {
		require.NoError(t, h.Release())
	}
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // in which nobody may take them
	require.Empty(t, got)
	kit.RequirePermits(t, e, 2, 2)
	srv.ResetStats(t)
	for _, h := range all[2:] {
		require.NoError(t, h.Release())
	}
	require.Equal(t, 3, kit.Within(t, time.Second, got, "the three"))
	require.Equal(t, 1, kit.Within(t, time.Second, got, "the one"))
	calls.Wait()
	require.LessOrEqual(t, srv.CommandStats(t)["evalsha"], int64(2+4), "one is woken for each permit")
}

// A permit has no owner: the context of its hold has the caller's, and whoever has it takes further permits.
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

// What is released by its id elsewhere is lost here, unless it was detached; and Close gives back the rest.
func TestPermitsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Second})
	e, elsewhere := kit.NewExports(t, s, 5, 0), kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 5, 0)
	holds, err := e.AcquireN(t.Context(), 5)
	require.NoError(t, err)
	require.NoError(t, holds[0].Detach())
	require.NoError(t, holds[1].Detach())
	ctx := holds[2].Context(t.Context())
	require.NoError(t, elsewhere.Release(t.Context(), holds[0].ID(), holds[2].ID()))
	kit.RequirePermits(t, e, 2, 3)
	kit.Within(t, time.Second, ctx.Done(), "the next renewal")
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
	require.ErrorIs(t, holds[2].Release(), holdfast.ErrLost)
	require.NoError(t, elsewhere.Release(t.Context(), holds[3].ID()))
	require.ErrorIs(t, holds[3].Release(), holdfast.ErrLost, "unnoticed until then")
	require.NoError(t, s.Close())
	require.ErrorIs(t, holds[4].Err(), holdfast.ErrClosed)
	kit.RequirePermits(t, elsewhere, 4, 1)
	require.Equal(t, kit.HoldIDs(holds[1]), kit.PermitIDs(t, srv), "Close leaves detached holds alone")
}

// An id means nothing to another semaphore: nothing was changed, and whoever holds the permit goes on holding it.
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
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Second})
	e, elsewhere := kit.NewExports(t, s, 2, 0), kit.NewExports(t, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Second}), 2, 0)
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

// However many leases are over at once, all come back, and the server does nothing else for no longer than it should:
// the shortest of some tries says how long that is, in the others it may have had to wait for a processor.
func TestManyPermitsComeBack(t *testing.T) {
	t.Parallel()
	const many, longest = 20_000, 20 * time.Millisecond
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
			e := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 0, time.Hour)
			shortest := time.Hour
			for range 30 { // a busy machine may stand still in any of them
				if shortest < longest {
					break
				}
				srv.Do(t, "EVAL", `redis.call('SET', KEYS[1], 0)
					for i = 1, ARGV[1] do redis.call('ZADD', KEYS[2], i, string.format('%016d', i)) end`,
					"2", "exports", "{exports}:timeout", strconv.Itoa(many))
				srv.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "100")
				srv.Do(t, "SLOWLOG", "RESET")
				ask(t, e)
				slowest := time.Duration(0)
				for _, entry := range srv.Do(t, "SLOWLOG", "GET", "128").([]any) {
					slowest = max(slowest, time.Duration(entry.([]any)[2].(int64))*time.Microsecond)
				}
				shortest = min(shortest, slowest)
				srv.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
				kit.RequirePermits(t, e, many, 0)
			}
			t.Log("the server was busy for", shortest)
			require.NotZero(t, shortest)
			require.Less(t, shortest, longest)
		})
	}
}

// A thousand permits of one semaphore are renewed together.
func TestPermitsAreRenewedTogether(t *testing.T) {
	t.Parallel()
	const permits = 1000
	srv := redistest.Start(t)
	e := kit.NewExports(t, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Second}), permits, 0)
	holds, err := e.AcquireN(t.Context(), permits)
	require.NoError(t, err)
	srv.ResetStats(t)
	began := time.Now()
	kit.Await(t, "three leases", func() bool { return time.Since(began) > 3*time.Second })
	for _, h := range holds {
		require.NoError(t, h.Err())
	}
	require.LessOrEqual(t, srv.CommandStats(t)["evalsha"], int64(2*3*3+2))
	require.NoError(t, e.Release(t.Context(), kit.HoldIDs(holds...)...))
	kit.RequirePermits(t, e, permits, 0)
}

// The permits of a semaphore whose key of taken ones is evicted do not come back, until somebody says how many there are.
func TestPermitsThatAreEvictedAreSetAnew(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	e := kit.NewExports(t, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Second}), 3, 0)
	holds, err := e.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	srv.Do(t, "DEL", "{exports}:timeout")
	for _, h := range holds {
		kit.Await(t, "the loss", func() bool { return h.Err() != nil })
		require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	}
	kit.RequirePermits(t, e, 1, 0)
	require.NoError(t, e.SetPermits(t.Context(), 3))
	kit.RequirePermits(t, e, 3, 0)
}

// A hold of the session that updates the lease believes a longer one at once, and lives by it.
func TestALeaseThatIsMadeLongerIsBelieved(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := semaphore.NewExpirable(s, "permits", &semaphore.ExpirableOptions{FixedLease: 800 * time.Millisecond})
	_, err := e.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	ctx, first := h.Context(t.Context()), h.Deadline()
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 10*time.Second))
	require.Greater(t, time.Until(h.Deadline()), 9*time.Second)
	kit.SleepUntil(first.Add(100 * time.Millisecond))
	require.NoError(t, h.Err())
	require.NoError(t, ctx.Err())
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), semaphore.Forever))
	require.Greater(t, time.Until(h.Deadline()), 1000*time.Hour)
	require.NoError(t, h.Release())
}

// A lease that is made shorter is the lease that is believed in, whatever renewals are under way.
func TestALeaseThatIsMadeShorterIsBelieved(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second}), 1, 0) // renewed every 2 s
	for name, play := range map[string]func(t *testing.T, h *holdfast.Hold){
		"a renewal is under way": func(t *testing.T, h *holdfast.Hold) {
			renewal := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "renew"), proxy.HoldReply, proxy.First)
			renewal.Wait(t, 1)
			update := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Pass, proxy.First)
			updated := make(chan error, 1)
			go func() { updated <- e.UpdateLease(t.Context(), h.ID(), 600*time.Millisecond) }()
			update.Wait(t, 1)
			renewal.Release() // the replies come one after the other
			require.NoError(t, kit.Within(t, time.Second, updated, "the update"))
		},
		"its reply is lost": func(t *testing.T, h *holdfast.Hold) {
			proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.DropReply, proxy.First)
			require.ErrorIs(t, e.UpdateLease(t.Context(), h.ID(), 600*time.Millisecond), holdfast.ErrUnknown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			defer func() { _ = h.Release() }()
			play(t, h)
			began := time.Now()
			require.LessOrEqual(t, time.Until(h.Deadline()), 600*time.Millisecond)
			for h.Err() == nil {
				deadline := h.Deadline()
				left, err := e.RemainingLease(t.Context(), h.ID())
				if h.Err() == nil {
					require.NoError(t, err)
					require.Greater(t, time.Now().Add(left), deadline)
				}
				require.Less(t, time.Since(began), time.Second)
			}
			require.ErrorIs(t, h.Err(), holdfast.ErrLost)
			kit.Await(t, "the permit", func() bool { return kit.ErrorOf(e.RemainingLease(t.Context(), h.ID())) != nil })
			kit.RequirePermits(t, e, 1, 0)
		})
	}
}

// A shorter lease that nobody knows to be in force may come into force later, whatever lease was asked for since.
func TestAShorterLeaseMayComeLate(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), nil), 1, 30*time.Second) // so that a call may come 10 s late
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	update := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.UpdateLease(ctx, h.ID(), 4*time.Second), holdfast.ErrUnknown)
	kit.Await(t, "another connection", func() bool { return kit.ErrorOf(e.AvailablePermits(t.Context())) == nil })
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 30*time.Second))
	update.Release()
	update.WaitAnswered(t, 1)
	left, err := e.RemainingLease(t.Context(), h.ID())
	require.NoError(t, err)
	require.Less(t, left, 5*time.Second)
	require.Less(t, time.Until(h.Deadline()), left)
	require.NoError(t, h.Release())
}

// A refusal changes nothing: the lease is believed in as before.
func TestALeaseThatIsNotUpdatedStays(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), nil), 1, time.Hour)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	before := h.Deadline()
	proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Answer(kit.LoadingReply), proxy.First)
	require.ErrorContains(t, e.UpdateLease(t.Context(), h.ID(), time.Second), "LOADING")
	require.Equal(t, before, h.Deadline())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.UpdateLease(ended, h.ID(), time.Second), context.Canceled)
	require.Equal(t, before, h.Deadline())
}

// An update that is executed late is refused, also if the server's clock was set back after the session had learned it: to
// the session it is ahead then, and so is every not-after.
func TestALateUpdateIsRefusedByAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	kit.LoadScripts(t, srv)
	p := proxy.Start(t, srv.Addr())
	e := semaphore.NewExpirable(kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second}), "x", nil)
	require.NoError(t, e.SetPermits(t.Context(), 1))
	hold, err := e.Acquire(t.Context())
	require.NoError(t, err)

	s := kit.Open(t, p.Addr(), nil)
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("*3\r\n:1\r\n:"+ahead+"\r\n:0"), proxy.First)
	kit.Lock(t, t.Context(), rlock.New(s, "y", nil))
	late := p.On(kit.ScriptNamed("semaphore_update_expirable"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.ErrorIs(t, semaphore.NewExpirable(s, "x", nil).UpdateLease(ctx, hold.ID(), time.Second), holdfast.ErrUnknown)
	kit.SleepUntil(began.Add(1500 * time.Millisecond)) // beyond a third of its session's lease
	late.Release()
	late.WaitAnswered(t, 1)
	left, err := e.RemainingLease(t.Context(), hold.ID())
	require.NoError(t, err)
	require.Greater(t, left, 2*time.Second)
	require.NoError(t, semaphore.NewExpirable(s, "x", nil).UpdateLease(t.Context(), hold.ID(), time.Minute))
	require.NoError(t, hold.Release())
}

// What was not even sent has changed nothing, however long it took to find that out: the lease is believed in as before.
func TestALeaseWhoseUpdateCouldNotBeSentStays(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(t *testing.T, s *holdfast.Session, proxied *proxy.Proxy){
		"no connection": func(t *testing.T, s *holdfast.Session, proxied *proxy.Proxy) {
			proxied.StallNew(true)
			proxied.CutAll()
			kit.Await(t, "the client to notice", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				return errors.Is(kit.ErrorOf(semaphore.New(s, "pool").AvailablePermits(ctx)), context.DeadlineExceeded)
			})
		},
		"no place": func(t *testing.T, s *holdfast.Session, proxied *proxy.Proxy) {
			const callers = 1000
			looks := proxied.On(kit.ScriptNamed("semaphore_free"), proxy.HoldReply, proxy.First)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			t.Cleanup(func() {
				cancel()
				looks.Release()
				all.Wait()
			})
			all.Go(func() { _, _ = semaphore.New(s, "pool").AvailablePermits(ctx) })
			looks.Wait(t, 1)
			began := make(chan struct{}, callers)
			for range callers {
				all.Go(func() {
					began <- struct{}{}
					_, _ = latch.New(s, "done").Count(ctx)
				})
			}
			for range callers {
				kit.Within(t, 10*time.Second, began, "a caller")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 30 * time.Second})
			e := kit.NewExports(t, s, 1, time.Hour)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			ctx, before := h.Context(t.Context()), h.Deadline()
			keep(t, s, proxied)

			const shorter = 100 * time.Millisecond
			patience, cancel := context.WithTimeout(t.Context(), 5*shorter)
			defer cancel()
			err = e.UpdateLease(patience, h.ID(), shorter)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, holdfast.ErrUnknown)
			require.NoError(t, h.Err())
			require.NoError(t, ctx.Err())
			require.Equal(t, before, h.Deadline())
		})
	}
}

// Several permits are taken or given back by one call that may be sent again: ids are used once.
func TestSeveralPermitsUnderFaults(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]struct {
		action proxy.Action
		times  proxy.Times
		ran    bool
	}{
		"reply lost": {proxy.DropReply, proxy.First, true}, "never executed": {proxy.ResetBefore, proxy.First, false},
		"every reply lost": {proxy.DropReply, proxy.EveryTime, true}, "never executed at all": {proxy.ResetBefore, proxy.EveryTime, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			kit.LoadScripts(t, srv)
			e := kit.NewExports(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 2 * time.Second}), 7, 0)
			holds, err := e.AcquireN(t.Context(), 4)
			require.NoError(t, err)

			rule := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "acquire"), a.action, a.times)
			more, err := e.TryAcquireN(t.Context(), 3)
			rule.Remove()
			if a.times == proxy.EveryTime {
				require.ErrorIs(t, err, holdfast.ErrUnknown)
				require.Empty(t, more)
				kit.Await(t, "what was given up", func() bool { return srv.Str(t, "GET", "exports") == "3" })
				require.ElementsMatch(t, kit.HoldIDs(holds...), kit.PermitIDs(t, srv))
			} else {
				require.NoError(t, err)
				require.Len(t, more, 3)
				require.ElementsMatch(t, kit.HoldIDs(append(more, holds...)...), kit.PermitIDs(t, srv))
				require.Equal(t, "0", srv.Str(t, "GET", "exports"))
			}

			rule = proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "release"), a.action, a.times)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			err = e.Release(ended, kit.HoldIDs(holds...)...)
			rule.Remove()
			switch {
			case a.ran:
				require.ErrorIs(t, err, holdfast.ErrUnknown)
			case a.times == proxy.EveryTime:
				require.ErrorIs(t, err, holdfast.ErrUnknown)
				kit.Await(t, "the background", func() bool { return len(kit.PermitIDs(t, srv)) == len(more) })
			default:
				require.NoError(t, err)
			}
			kit.RequirePermits(t, e, 7-len(more), len(more))
			require.ErrorIs(t, e.Release(t.Context(), kit.HoldIDs(holds...)...), holdfast.ErrNotHeld)
			kit.RequirePermits(t, e, 7-len(more), len(more))
		})
	}
}

// A wait that is cancelled, or whose session is closed, eats no permit; not even if it wants several.
func TestACancelledWaitEatsNoPermitThatHasALease(t *testing.T) {
	t.Parallel()
	const permits = 3
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, s, permits, 0)
	var all sync.WaitGroup
	var got, cancelled atomic.Int64
	for _, e := range []*semaphore.Expirable{e, kit.NewExports(t, other, permits, 0)} {
		for range 8 {
			all.Go(func() {
				for range 60 {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
					holds, err := e.AcquireN(ctx, 1+rand.IntN(2))
					if err == nil {
						got.Add(1)
					} else {
						cancelled.Add(1)
					}
					for _, h := range holds {
						assert.NoError(t, h.Release())
					}
					cancel()
				}
			})
		}
	}
	all.Wait()
	t.Log(got.Load(), "got some,", cancelled.Load(), "did not")
	require.NotZero(t, cancelled.Load())
	require.NotZero(t, got.Load())
	kit.Await(t, "all permits", func() bool { return srv.Str(t, "GET", "exports") == strconv.Itoa(permits) })
	kit.RequirePermits(t, e, permits, 0)
}
