package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// A nested release whose outcome is unknown is repeated in the background. If the repeat is sent when the last hold
// has just ended, it frees the lock as well. The last release then finds nothing, which is success: the lock was held
// until it was released.
func TestTheLastReleaseIsNotLostToTheRepeatOfANestedOne(t *testing.T) {
	t.Parallel()
	c := newCell(t, kit.Kinds[0], lost, 6*time.Second, 0)
	require.NoError(t, c.take(t.Context(), c.mine.Lock))
	require.NoError(t, c.take(c.inner(), c.mine.Lock))
	c.rule = c.proxy.On(kit.ScriptOf(c.kind, "release"), proxy.DropReply, proxy.EveryTime)
	require.ErrorIs(t, c.giveBack(), holdfast.ErrUnknown)

	// A re-entry takes its turn, so the repeat waits behind it. The re-entry gives up when the last release is
	// waiting, too.
	entered := c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.HoldReply, proxy.EveryTime)
	ctx, cancel := context.WithCancel(c.inner())
	reentry := kit.GoLock(ctx, c.mine.Lock) // waits for its turn
	entered.Wait(t, 1)
	c.rule.Remove()
	require.NoError(t, c.holds[0].Err())
	last := make(chan error, 1)
	go func() { last <- c.holds[0].Release() }()
	kit.Await(t, "the end of the hold", func() bool { return c.holds[0].Err() != nil })
	cancel()
	entered.Remove()
	kit.Within(t, time.Second, reentry, "the end of the re-entry")
	require.NoError(t, kit.Within(t, 5*time.Second, last, "the release"))
	c.theyTakeIt(c.lease / 2)
}

// A release that gets no turn before it has to return is made up for, also if the call that had the turn knew of no
// other: here that of a nested hold, which tells the server that the outer one is left.
func TestAReleaseThatGetsNoTurnIsMadeUpFor(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	outer := kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: 1500 * time.Millisecond}))
	ctx := context.WithoutCancel(outer.Context(t.Context()))
	inner := kit.Lock(t, ctx, rlock.New(s, "x", &rlock.Options{FixedLease: time.Hour}))
	held := p.On(kit.ScriptNamed("rlock_release"), proxy.HoldReply, proxy.First)
	nested := make(chan error, 1)
	go func() { nested <- inner.Release() }()
	held.Wait(t, 1)
	require.ErrorIs(t, outer.Release(), holdfast.ErrUnknown) // after half a second
	held.Release()
	require.NoError(t, kit.Within(t, kit.Told, nested, "the nested release"))
	kit.AwaitFor(t, kit.Told, "a free lock", func() bool { return srv.Int(t, "EXISTS", "x") == 0 })
}
