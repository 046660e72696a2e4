package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A re-entry that fails for a moment must not queue behind calls that wait for its own owner.
func TestAReentryThatFailsForAMomentDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{
		"reply lost":     proxy.DropReply,
		"never executed": proxy.ResetBefore,
		"refused":        proxy.Answer("-LOADING Redis is loading the dataset in memory"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			s := kit.Open(t, p.Addr(), nil)
			l := rlock.New(s, "x", nil)
			outer := kit.Lock(t, t.Context(), l)
			ctx := outer.Context(t.Context())
			require.NoError(t, kit.Lock(t, ctx, l).Release()) // now the scripts are known

			waiter := kit.GoLock(t.Context(), l.Lock)
			kit.Await(t, "the waiter", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
			rule := p.On(proxy.Command("EVALSHA").With(outer.ID()), action, proxy.First)
			inner := kit.Within(t, 5*time.Second, kit.GoLock(ctx, l.Lock), "the re-entry")
			require.NoError(t, inner.Err)
			rule.Wait(t, 1)
			assert.Equal(t, map[string]string{outer.ID(): "2"}, srv.Keyspace(t)["x"].Content)
			require.NoError(t, inner.Hold.Release())
			require.NoError(t, outer.Release())
			r := kit.Within(t, 5*time.Second, waiter, "the waiter's lock")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Release())
		})
	}
}

// What a re-entry without a reply may have left is taken back at once, not only when no copy of it can come any more.
func TestAReentryWithoutAReplyIsTakenBackSoon(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	l := rlock.New(kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second}), "x", nil)
	outer := kit.Lock(t, t.Context(), l)
	rule := p.On(proxy.Command("EVALSHA").With(outer.ID()), proxy.DropReply, proxy.EveryTime)
	ctx, cancel := context.WithTimeout(outer.Context(t.Context()), 100*time.Millisecond)
	defer cancel()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	rule.Remove()
	kit.AwaitFor(t, kit.Told, "one hold", func() bool {
		return assert.ObjectsAreEqual(map[string]string{outer.ID(): "1"}, srv.Keyspace(t)["x"].Content)
	})
	require.NoError(t, outer.Release())
}

// A re-entry that finds nothing to enter says so to the hold as well, without its next renewal.
func TestAReentryThatFindsNothingEndsTheHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	rw := rwlock.New(s, "rw", nil)
	for name, locks := range map[string][2]holdfast.Locker{
		"rlock":              {rlock.New(s, "r", nil), rlock.New(s, "r", nil)},
		"fairlock":           {fairlock.New(s, "fair", nil), fairlock.New(s, "fair", nil)},
		"reading in writing": {rw.Write(), rw.Read()},
	} {
		t.Run(name, func(t *testing.T) {
			outer := kit.Lock(t, t.Context(), locks[0])
			ctx := context.WithoutCancel(outer.Context(t.Context()))
			srv.Do(t, "DEL", outer.Name())
			_, err := locks[1].TryLock(ctx)
			require.ErrorIs(t, err, holdfast.ErrLost)
			require.ErrorIs(t, outer.Err(), holdfast.ErrLost)
		})
	}
}
