package locks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

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
		assert.NotEqual(t, outer.ID(), again.ID(), "each outermost acquisition has its own wire owner")
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
		outer := kit.Lock(t, t.Context(), fixed(time.Second))
		inner := kit.Lock(t, outer.Context(t.Context()), fixed(time.Minute))
		<-outer.Context(t.Context()).Done()
		assert.NoError(t, inner.Err())
		assert.Equal(t, map[string]string{inner.ID(): "2"}, srv.Keyspace(t)["x"].Content)
		require.NoError(t, inner.Release())
		assert.Empty(t, srv.Keyspace(t))
	})
	t.Run("what a released longer lease left is given back with the last hold", func(t *testing.T) {
		outer := kit.Lock(t, t.Context(), fixed(2*time.Second))
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
