package faults

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// others are the operations on a lock that is held, and those that need no hold. Release and Close take no ctx, so
// they must not return an error that looks like the caller's deadline.
var others = []operation{
	{
		name: "nested Release", verb: "release", highest: 3, owners: true, apart: true,
		skip: func(k kit.Kind) bool { return !k.Reentrant },
		prepare: func(c *cell) {
			require.NoError(c, c.take(c.Context(), c.mine.Lock))
			require.NoError(c, c.take(c.inner(), c.mine.Lock))
			require.NoError(c, c.take(c.inner(), c.mine.Lock))
		},
		do:   []act{func(c *cell, _ context.Context, _ fault) error { return c.giveBack() }},
		lost: outcomes{"done", "unknown"}, reset: outcomes{"done", "unknown"},
		stalled: outcomes{"done|unknown", "unknown"},
	},
	{
		name: "last Release", verb: "release", highest: 1,
		do: []act{func(c *cell, _ context.Context, _ fault) error {
			require.NoError(c, c.take(context.Background(), c.mine.Lock))
			return c.giveBack()
		}},
		lost: outcomes{"done", "unknown"}, reset: outcomes{"done", "unknown"},
		stalled: outcomes{"done|unknown", "unknown"},
	},
	{
		name: "renewal", verb: "renew", free: 3 * cellLease / 2, highest: 1,
		prepare: func(c *cell) { require.NoError(c, c.take(c.Context(), c.mine.Lock)) },
		do:      []act{renewal},
		lost:    outcomes{"done", "lost"}, reset: outcomes{"done", "lost"}, stalled: outcomes{"done", "lost"},
	},
	{
		name: "Extend", verb: "renew", fixed: cellLease, highest: 1, told: true,
		prepare: func(c *cell) { require.NoError(c, c.take(c.Context(), c.mine.Lock)) },
		do:      []act{extend},
		lost:    outcomes{"unknown", "unknown"}, reset: outcomes{"unknown", "unknown"},
		stalled: outcomes{"unknown deadline", "unknown deadline"},
	},
	{
		name: "ForceUnlock", verb: "force", highest: 1, owners: true, told: true,
		do:   []act{forceUnlock},
		lost: outcomes{"unknown", "unknown"}, reset: outcomes{"unknown", "unknown"},
		stalled: outcomes{"unknown deadline", "unknown deadline"},
	},
	{
		name: "inspection", verb: "holders", highest: 1, owners: true, told: true,
		prepare: func(c *cell) { require.NoError(c, c.take(c.Context(), c.mine.Lock)) },
		do:      inspections,
		lost:    outcomes{"done", "unknown"}, reset: outcomes{"done", "unknown"},
		stalled: outcomes{"unknown deadline", "unknown deadline"},
	},
	{
		// Once hit, Close has 5 s to repeat the releases (G2): the locks must not last until their leases end.
		name: "Close", verb: "release", single: true, highest: 1, free: 3 * cellLease / 2, apart: true,
		prepare: func(c *cell) {
			require.NoError(c, c.take(c.Context(), c.mine.Lock))
			kit.Lock(c, c.Context(), c.kind.Make(c.victim, "returns", 0))
		},
		do:   []act{closeSession},
		lost: outcomes{"done", "unknown"}, reset: outcomes{"done", "unknown"}, stalled: outcomes{"done", "unknown"},
	},
}

// renewal waits for the next renewal, or for the end of the hold, which must come exactly at its deadline.
func renewal(c *cell, _ context.Context, _ fault) error {
	h := c.holds[0]
	done := h.Context(context.Background()).Done()
	for before := h.Deadline(); h.Deadline().Equal(before); {
		select {
		case <-done:
			require.False(c, time.Now().Before(h.Deadline()), "lost too early")
			require.ErrorIs(c, h.Release(), holdfast.ErrLost)
			c.holds = nil
			return h.Err()
		case <-time.After(min(max(time.Until(h.Deadline()), time.Millisecond), 20*time.Millisecond)):
			if late := time.Since(h.Deadline()); late > 0 && h.Err() == nil {
				c.Fatalf("held %v after its deadline", late)
			}
		}
	}
	return h.Err()
}

// extend extends a hold; after an error the deadline is unchanged.
func extend(c *cell, ctx context.Context, _ fault) error {
	h := c.holds[0]
	before := h.Deadline()
	err := h.Extend(ctx, 2*cellLease)
	if err != nil {
		require.Equal(c, before, h.Deadline())
		return err
	}
	require.Greater(c, time.Until(h.Deadline()), cellLease*3/2)
	return nil
}

// forceUnlock makes the victim force open what another session holds, and checks whether it is open.
func forceUnlock(c *cell, ctx context.Context, hit fault) error {
	h := kit.Lock(c, context.Background(), c.alike)
	c.tokens = append(c.tokens, h.Token())
	was, err := c.mine.ForceUnlock(ctx)
	require.Equal(c, err == nil, was)
	want := "lost"
	switch hit {
	case reset:
		want = "done"
	case stalled:
		require.NoError(c, h.Err())
		c.deliver()
		if c.srv.Int(c, "EXISTS", kit.Orders) == 1 { // it was executed so late that it refused itself
			want = "done"
		}
	case lost:
		// The force was refused: the server's time was not known, and still is not.
		if err != nil && c.srv.Int(c, "EXISTS", kit.Orders) == 1 {
			want = "done"
		}
	}
	require.Equal(c, want, kit.ClassOf(h.Release()))
	return err
}

// inspections are all the ways to look at a lock; each must see the victim's hold or fail.
var inspections = []act{
	func(c *cell, ctx context.Context, _ fault) error {
		locked, err := c.mine.Locked(ctx)
		require.Equal(c, err == nil, locked)
		return err
	},
	func(c *cell, ctx context.Context, _ fault) error {
		held, err := c.mine.Held(c.holds[0].Context(ctx))
		require.Equal(c, err == nil, held)
		return err
	},
	func(c *cell, ctx context.Context, _ fault) error {
		n, err := c.mine.HoldCount(c.holds[0].Context(ctx))
		require.Equal(c, err == nil, n == 1)
		return err
	},
	func(c *cell, ctx context.Context, _ fault) error {
		left, err := c.mine.RemainingLease(ctx)
		require.Equal(c, err == nil, left > 0)
		return err
	},
	func(c *cell, ctx context.Context, _ fault) error {
		holders, err := c.mine.Holders(ctx)
		require.Equal(c, err == nil, len(holders) == 1)
		return err
	},
}

// closeSession closes the victim, which holds two locks.
func closeSession(c *cell, _ context.Context, _ fault) error {
	took := kit.Stopwatch()
	err := c.victim.Close()
	require.Less(c, took(), 5500*time.Millisecond)
	for _, h := range c.holds {
		require.ErrorIs(c, h.Err(), holdfast.ErrClosed)
	}
	c.holds, c.closed = nil, true
	return err
}
