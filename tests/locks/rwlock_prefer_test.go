package locks

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// neverPausing lets readers read for a while, again and again, until stop is closed.
func neverPausing(t *testing.T, s []*holdfast.Session, opts *rwlock.Options, n int, read time.Duration,
	stop <-chan struct{},
) (reading *atomic.Int64, done *sync.WaitGroup) {
	reading, done = new(atomic.Int64), new(sync.WaitGroup)
	for i := range n {
		half := rwlock.New(s[i%len(s)], kit.Orders, opts).Read()
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, err := half.Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				reading.Add(1)
				kit.SleepUntil(time.Now().Add(read))
				reading.Add(-1)
				assert.NoError(t, h.Release())
			}
		})
	}
	return reading, done
}

func TestAPreferredWriterGetsInAmongReadersThatNeverPause(t *testing.T) {
	const readers, read, writes = 50, 300 * time.Millisecond, 10
	srv := redistest.Start(t)
	sessions := []*holdfast.Session{
		kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil),
		kit.Open(t, srv.Addr(), nil),
	}
	opts := &rwlock.Options{PreferWriter: true}
	stop := make(chan struct{})
	reading, done := neverPausing(t, sessions[:2], opts, readers, read, stop)
	defer done.Wait()
	defer close(stop)
	for i := range writes {
		kit.Await(t, "the readers", func() bool { return reading.Load() > readers/2 })
		took := kit.Stopwatch()
		h := kit.Lock(t, t.Context(), rwlock.New(sessions[i%3], kit.Orders, opts).Write())
		assert.Zero(t, reading.Load())
		waited := took()
		assert.Less(t, waited, 2*read)
		t.Log("in after", waited)
		require.NoError(t, h.Release())
	}
}

// Without the option, as with Redisson, a writer waits for a moment in which nobody reads.
func TestAWriterWaitsWhileAnyoneReads(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rw, other := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0), kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0)
	read := kit.Lock(t, t.Context(), rw.Read())
	writer := kit.GoLock(t.Context(), other.Write().Lock)
	kit.Await(t, "the writer", func() bool { return listeners(t, srv) == 1 })
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		next := kit.Lock(t, t.Context(), rw.Read()) // before the other one has left
		require.NoError(t, read.Release())
		read = next
		kit.SleepUntil(time.Now().Add(10 * time.Millisecond))
	}
	require.Empty(t, writer)
	require.NoError(t, read.Release())
	r := kit.Within(t, kit.Told, writer, "the writer, when nobody reads")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
}

// A writer that no longer waits delays nobody: if it lives, from the same moment; if it died, once its mark's 5 s are
// over.
func TestReadersWaitBehindAWriterNoLongerThanItWaits(t *testing.T) {
	t.Parallel()
	opts := &rwlock.Options{PreferWriter: true}
	for name, c := range map[string]struct {
		leave  func(t *testing.T, srv *redistest.Server, writer *holdfast.Session, cancel func())
		within time.Duration
	}{
		"it was cancelled": {func(_ *testing.T, _ *redistest.Server, _ *holdfast.Session, cancel func()) {
			cancel()
		}, 2 * time.Second},
		"its session was closed": {func(t *testing.T, _ *redistest.Server, s *holdfast.Session, _ func()) {
			require.NoError(t, s.Close())
		}, 2 * time.Second},
		"it died": {func(t *testing.T, srv *redistest.Server, s *holdfast.Session, cancel func()) {
			// A dead writer is never heard of again, like this mark of a stranger.
			seconds := srv.Strs(t, "TIME")[0]
			srv.Do(t, "ZADD", "holdfast_rwlock_writers:{orders}", seconds+"000", "stranger:1")
			srv.Do(t, "ZINCRBY", "holdfast_rwlock_writers:{orders}", "5000", "stranger:1")
			cancel()
		}, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			a, b, c3 := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
			first := kit.Lock(t, t.Context(), rwlock.New(a, kit.Orders, opts).Read())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			writer := kit.GoLock(ctx, rwlock.New(b, kit.Orders, opts).Write().Lock)
			kit.Await(t, "the writer", func() bool {
				return srv.Int(t, "EXISTS", "holdfast_rwlock_writers:{orders}") == 1
			})
			_, err := rwlock.New(c3, kit.Orders, opts).Read().TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrBusy)
			// A reader may read again.
			inner := kit.Lock(t, first.Context(t.Context()), rwlock.New(a, kit.Orders, opts).Read())
			require.NoError(t, inner.Release())
			reader := kit.GoLock(t.Context(), rwlock.New(c3, kit.Orders, opts).Read().Lock)
			kit.Await(t, "the reader", func() bool { return listeners(t, srv) == 2 })
			began := time.Now()
			c.leave(t, srv, b, cancel)
			require.Error(t, kit.Within(t, time.Second, writer, "the writer's end").Err)
			r := kit.Within(t, c.within, reader, "the reader")
			require.NoError(t, r.Err)
			t.Log("in after", time.Since(began))
			require.NoError(t, r.Hold.Release())
			require.NoError(t, first.Release())
			kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
		})
	}
}

// A waiting writer is known as long as it waits, however long that is.
func TestAWaitingWriterStaysPreferred(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	rw := rwlock.New(s, kit.Orders, &rwlock.Options{PreferWriter: true})
	read := kit.Lock(t, t.Context(), rw.Read())
	first := kit.GoLock(t.Context(), rw.Write().Lock)
	kit.Await(t, "the writer", func() bool { return srv.Int(t, "EXISTS", "holdfast_rwlock_writers:{orders}") == 1 })
	second := kit.GoLock(t.Context(), rw.Write().Lock)
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		_, err := rw.Read().TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}
	require.NoError(t, read.Release())
	r := kit.Within(t, time.Second, first, "the writer")
	require.NoError(t, r.Err)
	kit.Await(t, "the second writer",
		func() bool { return srv.Int(t, "EXISTS", "holdfast_rwlock_writers:{orders}") == 1 })
	require.NoError(t, r.Hold.Release())
	r = kit.Within(t, time.Second, second, "the second writer")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	require.Empty(t, srv.Keyspace(t))
}
