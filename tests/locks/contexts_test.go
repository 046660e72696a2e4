package locks

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These tests are about contexts of the plain reentrant lock. What every kind must do is in the conformance suite.

func TestCtxOfLockLimitsOnlyTheWait(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
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
		assert.ErrorIs(t, context.Cause(hold.Context(t.Context())), holdfast.ErrNotHeld,
			"of an ended hold it has ended")
	})
	t.Run("a loss is the cause", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), rlock.New(s, "c", &rlock.Options{FixedLease: 500 * time.Millisecond}))
		left := time.Until(hold.Deadline()) // the lease counts from when the call was sent
		ctx := hold.Context(t.Context())
		derived, stop := context.WithCancel(ctx)
		defer stop()
		<-derived.Done()
		lost, ok := errors.AsType[*holdfast.LostError](context.Cause(derived))
		require.True(t, ok)
		assert.Equal(t, "c", lost.Name)
		assert.NoError(t, lost.Err)
		assert.GreaterOrEqual(t, lost.Held, left)
		assert.LessOrEqual(t, lost.Held, 500*time.Millisecond)
		assert.Same(t, hold.Err(), context.Cause(ctx))
	})
	t.Run("costs no goroutine, however many contexts are derived", func(t *testing.T) {
		hold := kit.Lock(t, t.Context(), rlock.New(s, "d", nil))
		before := runtime.NumGoroutine()
		ctx := hold.Context(t.Context())
		const many = 5000 // other tests have goroutines, too
		for range many {
			derived, stop := context.WithTimeout(hold.Context(ctx), time.Hour)
			defer stop()
			_ = derived
		}
		assert.Less(t, runtime.NumGoroutine(), before+many/2)
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
		err := holdfast.Do(t.Context(), short.Lock,
			func(ctx context.Context) error { <-ctx.Done(); return assert.AnError })
		assert.ErrorIs(t, err, assert.AnError)
		assert.ErrorIs(t, err, holdfast.ErrLost)
	})
	t.Run("a loss that only the release notices is returned", func(t *testing.T) {
		err := holdfast.Do(t.Context(), l.Lock, func(context.Context) error {
			srv.Do(t, "DEL", "x")
			return nil
		})
		assert.ErrorIs(t, err, holdfast.ErrLost)
	})
	t.Run("a panic releases the lock and continues", func(t *testing.T) {
		assert.PanicsWithValue(t, "oops", func() {
			_ = holdfast.Do(t.Context(), l.Lock, func(context.Context) error { panic("oops") })
		})
		free(t)
	})
}

// Close gives back what work that ends meanwhile has not released yet, so that is no release that failed.
func TestDoIsSilentAboutAHoldThatCloseGivesBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for range 5 {
		log := &kit.Journal{}
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Logger: log.JsonLogger()})
		closing := make(chan struct{})
		var works, begun sync.WaitGroup
		for i := range 300 { // so many that Close needs some time to end them
			begun.Add(1)
			works.Go(func() {
				err := holdfast.Do(t.Context(), rlock.New(s, strconv.Itoa(i), nil).Lock, func(context.Context) error {
					begun.Done()
					<-closing
					return nil
				})
				assert.True(t, err == nil || errors.Is(err, holdfast.ErrClosed), "%v", err)
			})
		}
		begun.Wait()
		works.Go(func() {
			defer close(closing)
			_, err := rlock.New(s, "0", nil).Lock(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrClosed)
		})
		require.NoError(t, s.Close())
		works.Wait()
		require.Empty(t, log.Entries(t, "holdfast: release failed"))
		require.Zero(t, srv.Int(t, "DBSIZE"))
	}
}

func TestAnEndedCtxSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute}) // so that nothing is renewed meanwhile
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

// A hold does not keep the contexts that are made of it from parents that do not end: a leader makes one each round.
func TestContextsOfAHoldDoNotCollect(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		hold := kit.Lock(t, t.Context(),
			k.Make(kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute}), "orders", 0))
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
		kit.Await(t, "the end of most of them", func() bool {
			runtime.GC()
			return gone.Load() > rounds/2
		})
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
