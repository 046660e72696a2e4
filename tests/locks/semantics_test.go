package locks

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The semantics that bind, in the order in which the design lists them, for the plain
// reentrant lock. What every kind must do is in the conformance suite.

func TestCtxOfLockLimitsOnlyTheWait(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Lease: lease})
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	hold := kit.Lock(t, ctx, rlock.New(s, "x", nil))
	cancel()
	stayHeld(t, lease, []*holdfast.Hold{hold})
	assert.NoError(t, hold.Context(t.Context()).Err())
	assert.Equal(t, "value", hold.Context(ctx).Value(key{}), "values are those of the ctx given")
	require.NoError(t, hold.Release())
}

func TestOwners(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	l := rlock.New(s, "x", nil)

	t.Run("without an owner each call has a fresh one", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), l)
		_, err := l.TryLock(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, hold.Release())
	})
	t.Run("the context of a hold carries the owner, also into goroutines", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), l)
		ctx := hold.Context(t.Context())
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				assert.NoError(t, holdfast.Do(ctx, l.Lock, func(ctx context.Context) error { return ctx.Err() }))
			})
		}
		wg.Wait()
		require.NoError(t, hold.Release())
	})
	t.Run("NewOwner under a hold waits for that hold", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), l)
		other := holdfast.NewOwner(hold.Context(t.Context()))
		_, err := l.TryLock(other)
		assert.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, hold.Release())
	})
	t.Run("an owner made before the lock re-enters", func(t *testing.T) {
		ctx := holdfast.NewOwner(t.Context())
		outer, inner := kit.Lock(t, ctx, l), kit.Lock(t, ctx, l)
		assert.Equal(t, outer.ID(), inner.ID())
		require.NoError(t, outer.Release())
		require.NoError(t, inner.Release())
		again := kit.Lock(t, ctx, l)
		assert.NotEqual(t, outer.ID(), again.ID(), "each outermost acquisition has a wire owner of its own")
		require.NoError(t, again.Release())
	})
	t.Run("goroutines of one owner that wait together get it together", func(t *testing.T) {
		foreign := kit.Lock(t, t.Context(), l)
		ctx := holdfast.NewOwner(t.Context())
		first, second := kit.GoLock(ctx, l.Lock), kit.GoLock(ctx, l.Lock)
		require.NoError(t, foreign.Release())
		a := kit.Within(t, 2*time.Second, first, "the first")
		b := kit.Within(t, 2*time.Second, second, "the second, although the first still holds")
		require.NoError(t, a.Err)
		require.NoError(t, b.Err)
		require.NoError(t, a.Hold.Release())
		require.NoError(t, b.Hold.Release())
	})
	t.Run("one owner, two sessions: two locks", func(t *testing.T) {
		srv := redistest.Start(t)
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		ctx := holdfast.NewOwner(t.Context())
		hold := kit.Lock(t, ctx, rlock.New(a, "x", nil))
		_, err := rlock.New(b, "x", nil).TryLock(ctx)
		assert.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, hold.Release())
	})
}

func TestContextOfAHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)

	t.Run("ends with ctx, whose cause and deadline it keeps", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), rlock.New(s, "a", nil))
		parent, cancel := context.WithCancelCause(t.Context())
		ctx := hold.Context(parent)
		_, has := ctx.Deadline()
		assert.False(t, has)
		cancel(assert.AnError)
		<-ctx.Done()
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.Equal(t, assert.AnError, context.Cause(ctx))
		assert.NoError(t, hold.Err())

		limited, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		want, _ := limited.Deadline()
		got, has := hold.Context(limited).Deadline()
		assert.True(t, has)
		assert.Equal(t, want, got)
		require.NoError(t, hold.Release())
	})
	t.Run("ends with the hold, whose Err is the cause, also of what is derived", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), rlock.New(s, "b", nil))
		ctx := hold.Context(t.Context())
		derived, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		grand := context.WithValue(derived, "k", "v") //nolint:staticcheck // a test's key
		require.NoError(t, hold.Release())
		for _, c := range []context.Context{ctx, derived, grand} {
			<-c.Done()
			assert.Equal(t, context.Canceled, c.Err())
			assert.Equal(t, holdfast.ErrNotHeld, context.Cause(c))
		}
		assert.ErrorIs(t, context.Cause(hold.Context(t.Context())), holdfast.ErrNotHeld, "of an ended hold it has ended")
	})
	t.Run("a loss is the cause", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), rlock.New(s, "c", &rlock.Options{FixedLease: 500 * time.Millisecond}))
		ctx := hold.Context(t.Context())
		derived, stop := context.WithCancel(ctx)
		defer stop()
		<-derived.Done()
		lost, ok := errors.AsType[*holdfast.LostError](context.Cause(derived))
		require.True(t, ok)
		assert.Equal(t, "c", lost.Name)
		assert.NoError(t, lost.Err)
		assert.InDelta(t, 500*time.Millisecond, lost.Held, float64(200*time.Millisecond))
		assert.Same(t, hold.Err(), context.Cause(ctx))
	})
	t.Run("costs no goroutine, however many are derived", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), rlock.New(s, "d", nil))
		before := runtime.NumGoroutine()
		ctx := hold.Context(t.Context())
		for range 100 {
			derived, stop := context.WithTimeout(hold.Context(ctx), time.Hour)
			defer stop()
			_ = derived
		}
		assert.Less(t, runtime.NumGoroutine(), before+20)
		require.NoError(t, hold.Release())
	})
	t.Run("is safe while the hold ends", func(t *testing.T) {
		for range 200 {
			hold := kit.Lock(t, t.Context(), rlock.New(s, "e", nil))
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					ctx := hold.Context(t.Context())
					derived, stop := context.WithCancel(ctx)
					defer stop()
					<-derived.Done()
					assert.Error(t, ctx.Err())
					assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
				})
			}
			require.NoError(t, hold.Release())
			wg.Wait()
		}
	})
}

func TestErrOfAHold(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	assert.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
	assert.Equal(t, holdfast.ErrNotHeld, hold.Err())
	assert.Equal(t, holdfast.ErrNotHeld, hold.Release())
	assert.Equal(t, holdfast.ErrNotHeld, hold.Detach())
}

func TestDo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(s, "x", nil)
	free := func(t *testing.T) {
		t.Helper()
		locked, err := l.Locked(t.Context())
		require.NoError(t, err)
		assert.False(t, locked)
	}

	t.Run("take's error comes back as it is, and work has not run", func(t *testing.T) {
		err := holdfast.Do(t.Context(), func(context.Context) (*holdfast.Hold, error) { return nil, assert.AnError },
			func(context.Context) error { t.Error("work ran"); return nil })
		assert.Equal(t, assert.AnError, err)
	})
	t.Run("work's error comes back as it is", func(t *testing.T) {
		err := holdfast.Do(t.Context(), l.Lock, func(context.Context) error { return assert.AnError })
		assert.Equal(t, assert.AnError, err)
		free(t)
	})
	t.Run("a loss is joined, once", func(t *testing.T) {
		short := rlock.New(s, "y", &rlock.Options{FixedLease: 50 * time.Millisecond})
		for _, work := range []func(context.Context) error{
			func(ctx context.Context) error { <-ctx.Done(); return nil },
			func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		} {
			err := holdfast.Do(t.Context(), short.Lock, work)
			lost, ok := errors.AsType[*holdfast.LostError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, lost.Error(), err.Error())
		}
		err := holdfast.Do(t.Context(), short.Lock, func(ctx context.Context) error { <-ctx.Done(); return assert.AnError })
		assert.ErrorIs(t, err, assert.AnError)
		assert.ErrorIs(t, err, holdfast.ErrLost)
	})
	t.Run("a loss that only the release finds is returned", func(t *testing.T) {
		err := holdfast.Do(t.Context(), l.Lock, func(context.Context) error {
			srv.Do(t, "DEL", "x")
			return nil
		})
		assert.ErrorIs(t, err, holdfast.ErrLost)
	})
	t.Run("a panic releases and goes on", func(t *testing.T) {
		assert.PanicsWithValue(t, "oops", func() {
			_ = holdfast.Do(t.Context(), l.Lock, func(context.Context) error { panic("oops") })
		})
		free(t)
	})
}

func TestAnEndedCtxSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(s, "x", nil)
	hold := kit.Lock(t, t.Context(), l)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	srv.ResetStats(t)
	for name, call := range map[string]func() error{
		"Lock":           func() error { _, err := l.Lock(ended); return err },
		"TryLock":        func() error { _, err := l.TryLock(ended); return err },
		"TryLockFor":     func() error { _, err := l.TryLockFor(ended, time.Hour); return err },
		"Locked":         func() error { _, err := l.Locked(ended); return err },
		"RemainingLease": func() error { _, err := l.RemainingLease(ended); return err },
		"ForceUnlock":    func() error { _, err := l.ForceUnlock(ended); return err },
		"Extend":         func() error { return hold.Extend(ended, time.Minute) },
	} {
		err := call()
		assert.ErrorIs(t, err, context.Canceled, name)
		assert.ErrorIs(t, err, assert.AnError, name)
		assert.NotErrorIs(t, err, holdfast.ErrUnknown, name)
	}
	assert.Zero(t, srv.CommandStats(t)["evalsha"])
	require.NoError(t, hold.Release())
}

// One call returns exactly one of hold and error, and after an error nothing is held.
func TestGrantAndCancellationAtTheSameMoment(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(s, "x", nil)
	granted := 0
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		got := kit.GoLock(ctx, l.Lock)
		for range i { // a little later each time
			runtime.Gosched()
		}
		cancel()
		r := kit.Within(t, 5*time.Second, got, "the call")
		assert.NotEqual(t, r.Hold == nil, r.Err == nil)
		if r.Err == nil {
			granted++
			require.NoError(t, r.Hold.Release())
		} else {
			assert.ErrorIs(t, r.Err, context.Canceled)
		}
	}
	t.Logf("%d of 300 granted", granted)
	kit.Await(t, "what was given up to be given back", func() bool { return len(srv.Keyspace(t)) == 0 })
}

func TestNestedHoldsEndEachAtItsOwnLease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	fixed := func(d time.Duration) *rlock.Mutex { return rlock.New(s, "x", &rlock.Options{FixedLease: d}) }

	t.Run("a shorter nested lease shortens nothing", func(t *testing.T) {
		outer := kit.Lock(t, t.Context(), fixed(time.Minute))
		inner := kit.Lock(t, outer.Context(t.Context()), fixed(100*time.Millisecond))
		assert.Greater(t, srv.TTLs(t)["x"], 50*time.Second)
		<-inner.Context(t.Context()).Done()
		assert.ErrorIs(t, inner.Err(), holdfast.ErrLost)
		assert.NoError(t, outer.Err())
		assert.Greater(t, srv.TTLs(t)["x"], 50*time.Second)
		require.NoError(t, outer.Release())
		assert.Empty(t, srv.Keyspace(t))
	})
	t.Run("a longer nested lease keeps the name after the outer one", func(t *testing.T) {
		outer := kit.Lock(t, t.Context(), fixed(100*time.Millisecond))
		inner := kit.Lock(t, outer.Context(t.Context()), fixed(time.Minute))
		<-outer.Context(t.Context()).Done()
		assert.NoError(t, inner.Err())
		assert.Equal(t, map[string]string{inner.ID(): "2"}, srv.Keyspace(t)["x"].Content)
		require.NoError(t, inner.Release())
		assert.Empty(t, srv.Keyspace(t))
	})
	t.Run("what a released longer lease left is given back with the last hold", func(t *testing.T) {
		outer := kit.Lock(t, t.Context(), fixed(300*time.Millisecond))
		ctx := outer.Context(t.Context())
		inner := kit.Lock(t, ctx, fixed(time.Hour))
		require.NoError(t, inner.Release())
		<-ctx.Done()
		kit.Await(t, "the name to be free", func() bool { return len(srv.Keyspace(t)) == 0 })
	})
	t.Run("a fixed lease outlives a renewed outer hold that was released", func(t *testing.T) {
		outer := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
		inner := kit.Lock(t, outer.Context(t.Context()), fixed(time.Minute))
		require.NoError(t, outer.Release())
		assert.NoError(t, inner.Err())
		require.NoError(t, inner.Release())
		assert.Empty(t, srv.Keyspace(t))
	})
	t.Run("a detached nested hold still counts", func(t *testing.T) {
		outer := kit.Lock(t, t.Context(), fixed(time.Minute))
		inner := kit.Lock(t, outer.Context(t.Context()), fixed(time.Minute))
		require.NoError(t, inner.Detach())
		require.NoError(t, outer.Release())
		assert.Equal(t, map[string]string{inner.ID(): "1"}, srv.Keyspace(t)["x"].Content)
		was, err := fixed(0).ForceUnlock(t.Context())
		require.NoError(t, err)
		assert.True(t, was)
	})
}

// Tokens above 2^53, such as the time in nanoseconds, lose no digits, though the numbers of scripts do.
func TestTokensAreExact(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	l := rlock.New(s, "x", &rlock.Options{Fenced: true})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the server's clock is known now
	newest := time.Now().UnixNano() | 1
	srv.Do(t, "SET", wire.TokenKey("x"), strconv.FormatInt(newest, 10))
	for i := range int64(5) {
		hold := kit.Lock(t, t.Context(), l)
		require.Equal(t, newest+i+1, hold.Token())
		require.NoError(t, hold.Release())
	}
	p.On(kit.ScriptNamed("rlock_acquire"), proxy.DropReply, proxy.First)
	hold := kit.Lock(t, t.Context(), l) // a copy finds the token of the first
	require.Equal(t, newest+6, hold.Token())
	require.NoError(t, hold.Release())

	hold = kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	nested := kit.Lock(t, hold.Context(t.Context()), l) // the first of this owner to want one
	require.Equal(t, newest+7, nested.Token())
	require.NoError(t, nested.Release())
	require.NoError(t, hold.Release())
}

func TestExtremeLeases(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: math.MaxInt64}))
	assert.NoError(t, hold.Err())
	assert.True(t, hold.Deadline().After(time.Now().Add(200*365*24*time.Hour)))
	assert.NoError(t, hold.Context(t.Context()).Err())
	require.NoError(t, hold.Extend(t.Context(), math.MaxInt64))
	srv.Do(t, "PEXPIRE", "x", "9223372036900") // ms, which are more than a time.Duration has room for
	left, err := rlock.New(s, "x", nil).RemainingLease(t.Context())
	require.NoError(t, err)
	assert.Equal(t, time.Duration(math.MaxInt64), left)
	holders, err := rlock.New(s, "x", nil).Holders(t.Context())
	require.NoError(t, err)
	assert.Equal(t, time.Duration(math.MaxInt64), holders[0].Lease)
	_, err = rlock.New(s, "x", nil).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, hold.Release())

	hold = kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: 10*time.Millisecond + 1}))
	assert.LessOrEqual(t, srv.TTLs(t)["x"], 11*time.Millisecond)
	_ = hold.Release()
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr()
	good := rueidis.ClientOption{InitAddress: []string{addr}}
	for says, bad := range map[string]struct {
		opt  func(*rueidis.ClientOption)
		opts holdfast.Options
	}{
		"Options.Lease":                       {opts: holdfast.Options{Lease: time.Second - 1}},
		"Options.Lease is -1s":                {opts: holdfast.Options{Lease: -time.Second}},
		"Options.PubSub":                      {opts: holdfast.Options{PubSub: 7}},
		"Options.PubSub is PubSubSharded":     {opts: holdfast.Options{PubSub: holdfast.PubSubSharded}},
		"ClientOption.ConnLifetime":           {opt: func(o *rueidis.ClientOption) { o.ConnLifetime = time.Hour }},
		"ClientOption.ReplicaOnly":            {opt: func(o *rueidis.ClientOption) { o.ReplicaOnly = true }},
		"Options.Label":                       {opts: holdfast.Options{Label: strings.Repeat("x", 257)}},
		"ClientOption.SendToReplicas":         {opt: func(o *rueidis.ClientOption) { o.SendToReplicas = func(rueidis.Completed) bool { return true } }},
		"ClientOption.RingScaleEachConn is 9": {opt: func(o *rueidis.ClientOption) { o.RingScaleEachConn = 9 }},
		"ClientOption.RingScaleEachConn is 4": {opt: func(o *rueidis.ClientOption) { o.RingScaleEachConn = 4 }},
		"ClientOption.DisableAutoPipelining":  {opt: func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true }},
	} {
		opt := good
		if bad.opt != nil {
			bad.opt(&opt)
		}
		s, err := holdfast.Open(opt, &bad.opts)
		assert.ErrorContains(t, err, says)
		assert.Nil(t, s)
	}
	_, err := holdfast.NewSession(nil, nil)
	assert.ErrorContains(t, err, "client is nil")

	s, err := holdfast.Open(good, nil)
	require.NoError(t, err)
	redistest.Limit(t, func() { _ = s.Close() })
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	assert.InDelta(t, 30*time.Second, time.Until(hold.Deadline()), float64(time.Second))
	require.NoError(t, s.Close())
}

func TestASessionOnTheCallersClient(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	s, err := holdfast.NewSession(client, nil)
	require.NoError(t, err)
	redistest.Limit(t, func() { _ = s.Close() })
	kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	require.NoError(t, s.Close())
	assert.Empty(t, srv.Keyspace(t))
	assert.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error(), "the client stays open")
}

// A countedClient counts what is asked of it.
type countedClient struct {
	rueidis.Client
	calls atomic.Int64
}

func (c *countedClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.calls.Add(1)
	return c.Client.Do(ctx, command)
}

func (c *countedClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.calls.Add(1)
	return c.Client.DoMulti(ctx, commands...)
}

func (c *countedClient) Dedicate() (rueidis.DedicatedClient, func()) {
	c.calls.Add(1)
	return c.Client.Dedicate()
}

// A client that was closed before its session is a mistake, and costs next to nothing until that is closed as well.
func TestASessionWhoseClientIsClosedIsIdle(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client := &countedClient{Client: kit.NewClient(t, srv.Addr())}
	s, err := holdfast.NewSession(client, &holdfast.Options{Lease: 3 * time.Second})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	others := kit.Open(t, srv.Addr(), nil)
	var waiting sync.WaitGroup
	wait := func(call func() error) {
		waiting.Go(func() { assert.Error(t, call()) })
	}
	var releases []*holdfast.Hold
	for _, k := range kit.OnOneServer() {
		outer := kit.Lock(t, t.Context(), k.Make(s, "held "+k.Name, 0))
		kit.Lock(t, t.Context(), k.Make(s, "kept "+k.Name, 0))
		if k.Reentrant {
			releases = append(releases, kit.Lock(t, outer.Context(t.Context()), k.Make(s, "held "+k.Name, 0)))
		}
		releases = append(releases, outer)
		kit.Lock(t, t.Context(), k.Rival(others, "wanted "+k.Name, 0))
		wait(func() error {
			_, err := k.Make(s, "wanted "+k.Name, 0).Lock(t.Context())
			return err
		})
	}
	gate, pool := latch.New(s, "gate"), semaphore.New(s, "pool")
	_, err = gate.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	_, err = pool.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, pool.Acquire(t.Context(), 1))
	wait(func() error { return gate.Wait(t.Context()) })
	wait(func() error { return pool.Acquire(t.Context(), 1) })
	kit.Await(t, "the waiters", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) >= 8 })

	client.Close()
	for _, h := range releases {
		assert.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	}
	assert.ErrorIs(t, pool.Release(t.Context(), 1), holdfast.ErrUnknown)
	before := client.calls.Load()
	const quiet = 2 * time.Second
	kit.SleepUntil(time.Now().Add(quiet))
	perSecond := float64(client.calls.Load()-before) / quiet.Seconds()
	assert.Less(t, perSecond, 20*float64(len(kit.Kinds)), "of everything that it has, something like twice a second")
	assert.Error(t, s.Close())
	waiting.Wait()
}

func TestMapName(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{MapName: func(name string) string { return "prod:" + name }})
	l := rlock.New(s, "x", &rlock.Options{Fenced: true})
	hold := kit.Lock(t, t.Context(), l)
	assert.Equal(t, "x", l.Name())
	assert.Equal(t, "x", hold.Name())
	keys := srv.Keyspace(t)
	assert.Contains(t, keys, "prod:x")
	assert.Contains(t, keys, "redisson_lock_token:{prod:x}")
	require.NoError(t, hold.Release())
	_, err := rlock.New(s, "", nil).Lock(t.Context())
	assert.ErrorContains(t, err, "name is empty", "whatever the mapper would make of it")
}

// A hold does not collect the contexts that are made of it, of parents that do not end: a leader makes one each round.
func TestContextsOfAHoldDoNotCollect(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		hold := kit.Lock(t, t.Context(), k.Make(kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute}), "orders", 0))
		type key struct{}
		var gone atomic.Int32
		const rounds = 100
		for range rounds {
			round := new([64]byte)
			runtime.AddCleanup(round, func(struct{}) { gone.Add(1) }, struct{}{})
			ctx := hold.Context(context.WithValue(t.Context(), key{}, round))
			require.Same(t, round, ctx.Value(key{}))
			ended, end := context.WithCancel(ctx) // others in between
			other := hold.Context(ended)
			end()
			require.ErrorIs(t, other.Err(), context.Canceled)
			require.NoError(t, ctx.Err())
		}
		require.Eventually(t, func() bool {
			runtime.GC()
			return gone.Load() > rounds/2
		}, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, hold.Err())
		first, second := hold.Context(t.Context()), hold.Context(context.WithValue(t.Context(), key{}, 2))
		derived, end := context.WithCancel(second)
		defer end()
		require.NoError(t, hold.Release())
		for _, ctx := range []context.Context{first, second, derived} {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
		}
	})
}

// An error quotes a name that is too long in part.
func TestErrorsOfLongNamesAreShort(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	_, err := rlock.New(s, strings.Repeat("long", 20_000), nil).TryLock(t.Context())
	require.ErrorContains(t, err, "name is 80000 bytes long")
	require.Less(t, len(err.Error()), 1000)
	require.Less(t, len((&holdfast.LostError{Name: strings.Repeat("long", 10_000)}).Error()), 1000)
}
