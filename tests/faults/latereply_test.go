package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	leases "github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// A reply that comes when trust in the hold would already have ended grants nothing.
func TestAReplyThatComesTooLate(t *testing.T) {
	const lease = 3 * time.Second
	start := func(t *testing.T) *cell {
		t.Parallel()
		return newCell(t, kit.Kinds[1], lost, 30*time.Second, lease) // so that no connection is given up for that long
	}
	t.Run("is no hold to TryLock, and is given back", func(t *testing.T) {
		c := start(t)
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.HoldReply, proxy.First)
		try := kit.GoLock(t.Context(), c.mine.TryLock)
		c.rule.Wait(t, 1)
		kit.SleepUntil(time.Now().Add(lease))
		c.rule.Release()
		require.ErrorIs(t, kit.Within(t, time.Second, try, "the end of the attempt").Err, holdfast.ErrUnknown)
		c.theyTakeIt(3 * time.Second)
		c.settled()
		c.tokensIncrease()
	})
	t.Run("makes Lock give back what the server still has, and try again", func(t *testing.T) {
		t.Parallel()
		c := newCell(t, kit.Kinds[1], lost, 30*time.Second, time.Hour)
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.HoldReply, proxy.First)
		wait := kit.GoLock(t.Context(), c.mine.Lock)
		c.rule.Wait(t, 1)
		(*session.Session)(c.victim).Skip(time.Hour)
		c.rule.Release()
		r := kit.Within(t, 5*time.Second, wait, "the lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Err())
		require.Equal(t, 1, c.count())
		c.tokens = append(c.tokens, r.Hold.Token())
		require.NoError(t, r.Hold.Release())
		c.theyTakeIt(3 * time.Second)
		c.tokensIncrease()
	})
	t.Run("makes a re-entry try again", func(t *testing.T) {
		t.Parallel()
		c := newCell(t, kit.Kinds[1], lost, 30*time.Second, 0)
		require.NoError(t, c.take(t.Context(), c.mine.Lock))
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.HoldReply, proxy.First)
		// The short lease is the re-entry's alone.
		wait := kit.GoLock(c.inner(), c.kind.Make(c.victim, kit.Orders, lease).Lock)
		c.rule.Wait(t, 1)
		kit.SleepUntil(time.Now().Add(lease))
		c.rule.Release()
		r := kit.Within(t, 5*time.Second, wait, "the re-entry")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Err())
		require.GreaterOrEqual(t, c.rule.Matched(), 2, "a reply that came too late made a hold")
		require.NoError(t, r.Hold.Release())
		kit.Await(t, "the true count", func() bool { return c.count() == 1 })
		c.believes()
		require.NoError(t, c.giveBack())
		c.theyTakeIt(3 * time.Second)
	})
	t.Run("does not revive what was extended too late", func(t *testing.T) {
		c := start(t)
		require.NoError(t, c.take(t.Context(), c.mine.Lock))
		h := c.holds[0]
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "renew"), proxy.HoldReply, proxy.First)
		extended := make(chan error, 1)
		go func() { extended <- h.Extend(t.Context(), time.Hour) }()
		c.rule.Wait(t, 1)
		kit.SleepUntil(h.Deadline())
		require.ErrorIs(t, h.Err(), holdfast.ErrLost)
		c.rule.Release()
		require.ErrorIs(t, kit.Within(t, time.Second, extended, "the end of the extension"), holdfast.ErrLost)
		require.ErrorIs(t, h.Err(), holdfast.ErrLost)
		c.theyTakeIt(3 * time.Second) // though the server has an expiry an hour from now
	})
	t.Run("does not revive what was renewed too late", func(t *testing.T) {
		t.Parallel()
		c := newCell(t, kit.Kinds[1], lost, 5*time.Second, 0)
		require.NoError(t, c.take(t.Context(), c.mine.Lock))
		h := c.holds[0]
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "renew"), proxy.HoldReply, proxy.EveryTime)
		c.proxy.StallNew(true)
		c.rule.Wait(t, 1)
		for now := time.Now(); h.Err() == nil; now = time.Now() {
			require.False(t, now.After(h.Deadline()))
			time.Sleep(time.Millisecond)
		}
		c.rule.Remove()
		c.proxy.ResumeAll()
		require.ErrorIs(t, h.Err(), holdfast.ErrLost)
		require.ErrorIs(t, h.Release(), holdfast.ErrLost)
		c.theyTakeIt(c.lease)
	})
}

// Trust in an extension, too, counts from when it was sent, and the server's lease from when it was executed, however
// long the reply takes.
func TestTrustInWhatIsProlongedIsCountedFromTheSending(t *testing.T) {
	t.Parallel()
	const slow = 500 * time.Millisecond
	// prolonged prolongs a hold with a call whose reply is slow, and checks until when the hold is then trusted.
	prolonged := func(t *testing.T, session, length time.Duration, prolong func(h *holdfast.Hold) <-chan error) {
		t.Parallel()
		c := newCell(t, kit.KindOf("rlock"), lost, session, 0)
		require.NoError(t, c.take(t.Context(), c.mine.Lock))
		h := c.holds[0]
		before := h.Deadline()
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "renew"), proxy.HoldReply, proxy.EveryTime)
		ended := prolong(h)
		c.rule.Wait(t, 1)
		executed := time.Now() // or earlier
		kit.SleepUntil(executed.Add(slow))
		c.rule.Release()
		require.NoError(t, kit.Within(t, 5*time.Second, ended, "the end of the call"))
		kit.Await(t, "the longer trust", func() bool { return h.Deadline().After(before) })
		trusted := h.Deadline()
		require.Equal(t, 1, c.rule.Count())
		require.WithinRange(t, trusted, before, executed.Add(leases.Trust(0, length)))
		c.rule.Remove()
		require.NoError(t, c.giveBack())
	}
	t.Run("renewal", func(t *testing.T) {
		const length = 18 * time.Second // so that a renewal has three seconds
		prolonged(t, length, length, func(*holdfast.Hold) <-chan error {
			nothing := make(chan error)
			close(nothing)
			return nothing
		})
	})
	t.Run("extension", func(t *testing.T) {
		prolonged(t, 30*time.Second, time.Minute, func(h *holdfast.Hold) <-chan error {
			extended := make(chan error, 1)
			go func() { extended <- h.Extend(t.Context(), time.Minute) }()
			return extended
		})
	})
}
