package locks

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// If the key with the taken permits is evicted, they do not come back until somebody sets how many there are.
func TestPermitsThatAreEvictedAreSetAnew(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	e := kit.NewExports(t, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second}), 3, 0)
	holds, err := e.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	srv.Do(t, "DEL", "{exports}:timeout")
	for _, h := range holds {
		kit.Await(t, "the loss", func() bool { return h.Err() != nil })
		require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	}
	kit.RequirePermits(t, e, 1, 0)
	require.NoError(t, e.SetPermits(t.Context(), 3))
	kit.RequirePermits(t, e, 3, 0)
}

// If the number of free permits is evicted, whoever sets it anew, as each process does at its start, gives out none of
// those that are taken.
func TestPermitsThatAreTakenCountWhenTheirNumberWasEvicted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	e := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 3, 0)
	holds, err := e.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	srv.Do(t, "DEL", "exports")
	other := semaphore.NewExpirable(kit.Open(t, srv.Addr(), nil), "exports", nil)
	made, err := other.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	require.True(t, made)
	kit.RequirePermits(t, e, 1, 2)
	_, err = other.TryAcquireN(t.Context(), 2)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	made, err = other.TrySetPermits(t.Context(), 9)
	require.NoError(t, err)
	require.False(t, made)
	for _, h := range holds {
		require.NoError(t, h.Release())
	}
	kit.RequirePermits(t, e, 3, 0)
}

// A call that takes or gives back several permits may be sent again: each id is used once.
func TestSeveralPermitsUnderFaults(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]struct {
		action proxy.Action
		times  proxy.Times
		ran    bool
	}{
		"reply lost": {proxy.DropReply, proxy.First, true}, "never executed": {proxy.ResetBefore, proxy.First, false},
		"every reply lost":      {proxy.DropReply, proxy.EveryTime, true},
		"never executed at all": {proxy.ResetBefore, proxy.EveryTime, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, proxied := kit.StartProxied(t)
			e := kit.NewExports(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second}), 7, 0)
			holds, err := e.AcquireN(t.Context(), 4)
			require.NoError(t, err)

			rule := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "acquire"), a.action, a.times)
			more, err := e.TryAcquireN(t.Context(), 3)
			rule.Remove()
			if a.times == proxy.EveryTime {
				require.ErrorIs(t, err, holdfast.ErrUnknown)
				require.Empty(t, more)
				kit.Await(t, "what was given up", func() bool { return srv.Str(t, "GET", "exports") == "3" })
				require.ElementsMatch(t, kit.HoldIDs(holds...), kit.PermitIDs(t, srv))
			} else {
				require.NoError(t, err)
				require.Len(t, more, 3)
				require.ElementsMatch(t, kit.HoldIDs(append(more, holds...)...), kit.PermitIDs(t, srv))
				require.Equal(t, "0", srv.Str(t, "GET", "exports"))
			}

			rule = proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "release"), a.action, a.times)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			err = e.Release(ended, kit.HoldIDs(holds...)...)
			rule.Remove()
			switch {
			case a.ran:
				require.ErrorIs(t, err, holdfast.ErrUnknown)
			case a.times == proxy.EveryTime:
				require.ErrorIs(t, err, holdfast.ErrUnknown)
				kit.Await(t, "the background", func() bool { return len(kit.PermitIDs(t, srv)) == len(more) })
			default:
				require.NoError(t, err)
			}
			kit.RequirePermits(t, e, 7-len(more), len(more))
			require.ErrorIs(t, e.Release(t.Context(), kit.HoldIDs(holds...)...), holdfast.ErrNotHeld)
			kit.RequirePermits(t, e, 7-len(more), len(more))
		})
	}
}

// A wait that is cancelled, or whose session is closed, loses no permit; not even if it wants several.
func TestACancelledWaitEatsNoPermitThatHasALease(t *testing.T) {
	t.Parallel()
	const permits = 3
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, s, permits, 0)
	var all sync.WaitGroup
	var got, cancelled atomic.Int64
	for _, e := range []*semaphore.Expirable{e, kit.NewExports(t, other, permits, 0)} {
		for range 8 {
			all.Go(func() {
				for i := range 60 {
					// A busy machine takes longer than a few ms for any call.
					most := []time.Duration{3 * time.Millisecond, kit.LongestWait}[i/50]
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(most))
					holds, err := e.AcquireN(ctx, 1+rand.IntN(2))
					if err == nil {
						got.Add(1)
					} else {
						cancelled.Add(1)
					}
					for _, h := range holds {
						assert.NoError(t, h.Release())
					}
					cancel()
				}
			})
		}
	}
	all.Wait()
	t.Log(got.Load(), "got some,", cancelled.Load(), "did not")
	require.NotZero(t, cancelled.Load())
	require.NotZero(t, got.Load())
	kit.Await(t, "all permits", func() bool { return srv.Str(t, "GET", "exports") == strconv.Itoa(permits) })
	kit.RequirePermits(t, e, permits, 0)
}
