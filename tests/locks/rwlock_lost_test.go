package locks

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// When the lease of a dead reader ends, the reader is gone, although others go on reading.
func TestADeadReaderFallsOutByItself(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	dead := kit.Lock(t, t.Context(), kit.OrdersRW(a, 3*time.Second).Read())
	id := dead.ID()
	require.NoError(t, dead.Detach()) // nobody renews it any more
	alive := kit.Lock(t, t.Context(), kit.OrdersRW(b, 0).Read())
	readers := func() (ids []string) {
		holders, err := kit.OrdersRW(b, 0).Read().Holders(t.Context())
		require.NoError(t, err)
		for _, h := range holders {
			ids = append(ids, h.ID)
		}
		return ids
	}
	require.ElementsMatch(t, []string{id, alive.ID()}, readers())
	kit.Await(t, "the end of the dead one", func() bool { return slices.Equal(readers(), []string{alive.ID()}) })
	require.NoError(t, alive.Err())
	require.NoError(t, alive.Release())
	require.NoError(t, kit.Lock(t, t.Context(), kit.OrdersRW(a, 0).Write()).Release())
	require.Empty(t, srv.Keyspace(t))
}

// A reader whose holds the server has dropped learns of it at the next renewal, although others go on reading.
func TestAReaderThatTheServerDroppedIsLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	lost, kept := kit.Lock(t, t.Context(), kit.OrdersRW(s, 0).Read()),
		kit.Lock(t, t.Context(), kit.OrdersRW(s, 0).Read())
	ctx := lost.Context(t.Context())
	srv.Do(t, "DEL", kit.OrdersReadHold(lost.ID(), 1))
	kit.Within(t, 6*time.Second, ctx.Done(), "the loss")
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
	for before := kept.Deadline(); kept.Deadline().Equal(before); {
		require.NoError(t, kept.Err())
		<-time.After(time.Millisecond)
	}
	require.NoError(t, kept.Release())
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// On the server a writer has no separate lease: if a write hold is lost while its owner goes on reading, the session
// gives it back.
func TestALostWriterDoesNotStayBehindItsReads(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	write := kit.Lock(t, t.Context(), kit.OrdersRW(a, 500*time.Millisecond).Write())
	ctx := context.WithoutCancel(write.Context(t.Context()))
	read := kit.Lock(t, ctx, kit.OrdersRW(a, 0).Read())
	other := kit.Within(t, 3*time.Second, kit.GoLock(t.Context(), kit.OrdersRW(b, 0).Read().Lock), "another reader")
	require.NoError(t, other.Err)
	require.ErrorIs(t, write.Err(), holdfast.ErrLost)
	require.NoError(t, read.Err())
	require.NoError(t, read.Release())
	require.NoError(t, other.Hold.Release())
	require.Empty(t, srv.Keyspace(t))
}

// No release hides that the lock was forced open, not even that of the write hold under which a read hold was taken.
func TestAReadHoldThatWasForcedIsLostAfterADowngrade(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	rw := rwlock.New(s, "catalog", nil)
	write := kit.Lock(t, t.Context(), rw.Write())
	read := kit.Lock(t, write.Context(t.Context()), rw.Read())
	require.NoError(t, write.Release())
	was, err := rwlock.New(other, "catalog", nil).Read().ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, read.Release(), holdfast.ErrLost)
}

// A release that the server has refused is repeated in the background. It takes no hold that the owner has got since.
func TestARefusedReleaseOfAReadTakesNoLaterOne(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	other := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0)
	lock := kit.OrdersRW(s, 0)
	write := kit.Lock(t, t.Context(), lock.Write())
	ctx := write.Context(t.Context())
	first := kit.Lock(t, ctx, lock.Read())
	releases := kit.ScriptOf(kit.KindOf("rwlock read"), "release")
	refused := p.On(releases, proxy.Answer("-LOADING not now"), proxy.EveryTime)
	require.Error(t, first.Release())
	second := kit.Lock(t, ctx, lock.Read())
	refused.Remove()
	p.On(releases, proxy.Pass, proxy.EveryTime).WaitAnswered(t, 1)
	require.NoError(t, write.Release())
	_, err := other.Write().TryLock(t.Context())
	require.NoError(t, second.Err())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, second.Release())
}
