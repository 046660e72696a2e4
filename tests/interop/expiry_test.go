package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
)

// An expiry that one side sets is read, changed and ended by the other, on the same keys.
func TestExpiriesAreShared(t *testing.T) {
	t.Parallel()
	type mortal interface {
		Exists(ctx context.Context) (bool, error)
		Expire(ctx context.Context, ttl time.Duration) (bool, error)
		ExpireAt(ctx context.Context, at time.Time) (bool, error)
		ClearExpire(ctx context.Context) (bool, error)
		RemainingTTL(ctx context.Context) (time.Duration, error)
	}
	f := newFleet(t, fleetOptions{})
	counting, leased := semaphore.New(f.session, "s"), semaphore.NewExpirable(f.session, "e", nil)
	for kind, row := range map[interop.Kind]struct {
		name   string
		golang mortal
		keys   []string
	}{
		interop.Semaphore: {"s", counting, []string{"s"}},
		interop.Expirable: {"e", leased, []string{"e", permitsKey("e")}},
	} {
		t.Run(string(kind), func(t *testing.T) {
			ctx, ours := t.Context(), row.golang
			theirs := newJavaUserOf(t, f, kind, row.name)
			java := func(method string, args ...any) interop.Answer {
				t.Helper()
				return theirs.object.Do(t, method, args...)
			}
			requireExpiry := func(ttl time.Duration) {
				t.Helper()
				for _, key := range row.keys {
					requireTTL(t, f, key, ttl)
				}
				for _, left := range []time.Duration{
					time.Duration(java("remainTimeToLive").Int()) * time.Millisecond, must(ours.RemainingTTL(ctx))(t),
				} {
					require.LessOrEqual(t, left, ttl)
					require.Greater(t, left, ttl/2)
				}
			}
			requireNone := func() {
				t.Helper()
				for _, key := range row.keys {
					require.NotContains(t, f.server().TTLs(t), key)
				}
				require.Equal(t, int64(-1), java("remainTimeToLive").Int())
				require.Negative(t, must(ours.RemainingTTL(ctx))(t))
			}
			require.False(t, java("isExists").Bool())
			require.False(t, must(ours.Exists(ctx))(t))
			require.True(t, java("trySetPermits", 5).Bool())
			java("acquire")
			require.True(t, java("isExists").Bool())
			require.True(t, must(ours.Exists(ctx))(t))
			requireNone()
			require.True(t, must(ours.Expire(ctx, 40*time.Second))(t))
			requireExpiry(40 * time.Second)
			require.True(t, java("expire", time.Hour).Bool())
			requireExpiry(time.Hour)
			require.True(t, must(ours.ExpireAt(ctx, time.Now().Add(time.Minute)))(t))
			requireExpiry(time.Minute)
			require.True(t, java("clearExpire").Bool())
			requireNone()
			require.True(t, java("expireAt", time.Now().Add(time.Hour).UnixMilli()).Bool())
			requireExpiry(time.Hour)
			require.True(t, must(ours.ClearExpire(ctx))(t))
			requireNone()
			require.Equal(t, int64(4), java("availablePermits").Int())
		})
	}
}

func TestWhatExistsIsTheSame(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	ours, theirs := latch.New(f.session, "l"), newJavaUserOf(t, f, interop.Latch, "l")
	for _, step := range []struct {
		do     func()
		exists bool
	}{
		{func() {}, false},
		{func() { require.True(t, must(ours.TrySetCount(t.Context(), 1))(t)) }, true},
		{func() { theirs.object.Do(t, "countDown") }, false},
		{func() { theirs.object.Do(t, "trySetCount", 0) }, true},
	} {
		step.do()
		require.Equal(t, step.exists, theirs.object.Do(t, "isExists").Bool())
		require.Equal(t, step.exists, must(ours.Exists(t.Context()))(t))
	}
}
