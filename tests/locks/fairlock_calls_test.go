package locks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

var fairAcquire = kit.ScriptNamed("fairlock_acquire")

// A re-entry that has to be repeated waits for nothing that a release might hand to it.
func TestARepeatedReentryOfAFairLockLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	l := newFair(kit.Open(t, p.Addr(), nil))
	ctx := holdfast.NewOwner(t.Context())
	outer := kit.Lock(t, ctx, l)
	lost := p.On(fairAcquire, proxy.DropReply, proxy.First)
	inner := kit.Lock(t, ctx, l)
	require.Positive(t, lost.Matched())
	require.NoError(t, inner.Release())
	require.NoError(t, outer.Release())
	kit.Await(t, "the end of all subscriptions", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
}

// A waiter that has never had a place has not lost one.
func TestAFirstCallOfAFairLockThatIsLostIsNoLostPlace(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	var log kit.Journal
	s := kit.Open(t, p.Addr(), &holdfast.Options{Logger: log.Logger()})
	h := kit.Lock(t, t.Context(), newFair(kit.Open(t, srv.Addr(), nil)))
	p.On(fairAcquire, proxy.ResetBefore, proxy.First)
	got := kit.GoLock(t.Context(), fairlock.New(s, kit.Orders, nil).Lock)
	queued(t, srv, 1)
	require.NoError(t, h.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the waiter").Release())
	require.NotContains(t, log.String(), "taken for dead")
}

func TestAWaiterOfAFairLockThatHasLostItsPlaceSaysSo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var log kit.Journal
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Logger: log.Logger()})
	h := kit.Lock(t, t.Context(), newFair(kit.Open(t, srv.Addr(), nil)))
	got := kit.GoLock(t.Context(), fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: time.Second}).Lock)
	queued(t, srv, 1)
	srv.Do(t, "DEL", ordersQueue, ordersDue, ordersOurs, ordersAlive)
	kit.Await(t, "its word", func() bool { return strings.Contains(log.String(), "taken for dead, queued up anew") })
	require.NoError(t, h.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the waiter").Release())
}

// An observer that is told of a wait does not have the turn of the call's owner.
func TestAnObserverOfAWaitForAFairLockKeepsNoCallOfItsOwner(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	b := newBlocker(t, "Wait")
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Observer: b.observer()})
	kit.Lock(t, t.Context(), newFair(kit.Open(t, srv.Addr(), nil)))
	kit.GoLock(t.Context(), newFair(s).Lock) // the session hears from then on
	kit.Await(t, "a waiter that hears",
		func() bool { return b.waits.Load() == 1 && len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 1 })
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond))
	ctx := holdfast.NewOwner(t.Context())
	b.armed.Store(true)
	kit.GoLock(ctx, newFair(s).Lock)
	kit.Within(t, kit.LongestWait, b.blocked, "the user's code")
	r := kit.Within(t, kit.LongestWait, kit.GoLock(ctx, newFair(s).TryLock), "another call of the owner's")
	require.ErrorIs(t, r.Err, holdfast.ErrBusy)
}
