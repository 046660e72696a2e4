package faults

import (
	"context"
	"strconv"
	"sync"
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

// These tests are about permit calls that cross each other or are late.

// A crossing is a semaphore behind a proxy, in a session that knows the server's clock.
type crossing struct {
	*testing.T
	srv     *redistest.Server
	proxy   *proxy.Proxy
	session *holdfast.Session
	permits *semaphore.Expirable
	n       int
}

func newCrossing(t *testing.T, n int, fixed, lease time.Duration) *crossing {
	t.Helper()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	c := &crossing{T: t, srv: srv, proxy: p, session: s, permits: kit.NewExports(t, s, n, fixed), n: n}
	require.NoError(t, c.take().Release())
	return c
}

// on applies an action to the first execution of a script.
func (c *crossing) on(verb string, a proxy.Action) *proxy.Rule {
	return c.proxy.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), verb), a, proxy.First)
}

func (c *crossing) take() *holdfast.Hold {
	c.Helper()
	h, err := c.permits.Acquire(c.Context())
	require.NoError(c, err)
	return h
}

// elsewhere returns the same semaphore in a session that nothing disturbs.
func (c *crossing) elsewhere() *semaphore.Expirable {
	c.Helper()
	return kit.NewExports(c, kit.Open(c, c.srv.Addr(), nil), c.n, 0)
}

// allBack waits until every permit is free.
func (c *crossing) allBack(within time.Duration) {
	c.Helper()
	var free string
	var taken []string
	defer func() {
		if c.Failed() {
			c.Logf("at the end free: %s, taken: %v", free, taken)
		}
	}()
	kit.AwaitSoon(c, within, "every permit free", func() bool {
		free, taken = c.srv.Str(c, "GET", "exports"), kit.PermitIDs(c, c.srv)
		return free == strconv.Itoa(c.n) && len(taken) == 0
	})
}

// A late copy of the call that took permits may be executed when they belong to somebody else, or to nobody. It takes
// nothing for long.
func TestALateCopyTakesNoPermitForLong(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	for name, end := range map[string]func(c *crossing, holds []*holdfast.Hold){
		"released": func(c *crossing, holds []*holdfast.Hold) {
			for _, h := range holds {
				require.NoError(c, h.Release())
			}
		},
		"released by id": func(c *crossing, holds []*holdfast.Hold) {
			require.NoError(c, c.permits.Release(c.Context(), kit.HoldIDs(holds...)...))
		},
		"released elsewhere": func(c *crossing, holds []*holdfast.Hold) {
			require.NoError(c, c.elsewhere().Release(c.Context(), kit.HoldIDs(holds...)...))
		},
		"deleted and made again": func(c *crossing, _ []*holdfast.Hold) {
			was, err := c.permits.Delete(c.Context())
			require.NoError(c, err)
			require.True(c, was)
			made, err := c.permits.TrySetPermits(c.Context(), c.n)
			require.NoError(c, err)
			require.True(c, made)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrossing(t, 3, lease, 2*time.Second)
			first := c.on("acquire", proxy.Stall)
			sent := time.Now()
			holds, err := c.permits.AcquireN(t.Context(), 3)
			require.NoError(t, err)
			end(c, holds)
			first.Release()
			first.WaitAnswered(t, 1)
			for _, h := range holds { // holders that do not know yet that their permits are gone give them back
				_ = h.Release()
			}
			kit.SleepUntil(sent.Add(lease/3 + 10*time.Millisecond))
			c.allBack(2 * time.Second) // long before the lease of a ghost would end
		})
	}
}

// A late copy shortens no lease.
func TestALateCopyShortensNoLease(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]func(c *crossing, h *holdfast.Hold){
		"updated": func(c *crossing, h *holdfast.Hold) {
			require.NoError(c, c.permits.UpdateLease(c.Context(), h.ID(), semaphore.Forever))
		},
		"extended": func(c *crossing, h *holdfast.Hold) { require.NoError(c, h.Extend(c.Context(), time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrossing(t, 2, time.Minute, 4*time.Second)
			first := c.on("acquire", proxy.Stall)
			h := c.take()
			longer(c, h)
			first.Release()
			first.WaitAnswered(t, 1)
			left, err := c.permits.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			require.Greater(t, left, time.Until(h.Deadline()))
			require.Greater(t, left, 50*time.Minute)
		})
	}
}

// A new lease that comes when its hold is already lost belongs to nobody: the permit goes back.
func TestALeaseThatComesTooLateGoesBack(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{"known": proxy.HoldReply, "unknown": proxy.DropReply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrossing(t, 1, 3*time.Second, 30*time.Second)
			h := c.take()
			update := c.on("update", action)
			updated := make(chan error, 1)
			if action == proxy.HoldReply {
				go func() { updated <- c.permits.UpdateLease(t.Context(), h.ID(), semaphore.Forever) }()
				update.Wait(t, 1)
				kit.Await(t, "the end of the hold", func() bool { return h.Err() != nil })
				update.Release()
				require.ErrorIs(t, kit.Within(t, time.Second, updated, "the update"), holdfast.ErrLost)
			} else {
				require.ErrorIs(t, c.permits.UpdateLease(t.Context(), h.ID(), semaphore.Forever), holdfast.ErrUnknown)
				kit.Await(t, "the end of the hold", func() bool { return h.Err() != nil })
			}
			c.allBack(2 * time.Second)
			require.ErrorIs(t, h.Release(), holdfast.ErrLost)
		})
	}
}

// A permit of one's own session that was given back by id, with unknown outcome, is no longer held.
func TestADoubtfulReleaseIsBelievedInByNobody(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *crossing, h *holdfast.Hold) error{
		"the reply is lost": func(c *crossing, h *holdfast.Hold) error {
			c.on("release", proxy.DropReply)
			return c.permits.Release(c.Context(), h.ID())
		},
		"nothing comes through": func(c *crossing, h *holdfast.Hold) error {
			rule := c.proxy.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "release"), proxy.ResetBefore,
				proxy.EveryTime)
			defer rule.Remove()
			return c.permits.Release(c.Context(), h.ID())
		},
		"it was released elsewhere": func(c *crossing, h *holdfast.Hold) error {
			require.NoError(c, c.elsewhere().Release(c.Context(), h.ID()))
			return c.permits.Release(c.Context(), h.ID())
		},
		"the semaphore is deleted": func(c *crossing, _ *holdfast.Hold) error {
			defer func() {
				made, err := c.elsewhere().TrySetPermits(c.Context(), c.n)
				assert.NoError(c, err)
				assert.False(c, made) // it was made again elsewhere
			}()
			c.proxy.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "delete"), proxy.DropReply, proxy.First)
			_, err := c.permits.Delete(c.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrossing(t, 1, semaphore.Forever, 2*time.Second)
			h := c.take()
			require.Error(t, end(c, h))
			require.ErrorIs(t, h.Err(), holdfast.ErrLost)
			c.allBack(2 * time.Second)
		})
	}
}

// After Detach a session has no say over a hold, not even through calls that were in flight at the time.
func TestADetachedHoldIsNotTakenBack(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, 1, 3*time.Second, 30*time.Second)
	h := c.take()
	extension := c.on("renew", proxy.HoldReply)
	extended := make(chan error, 1)
	go func() { extended <- h.Extend(t.Context(), time.Hour) }()
	extension.Wait(t, 1)
	require.NoError(t, h.Detach())
	kit.SleepUntil(time.Now().Add(3300 * time.Millisecond)) // its former lease would have ended by now
	extension.Release()
	require.Error(t, kit.Within(t, time.Second, extended, "the extension"))
	left, err := c.elsewhere().RemainingLease(t.Context(), h.ID())
	require.NoError(t, err)
	require.Greater(t, left, 50*time.Minute)
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // nothing may be given back in this time
	require.Equal(t, kit.HoldIDs(h), kit.PermitIDs(t, c.srv))
}

// An extension that an update in flight may undo does not count.
func TestAnExtensionBehindADoubtfulUpdateIsUnknown(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, 1, time.Hour, 2*time.Second)
	h := c.take()
	c.on("update", proxy.DropReply)
	require.ErrorIs(t, c.permits.UpdateLease(t.Context(), h.ID(), 20*time.Second), holdfast.ErrUnknown)
	err := h.Extend(t.Context(), 2*time.Hour)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.Less(t, time.Until(h.Deadline()), 20*time.Second)
	require.NoError(t, h.Release())
}

// A server that is out of memory still accepts permits back, and one that refuses for a while gets them later.
func TestPermitsGoBackToAServerInNeed(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, 2, semaphore.Forever, 2*time.Second)
	h, other := c.take(), c.take()
	c.srv.Do(t, "ZADD", "{exports}:timeout", "1", "long over")
	c.srv.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.ErrorContains(t, kit.ErrorOf(c.srv.Try("SET", "y", "z")), "OOM")
	require.NoError(t, h.Release())
	require.NoError(t, c.permits.Release(t.Context(), other.ID()))
	kit.RequirePermits(t, c.permits, 3, 0)
	c.srv.Do(t, "CONFIG", "SET", "maxmemory", "0")
	require.NoError(t, c.permits.SetPermits(t.Context(), 2))

	acquire := c.on("acquire", proxy.DropReply)
	c.on("release", proxy.Answer("-NOPERM this user has no permissions"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		acquire.Wait(t, 1)
		cancel()
	}()
	require.Error(t, kit.ErrorOf(c.permits.Acquire(ctx)))
	c.allBack(5 * time.Second)
}

// Close must not silently leave a permit behind that never expires.
func TestCloseSaysThatAPermitMayStayTaken(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, 1, semaphore.Forever, 2*time.Second)
	first := c.on("acquire", proxy.Stall)
	require.NoError(t, c.take().Release())
	require.ErrorContains(t, c.session.Close(), "1 permits without an end may still be taken")
	first.Release()
}

func TestCloseSaysThatAHeldPermitMayStayTaken(t *testing.T) {
	t.Parallel()
	c := newCrossing(t, 1, semaphore.Forever, 2*time.Second)
	first := c.on("acquire", proxy.Stall)
	c.take()
	require.ErrorContains(t, c.session.Close(), "1 permits without an end may still be taken")
	first.Release()
}

// Whoever stands in line does not look before it is told: a permit costs three calls, to stand, take and give back.
func TestNobodyLooksForPermitsThatAreNotThere(t *testing.T) {
	t.Parallel()
	const waiters = 20
	srv := redistest.Start(t)
	e, elsewhere := kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 1, time.Hour),
		kit.NewExports(t, kit.Open(t, srv.Addr(), nil), 1, time.Hour)
	h, err := elsewhere.Acquire(t.Context())
	require.NoError(t, err)
	got := make(chan *holdfast.Hold)
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			h, err := e.Acquire(t.Context())
			assert.NoError(t, err)
			got <- h
		})
	}
	kit.Await(t, "the subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	kit.SleepUntil(time.Now().Add(200 * time.Millisecond)) // time for all of them to join the line
	srv.ResetStats(t)
	for range waiters {
		kit.SleepUntil(time.Now().Add(10 * time.Millisecond)) // nobody may look in this time
		require.NoError(t, elsewhere.Release(t.Context(), h.ID()))
		h = kit.Within(t, kit.Told, got, "a permit")
	}
	all.Wait()
	require.LessOrEqual(t, srv.CommandStats(t)["evalsha"], int64(3*waiters+2))
}

// The number of permits that was set last stays.
func TestALateNumberOfPermitsIsRefused(t *testing.T) {
	t.Parallel()
	const lease = 4500 * time.Millisecond
	c := newCrossing(t, 1, 0, lease)
	late := c.on("resize", proxy.Stall)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := make(chan error, 1)
	go func() { set <- c.permits.SetPermits(ctx, 3) }()
	late.Wait(t, 1)
	cancel()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, set, "the end of the call"), holdfast.ErrUnknown)
	kit.SleepUntil(time.Now().Add(lease/3 + 50*time.Millisecond))
	kit.Await(t, "another connection", func() bool { return c.permits.SetPermits(t.Context(), 10) == nil })
	late.Release()
	late.WaitAnswered(t, 1)
	kit.RequirePermits(t, c.permits, 10, 0)
}
