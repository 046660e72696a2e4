package locks

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// mismatched checks that a call reports at once that the name is of another kind, and nothing of a script.
func mismatched(t *testing.T, what string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := call(ctx)
	if !assert.Error(t, err, what) {
		return
	}
	assert.ErrorIs(t, err, holdfast.ErrWrongKind, what)
	assert.Contains(t, err.Error(), ": holdfast: wrong kind: the name is that of ", what)
	assert.NotContains(t, err.Error(), "WRONGTYPE", what)
	assert.NotContains(t, err.Error(), "script", what)
	assert.NotErrorIs(t, err, context.DeadlineExceeded, what)
}

// A value that is no count is not taken for a missing one: every call reports it at once.
func TestATextIsNoCount(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string][]string{
		"a text":       {"SET", "x", "0d3b1e12-63a5-4ef9"},
		"a fraction":   {"SET", "x", "1.5"},
		"hexadecimal":  {"SET", "x", "0x10"},
		"nothing":      {"SET", "x", ""},
		"a large one":  {"SET", "x", "9007199254740992"},
		"another type": {"RPUSH", "x", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			srv.Do(t, seed...)
			before := srv.Keyspace(t)
			s := kit.Open(t, srv.Addr(), nil)
			p, e, l := semaphore.New(s, "x"), semaphore.NewExpirable(s, "x", nil), latch.New(s, "x")
			id := strings.Repeat("ab", 16)
			for what, call := range map[string]func(ctx context.Context) error{
				"Wait":           l.Wait,
				"Count":          func(ctx context.Context) error { return kit.ErrorOf(l.Count(ctx)) },
				"CountDown":      l.CountDown,
				"TrySetCount":    func(ctx context.Context) error { return kit.ErrorOf(l.TrySetCount(ctx, 2)) },
				"latch's Delete": func(ctx context.Context) error { return kit.ErrorOf(l.Delete(ctx)) },

				"Acquire":          func(ctx context.Context) error { return p.Acquire(ctx, 1) },
				"TryAcquire":       func(ctx context.Context) error { return p.TryAcquire(ctx, 1) },
				"TryAcquireFor":    func(ctx context.Context) error { return p.TryAcquireFor(ctx, 1, time.Hour) },
				"Release":          func(ctx context.Context) error { return p.Release(ctx, 1) },
				"ReleaseIfExists":  func(ctx context.Context) error { return kit.ErrorOf(p.ReleaseIfExists(ctx, 1)) },
				"AddPermits":       func(ctx context.Context) error { return p.AddPermits(ctx, 1) },
				"TrySetPermits":    func(ctx context.Context) error { return kit.ErrorOf(p.TrySetPermits(ctx, 1)) },
				"DrainPermits":     func(ctx context.Context) error { return kit.ErrorOf(p.DrainPermits(ctx)) },
				"AvailablePermits": func(ctx context.Context) error { return kit.ErrorOf(p.AvailablePermits(ctx)) },
				"Delete":           func(ctx context.Context) error { return kit.ErrorOf(p.Delete(ctx)) },

				"Expirable.Acquire":    func(ctx context.Context) error { return kit.ErrorOf(e.Acquire(ctx)) },
				"Expirable.TryAcquire": func(ctx context.Context) error { return kit.ErrorOf(e.TryAcquire(ctx)) },
				"Expirable.TryAcquireNFor": func(ctx context.Context) error {
					return kit.ErrorOf(e.TryAcquireNFor(ctx, 2, time.Hour))
				},
				"Expirable.Release":          func(ctx context.Context) error { return e.Release(ctx, id) },
				"Expirable.AddPermits":       func(ctx context.Context) error { return e.AddPermits(ctx, 1) },
				"Expirable.SetPermits":       func(ctx context.Context) error { return e.SetPermits(ctx, 1) },
				"Expirable.TrySetPermits":    func(ctx context.Context) error { return kit.ErrorOf(e.TrySetPermits(ctx, 1)) },
				"Expirable.Permits":          func(ctx context.Context) error { return kit.ErrorOf(e.Permits(ctx)) },
				"Expirable.AvailablePermits": func(ctx context.Context) error { return kit.ErrorOf(e.AvailablePermits(ctx)) },
				"Expirable.Delete":           func(ctx context.Context) error { return kit.ErrorOf(e.Delete(ctx)) },
			} {
				mismatched(t, what, call)
			}
			require.NoError(t, s.Close())
			require.Equal(t, before, srv.Keyspace(t))
		})
	}
}

// Every call of every kind reports a key of another type as such.
func TestAKeyOfAnotherTypeIsToldInOneWay(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), nil)
		l := k.Make(s, kit.Orders, 0)
		srv.Do(t, "DEL", kit.Orders)
		srv.Do(t, "SADD", kit.Orders, "precious")
		before := srv.Keyspace(t)
		calls := map[string]func(ctx context.Context) error{
			"Lock":       func(ctx context.Context) error { return kit.ErrorOf(l.Lock(ctx)) },
			"TryLock":    func(ctx context.Context) error { return kit.ErrorOf(l.TryLock(ctx)) },
			"TryLockFor": func(ctx context.Context) error { return kit.ErrorOf(l.TryLockFor(ctx, time.Hour)) },
			"Locked":     func(ctx context.Context) error { return kit.ErrorOf(l.Locked(ctx)) },
		}
		if !k.Permits && !k.Several {
			calls["Holders"] = func(ctx context.Context) error { return kit.ErrorOf(l.Holders(ctx)) }
			calls["RemainingLease"] = func(ctx context.Context) error { return kit.ErrorOf(l.RemainingLease(ctx)) }
			calls["ForceUnlock"] = func(ctx context.Context) error { return kit.ErrorOf(l.ForceUnlock(ctx)) }
		}
		for what, call := range calls {
			mismatched(t, what, call)
		}
		require.Equal(t, before, srv.Keyspace(t))
	})
}

// The holder of a lock whose key was replaced by something else is told so.
func TestAHolderWhoseKeyHoldsSomethingElse(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		if k.Permits {
			return // the number of free permits is not read
		}
		s := kit.Open(t, srv.Addr(), nil)
		h := kit.Lock(t, t.Context(), k.Make(s, kit.Orders, 0))
		srv.Do(t, "DEL", kit.Orders)
		srv.Do(t, "SADD", kit.Orders, "precious")
		mismatched(t, "Extend", func(ctx context.Context) error { return h.Extend(ctx, time.Hour) })
		mismatched(t, "Release", func(context.Context) error { return h.Release() })
	})
}
