package faults

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// A permitCall is an operation on a semaphore that takes no permit, with the number of free permits after it. One
// permit of the expirable semaphore is taken.
type permitCall struct {
	script string
	call   func(ctx context.Context, p *semaphore.Semaphore, e *semaphore.Expirable, h *holdfast.Hold) error
	// How many permits are free once the call was executed; 5 were before. −1 means that the semaphore is gone.
	after int
	sure  bool // it is repeated until its outcome is known
}

// look reports whether the call changes nothing, so that it is simply sent again.
func (c permitCall) look() bool {
	return slices.Contains([]string{"count_value", "semaphore_count_expirable", "semaphore_lease_expirable"},
		c.script)
}

var permitCalls = map[string]permitCall{
	"TrySetPermits": {
		"semaphore_set",
		func(ctx context.Context, p *semaphore.Semaphore, _ *semaphore.Expirable, _ *holdfast.Hold) error {
			return kit.ErrorOf(p.TrySetPermits(ctx, 9))
		}, 5, false,
	},
	"AvailablePermits": {
		"count_value",
		func(ctx context.Context, p *semaphore.Semaphore, _ *semaphore.Expirable, _ *holdfast.Hold) error {
			return kit.ErrorOf(p.AvailablePermits(ctx))
		}, 5, false,
	},
	"Delete": {"semaphore_delete", func(ctx context.Context, p *semaphore.Semaphore, _ *semaphore.Expirable,
		_ *holdfast.Hold,
	) error {
		return kit.ErrorOf(p.Delete(ctx))
	}, -1, false},
	"Expirable.TrySetPermits": {
		"semaphore_resize_expirable",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, _ *holdfast.Hold) error {
			return kit.ErrorOf(e.TrySetPermits(ctx, 9))
		}, 5, false,
	},
	"Expirable.SetPermits": {
		"semaphore_resize_expirable",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, _ *holdfast.Hold) error {
			return e.SetPermits(ctx, 9)
		}, 8, false,
	},
	"Expirable.AddPermits": {
		"semaphore_add_expirable",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, _ *holdfast.Hold) error {
			return e.AddPermits(ctx, 2)
		}, 7, false,
	},
	"Expirable.AcquiredPermits": {
		"semaphore_count_expirable",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, _ *holdfast.Hold) error {
			return kit.ErrorOf(e.AcquiredPermits(ctx))
		}, 5, false,
	},
	"Expirable.RemainingLease": {
		"semaphore_lease_expirable",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, h *holdfast.Hold) error {
			return kit.ErrorOf(e.RemainingLease(ctx, h.ID()))
		}, 5, false,
	},
	"Expirable.UpdateLease": {
		"semaphore_update_expirable",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, h *holdfast.Hold) error {
			return e.UpdateLease(ctx, h.ID(), time.Minute)
		}, 5, false,
	},
	"Expirable.Release": {
		"semaphore_release_expirable",
		func(_ context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, h *holdfast.Hold) error {
			return e.Release(context.Background(), h.ID())
		}, 6, true,
	},
	"Expirable.Delete": {
		"semaphore_delete",
		func(ctx context.Context, _ *semaphore.Semaphore, e *semaphore.Expirable, _ *holdfast.Hold) error {
			return kit.ErrorOf(e.Delete(ctx))
		}, -1, false,
	},
}

// Whatever happens to a call, it is executed at most once; if its outcome is not known, it reports that; and soon
// afterwards the semaphore can be used.
func TestEveryCallOfASemaphoreUnderEveryFault(t *testing.T) {
	type place struct {
		name  string
		fault int
	}
	var places []place
	for name := range permitCalls {
		for f := range faults {
			places = append(places, place{name, f})
		}
	}
	kit.InParallel(t, 16, places, func(p place) string { return p.name + "/" + faults[p.fault].name },
		func(t *testing.T, p place) {
			c, f := permitCalls[p.name], faults[p.fault]
			srv, proxied := kit.StartProxied(t)
			s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second})
			counting, leased := kit.NewPool(t, s, 5), kit.NewExports(t, s, 6, time.Hour)
			h, err := leased.Acquire(t.Context())
			require.NoError(t, err)

			rule := proxied.On(kit.ScriptNamed(c.script), f.action, proxy.First)
			err = untilSent(rule, func() error {
				ctx, cancel := context.WithCancel(t.Context())
				if f.fault == stalled && !c.sure {
					ctx, cancel = context.WithTimeout(t.Context(), deadline)
				}
				defer cancel()
				return c.call(ctx, counting, leased, h)
			})
			require.Equal(t, 1, rule.Count())
			switch {
			case c.sure && f.fault != lost:
				require.True(t, err == nil || f.fault == stalled && kit.ClassOf(err) == "unknown", err)
			case f.fault == stalled:
				require.Equal(t, "unknown deadline", kit.ClassOf(err))
			case c.look():
				require.NoError(t, err)
			default:
				require.Equal(t, "unknown", kit.ClassOf(err))
			}
			if f.fault == stalled {
				rule.Release()
				rule.WaitAnswered(t, 1)
			}
			rule.Remove()
			want := 5
			if f.fault != reset || c.sure {
				want = c.after
			}
			name := map[bool]string{true: "exports", false: "pool"}[len(p.name) > 9 && p.name[:9] == "Expirable"]
			kit.Await(t, "the permits", func() bool {
				n, err := srv.Try("GET", name)
				require.NoError(t, err)
				return n == nil && want < 0 || n == string(rune('0'+want))
			})
			if want >= 0 {
				require.NoError(t, counting.Acquire(t.Context(), 1))
				require.NoError(t, counting.Release(t.Context(), 1))
				another, err := leased.Acquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, another.Release())
			}
		})
}
