package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A hold that is held for longer than it may be is renewed no more: it is lost when its lease is over, and says why.
func TestAHoldIsNotRenewedForLongerThanItMayBe(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second
	srv, log := redistest.Start(t), &kit.Journal{}
	opts := &holdfast.Options{Lease: most, MaxHold: most, Logger: log.JsonLogger()}
	s, other := kit.Open(t, srv.Addr(), opts), kit.Open(t, srv.Addr(), nil)

	lost := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	inner := kit.Lock(t, lost.Context(t.Context()), rlock.New(s, "orders", nil))
	permits := semaphore.NewExpirable(s, "exports", nil)
	require.NoError(t, permits.SetPermits(t.Context(), 1))
	permit, err := permits.Acquire(t.Context())
	require.NoError(t, err)
	extended := kit.Lock(t, t.Context(), rlock.New(s, "stock", &rlock.Options{FixedLease: time.Minute}))

	next := kit.Lock(t, t.Context(), rlock.New(other, "orders", nil))
	for _, h := range []*holdfast.Hold{lost, inner, permit} {
		ctx := h.Context(t.Context())
		kit.Await(t, "the end of a hold", func() bool { return ctx.Err() != nil })
		var why *holdfast.LostError
		require.ErrorAs(t, context.Cause(ctx), &why)
		assert.ErrorContains(t, why, "held for longer than Options.MaxHold, 5s")
		assert.GreaterOrEqual(t, why.Held, most)
		assert.ErrorIs(t, h.Release(), holdfast.ErrLost)
	}
	require.NoError(t, next.Release())
	require.NoError(t, extended.Release(), "a fixed lease is its own limit")
	entries := log.Entries(t, "holdfast: lost")
	require.Len(t, entries, 3)
}

// A hold that is not renewed any more is handed over to another call of its session: that one's hold is renewed.
func TestWhoFollowsAHoldOfTheLongestTimeIsRenewed(t *testing.T) {
	t.Parallel()
	const most = kit.Lease
	s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Lease: most, MaxHold: most})
	l := rlock.New(s, "orders", nil)
	long := kit.Lock(t, t.Context(), l)
	waits := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "no renewal", func() bool { return time.Until(long.Deadline()) < most/2 })
	require.NoError(t, long.Release())

	next := kit.Granted(t, most, waits, "the next call")
	require.Equal(t, long.ID(), next.ID(), "it was handed over")
	first := next.Deadline()
	kit.Await(t, "a renewal", func() bool { return next.Deadline().After(first) || next.Err() != nil })
	require.NoError(t, next.Release())
}

// A nested hold outlives the one because of which renewals have ended: it is renewed.
func TestANestedHoldOutlivesOneOfTheLongestTime(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, outer *holdfast.Hold){
		"is released": func(t *testing.T, outer *holdfast.Hold) { require.NoError(t, outer.Release()) },
		"is lost": func(t *testing.T, outer *holdfast.Hold) {
			kit.Within(t, 2*kit.Lease, outer.Context(t.Context()).Done(), "the end of the outer hold")
			require.ErrorIs(t, outer.Err(), holdfast.ErrLost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = kit.Lease
			s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Lease: most, MaxHold: most})
			l := rlock.New(s, "orders", nil)
			outer := kit.Lock(t, t.Context(), l)
			kit.Await(t, "no renewal", func() bool { return time.Until(outer.Deadline()) < most/2 })
			inner := kit.Lock(t, outer.Context(t.Context()), l)
			first := inner.Deadline()
			end(t, outer)
			kit.Await(t, "a renewal", func() bool { return inner.Deadline().After(first) || inner.Err() != nil })
			require.NoError(t, inner.Release())
		})
	}
}

// Nobody renews the lease that replicas have of a hold of the longest time, so a hold that is nested in it is
// acknowledged again.
func TestAHoldNestedInOneOfTheLongestTimeIsAcknowledged(t *testing.T) {
	t.Parallel()
	const most = kit.Lease
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	defer replica.Resume()
	opts := &holdfast.Options{Lease: most, MaxHold: most, Acks: 1, AcksTimeout: most / 4}
	l := rlock.New(kit.Open(t, master.Addr(), opts), kit.Orders, nil)
	outer := kit.Lock(t, t.Context(), l)
	kit.Await(t, "no renewal", func() bool { return time.Until(outer.Deadline()) < most/2 })
	replica.Pause()
	_, err := l.TryLock(outer.Context(t.Context()))
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
}

// A hold that is renewed no more and is then extended ends with that lease, and says why nobody has renewed it.
func TestAnExtendedHoldOfTheLongestTimeSaysWhyItEnds(t *testing.T) {
	t.Parallel()
	const most = 6 * time.Second
	s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Lease: most, MaxHold: most})
	h := kit.Lock(t, t.Context(), rlock.New(s, kit.Orders, nil))
	kit.Await(t, "no renewal", func() bool { return time.Until(h.Deadline()) < most/2 })
	require.NoError(t, h.Extend(t.Context(), most))
	kit.Await(t, "its end", func() bool { return h.Err() != nil })
	require.ErrorContains(t, h.Err(), "held for longer than Options.MaxHold")
}
