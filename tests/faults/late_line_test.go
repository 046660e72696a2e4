package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A late call to stand in a line gets a place for an owner that the session has given up, or takes the lock for it. A
// late call to leave one finds nothing.
func TestScriptsOfALineRepeatedOrExecutedLate(t *testing.T) {
	playLate(t, lateLines, []kit.Kind{kit.KindOf("rlock"), kit.KindOf("rlock fenced")})
}

// inLine returns how many wait in the line.
func (c *cell) inLine() int { return int(c.srv.Int(c, "LLEN", wire.Line(kit.Orders))) }

// awaitLine waits until so many wait in the line.
func (c *cell) awaitLine(n int) {
	c.Helper()
	kit.Await(c, "the line", func() bool { return c.inLine() == n })
}

// theyHoldIt lets the other session take the lock.
func (c *cell) theyHoldIt() *holdfast.Hold {
	c.Helper()
	h := kit.Lock(c, context.Background(), c.theirs)
	c.tokens = append(c.tokens, h.Token())
	return h
}

// granted takes what a waiting call gets.
func (c *cell) granted(waits <-chan kit.Result) {
	c.Helper()
	require.NoError(c, c.take(context.Background(), func(context.Context) (*holdfast.Hold, error) {
		r := kit.Within(c, lateNotAfter, waits, "the lock")
		return r.Hold, r.Err
	}))
}

// again does with the next call of a script what the rule did with the first. A wait of the victim has ended before:
// its subscription has a connection of its own, after which the session learns the server's clock anew, and stays.
func (c *cell) again(verb string, action proxy.Action) {
	c.Helper()
	c.rule.Remove()
	theirs := c.theyHoldIt()
	waits := kit.GoLock(context.Background(), c.mine.Lock)
	c.awaitLine(1)
	require.NoError(c, theirs.Release())
	c.granted(waits)
	require.NoError(c, c.giveBack())
	c.rule = c.proxy.On(kit.ScriptOf(c.kind, verb), action, proxy.First)
}

// heard makes the server believe, until the test ends, that the victim's session listens for its turn in the line. When
// the session changes its connections, it does so only while one of its calls waits.
func (c *cell) heard() {
	c.Helper()
	conn, err := redistest.Dial(c.srv.Addr())
	require.NoError(c, err)
	c.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Do("SUBSCRIBE", wire.LineChannel(kit.Orders)+c.victim.ID())
	require.NoError(c, err)
}

// stalledStand takes the lock from others, although the first call to stand in the line is stalled: the client gives up
// the silent connection, and the session gives up the owner, and stands for another.
func (c *cell) stalledStand() (sent time.Time) {
	c.Helper()
	c.again("stand", proxy.Stall)
	theirs := c.theyHoldIt()
	waits := kit.GoLock(context.Background(), c.mine.Lock)
	c.rule.Wait(c, 1)
	sent = time.Now() // or a little earlier
	c.awaitLine(1)
	require.NoError(c, theirs.Release())
	c.granted(waits)
	require.Less(c, time.Since(sent), lateNotAfter, "the first copy would refuse itself")
	return sent
}

// stalledWait waits behind others until the call to stand in the line is stalled, and gives up.
func (c *cell) stalledWait() (theirs *holdfast.Hold, sent time.Time) {
	c.Helper()
	c.again("stand", proxy.Stall)
	theirs = c.theyHoldIt()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waits := kit.GoLock(ctx, c.mine.Lock)
	c.rule.Wait(c, 1)
	sent = time.Now() // or a little earlier
	cancel()
	require.ErrorIs(c, kit.Within(c, time.Second, waits, "the end of the wait").Err, holdfast.ErrUnknown)
	return theirs, sent
}

// left waits in the line behind others, and gives up.
func (c *cell) left() {
	c.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waits := kit.GoLock(ctx, c.mine.Lock)
	c.awaitLine(1)
	cancel()
	require.ErrorIs(c, kit.Within(c, lateNotAfter, waits, "the end of the wait").Err, context.Canceled)
}

var lateLines = []late{
	{"a call to stand is repeated", "stand", proxy.DropReply, 1, 10, func(c *cell) {
		c.again("stand", proxy.DropReply)
		theirs := c.theyHoldIt()
		waits := kit.GoLock(context.Background(), c.mine.Lock)
		c.rule.WaitAnswered(c, 1)
		c.awaitLine(1)
		require.NoError(c, theirs.Release())
		c.granted(waits)
		require.Zero(c, c.inLine(), "the repeated call took a second place")
	}},
	{"a call to stand comes while the lock is held", "stand", proxy.Stall, 1, 10, func(c *cell) {
		c.stalledStand()
		c.deliver()
		require.Equal(c, 1, c.count())
		require.Equal(c, 1, c.inLine()) // a ghost, which is granted the lock next
	}},
	{"a call to stand comes after the release, before its not-after", "stand", proxy.Stall, 1, 10, func(c *cell) {
		sent := c.stalledStand()
		require.NoError(c, c.giveBack())
		c.deliver()
		require.Equal(c, 1, c.count()) // a ghost, which the session gives back when no more copies can come
		kit.SleepUntil(sent.Add(lateNotAfter))
	}},
	{"a call to stand comes after the release, when others hold", "stand", proxy.Stall, 1, 10, func(c *cell) {
		c.heard()
		sent := c.stalledStand()
		require.NoError(c, c.giveBack())
		theirs := c.theyHoldIt()
		c.deliver()
		require.Zero(c, c.count())
		require.NoError(c, theirs.Err())
		kit.AwaitHandOn(c, c.srv)
		require.NoError(c, theirs.Release())
		require.Equal(c, 1, c.count(), "a ghost is next")
		kit.SleepUntil(sent.Add(lateNotAfter))
	}},
	{"a call to stand comes after its not-after", "stand", proxy.Stall, 1, 10, func(c *cell) {
		sent := c.stalledStand()
		require.NoError(c, c.giveBack())
		kit.SleepUntil(sent.Add(lateNotAfter + 5*time.Millisecond))
		theirs := c.theyHoldIt()
		c.deliver()
		require.Zero(c, c.inLine())
		require.NoError(c, theirs.Release())
	}},
	{"a call to stand that was given up comes before its not-after", "stand", proxy.Stall, 1, 10, func(c *cell) {
		theirs, sent := c.stalledWait()
		c.deliver()
		require.NoError(c, theirs.Release())
		kit.SleepUntil(sent.Add(lateNotAfter))
	}},
	{"a call to stand that was given up comes when the lock is free", "stand", proxy.Stall, 1, 10, func(c *cell) {
		theirs, sent := c.stalledWait()
		require.NoError(c, theirs.Release())
		c.deliver()
		kit.SleepUntil(sent.Add(lateNotAfter))
	}},
	{"a call to leave the line is repeated", "release", proxy.DropReply, 1, 10, func(c *cell) {
		theirs := c.theyHoldIt()
		c.left()
		c.rule.WaitAnswered(c, 1)
		c.awaitLine(0)
		require.NoError(c, theirs.Release())
		require.Zero(c, c.count())
	}},
	{"a call to leave the line comes when its session stands there again", "release", proxy.Stall, 1, 10, func(c *cell) {
		theirs := c.theyHoldIt()
		c.left()
		c.rule.Wait(c, 1)
		c.awaitLine(0) // by another copy
		waits := kit.GoLock(context.Background(), c.mine.Lock)
		c.awaitLine(1)
		c.deliver()
		require.Equal(c, 1, c.inLine())
		require.NoError(c, theirs.Release())
		c.granted(waits)
	}},
}
