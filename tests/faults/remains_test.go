package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// The server may have given a hold a longer lease than the holder could learn of: here an hour, which the holder
// asked for without ever getting the reply. When the hold is lost, it must not keep others out for the rest of that
// lease.
func TestALostHoldIsGivenBackWhateverItsLeaseIsOnTheServer(t *testing.T) {
	const long = time.Hour
	for _, story := range []struct {
		name string
		verb string
		make func(c *cell) // prolongs the lease on the server, without a reply
	}{
		{"after an extension without a reply", "renew", func(c *cell) {
			require.ErrorIs(c, c.holds[0].Extend(context.Background(), long), holdfast.ErrUnknown)
		}},
		{"after a re-entry without a reply", "acquire", func(c *cell) {
			inner := rlock.New(c.victim, kit.Orders, &rlock.Options{FixedLease: long})
			ctx, cancel := context.WithTimeout(c.inner(), 200*time.Millisecond)
			defer cancel()
			_, err := inner.TryLock(ctx)
			require.ErrorIs(c, err, holdfast.ErrUnknown)
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, kit.Kinds[0], lost, 3*time.Second, 3*time.Second)
			require.NoError(t, c.take(t.Context(), c.mine.Lock))
			c.rule = c.proxy.On(kit.ScriptOf(c.kind, story.verb), proxy.DropReply, proxy.EveryTime)
			story.make(c)
			c.rule.Remove()
			require.NoError(t, c.holds[0].Err())
			kit.Within(t, 6*time.Second, c.holds[0].Context(t.Context()).Done(), "the loss")
			require.ErrorIs(t, c.holds[0].Release(), holdfast.ErrLost)
			c.theyTakeIt(2 * time.Second)
		})
	}
	t.Run("after renewals without a reply", func(t *testing.T) {
		t.Parallel()
		const lease = 6 * time.Second
		c := newCell(t, kit.Kinds[0], lost, lease, 0)
		require.NoError(t, c.take(t.Context(), c.mine.Lock))
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "renew"), proxy.DropReply, proxy.EveryTime)
		kit.Within(t, 2*lease, c.holds[0].Context(t.Context()).Done(), "the loss")
		c.rule.Remove()
		c.theyTakeIt(lease / 2)
	})
}

// Something between client and server may garble a reply. Then nobody knows that they hold the lock, and the server
// must not keep it.
func TestAGrantWhoseReplyIsGarbledIsGivenBack(t *testing.T) {
	for _, k := range lateKinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, k, lost, kit.Lease, lateLease)
			acquires, taken := kit.ScriptOf(k, "acquire"), 0
			c.rule = c.proxy.On(func(command []string) bool {
				if !acquires(command) {
					return false
				}
				_, err := c.srv.Try(command...)
				if assert.NoError(t, err) {
					taken = c.count()
				}
				return true
			}, proxy.Answer("+OK"), proxy.First)
			require.ErrorContains(t, c.take(t.Context(), c.mine.TryLock), "reply is no array")
			require.Equal(t, 1, c.rule.Count())
			require.Equal(t, 1, taken)
			c.theyTakeIt(2 * lateNotAfter)
			c.settled()
		})
	}
}
