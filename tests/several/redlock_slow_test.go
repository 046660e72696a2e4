package several

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// acquires matches the calls of the script that takes a reentrant lock.
var acquires = kit.ScriptNamed("rlock_acquire")

// Whatever replies are lost, a lock without a majority is given back everywhere, and one with a majority lives on
// without the rest.
func TestRepliesToARedLockAreLost(t *testing.T) {
	t.Parallel()
	type place struct {
		servers []int
		times   proxy.Times
	}
	var places []place
	for _, servers := range [][]int{{1}, {0, 4}, {1, 2, 3}, {0, 1, 2, 3, 4}} {
		places = append(places, place{servers, proxy.First}, place{servers, proxy.EveryTime})
	}
	kit.InParallel(t, len(places), places, func(p place) string { return fmt.Sprint(p.servers, " ", p.times) },
		func(t *testing.T, p place) {
			f := kit.NewFleet(t, 5)
			near := f.Near(&holdfast.Options{Lease: 30 * time.Second}) // no lease ends during the test
			// A lost reply takes its connection along: there is time for another one, and for the call.
			l := kit.RedLock(near, kit.Orders, kit.ReentrantMember,
				&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 3 * time.Second})
			require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the sessions know the servers' clocks
			f.Empty()
			remove := f.OnEach(acquires, proxy.DropReply, p.times, p.servers...)
			h, err := l.TryLock(t.Context())
			switch {
			case p.times == proxy.EveryTime && len(p.servers) > 2:
				require.ErrorIs(t, err, holdfast.ErrUnknown)
				// Who has not answered by the time that three have not granted it is not waited for.
				require.Regexp(t, fmt.Sprintf("[0-%d] of 5 servers granted it", 5-len(p.servers)), err.Error())
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				f.Empty() // although replies are still lost
				remove()
			default: // it was tried again in time, or was not needed
				require.NoError(t, err)
				remove()
				f.Has(near, 1, 1, 1, 1, 1)
				require.NoError(t, h.Err())
				require.NoError(t, h.Release())
			}
			f.Empty()
		})
}

// A server that does not answer costs its timeout where it is needed, and next to nothing where it is not.
func TestAServerIsWaitedForNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	f := kit.NewFleet(t, 3)
	opts := &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: timeout}
	near, beside := f.Near(&holdfast.Options{Lease: 30 * time.Second}),
		f.Near(&holdfast.Options{Lease: 30 * time.Second})
	l, other := kit.RedLock(near, kit.Orders, kit.ReentrantMember, opts),
		kit.RedLock(beside, kit.Orders, kit.ReentrantMember, opts)
	took := func(do func()) time.Duration {
		watch := kit.Stopwatch()
		do()
		return watch()
	}
	h := f.Everywhere(l.Lock)
	resume := f.Strike(kit.Paused, 0)
	require.Less(t, took(func() { require.NoError(t, h.Extend(t.Context(), 30*time.Second)) }), timeout/2)
	require.Less(t, took(func() { require.NoError(t, h.Release()) }), timeout/2)
	require.Less(t, took(func() { h = kit.Lock(t, t.Context(), l) }), timeout/2)
	require.Less(t, took(func() {
		_, err := other.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}), timeout/2)
	two := f.Strike(kit.Paused, 1)
	require.Less(t, took(func() { require.ErrorIs(t, h.Release(), holdfast.ErrUnknown) }), timeout*3/2)
	require.Less(t, took(func() {
		_, err := l.TryLock(t.Context())
		require.ErrorContains(t, err, "of 3 servers granted it, 2 are needed")
	}), timeout*3/2)
	two()
	resume()
	f.Empty()
}

// Whenever a wait ends, whatever was granted is given back, even by a server that is slower than the others.
func TestARedLockThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	// the lease is far longer than the test
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: 30 * time.Second}), kit.Orders, kit.ReentrantMember, kit.Patient)
	began := time.Now()
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	most := time.Since(began)
	remove := f.OnEach(acquires, proxy.Delay(most/2), proxy.EveryTime, 3)
	had := 0
	for range kit.Stressed(50, 150) {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(most))
		h, err := l.Lock(ctx)
		if err == nil {
			require.NoError(t, h.Release())
			had++
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
	}
	t.Log(had, most)
	f.Empty()
	remove()
	kit.GrantAndRelease(t, kit.GoLock(t.Context(), l.Lock))
	f.Empty()
}

// What happens to the caller's ctx when it has the lock does not matter to the servers that are still being asked.
func TestARedLockIsTakenOnSlowServersAfterItsCtxHasEnded(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	near := f.Near(&holdfast.Options{Lease: 30 * time.Second})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 25 * time.Second})
	// Now the sessions know the servers' clocks, and no server is still being asked, or is busy with what comes of that.
	require.NoError(t, f.Everywhere(l.Lock).Release())
	f.Empty()
	rule := f.Proxies[1].On(acquires, proxy.HoldReply, proxy.EveryTime)
	stalled := f.Proxies[3].On(acquires, proxy.Stall, proxy.EveryTime)
	ctx, cancel := context.WithCancel(t.Context())
	joined := f.Joined()
	h := kit.Lock(t, ctx, l)
	cancel()
	rule.Wait(t, 1)
	stalled.Wait(t, 1)
	require.Equal(t, joined, f.Joined())
	released := f.Proxies[1].On(kit.ScriptNamed("rlock_release"), proxy.Pass, proxy.EveryTime)
	rule.Release()
	stalled.Release()
	f.Has(near, 1, 1, 1, 1, 1)
	resume := f.Strike(kit.Paused, 0, 2)
	kit.Await(t, "an extension by those who were slow", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return h.Extend(ctx, 30*time.Second) == nil
	})
	kit.Await(t, "word of those who were slow", func() bool { return f.Joined() == joined+2 })
	require.Equal(t, 1, rule.Matched(), "it was given up, and asked for again")
	require.Equal(t, 1, stalled.Matched())
	require.Zero(t, released.Matched())
	require.NoError(t, h.Release())
	resume()
	f.Empty()
}

// However long servers are waited for otherwise, a release has the same bound as any other.
func TestARedLocksReleaseIsBounded(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: 6 * time.Second}), kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 5 * time.Second})
	h := kit.Lock(t, t.Context(), l)
	resume := f.Strike(kit.Paused, 0, 1)
	took := kit.Stopwatch()
	require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	require.Less(t, took(), 2700*time.Millisecond) // a third of the lease is 2 s
	resume()
	f.Empty()
}

// A call whose ctx has ended does not wait for servers that fall silent after they have granted it the lock.
func TestARedLockIsGivenUpThoughServersFallSilent(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	near := f.Near(&holdfast.Options{Lease: 30 * time.Second}) // a release may take 5 s
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 15 * time.Second})
	both := multilock.New(l, rlock.New(near[0], "stock", nil))
	for name, take := range map[string]func(context.Context) (*holdfast.Hold, error){
		"lock": l.Lock, "try lock": l.TryLock, "multilock": both.Lock,
	} {
		require.NoError(t, f.Everywhere(l.Lock).Release()) // now the sessions know the servers' clocks
		f.Empty()
		var asked []*proxy.Rule
		for i, p := range f.Proxies {
			then := proxy.HoldReply
			if i < 2 { // these are too few
				then = proxy.Pass
			}
			asked = append(asked, p.On(acquires, then, proxy.EveryTime))
		}
		remove := f.OnEach(kit.ScriptNamed("rlock_release"), proxy.HoldReply, proxy.EveryTime, 0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		got := kit.GoLock(ctx, take)
		for _, rule := range asked {
			rule.WaitAnswered(t, 1)
		}
		cancel()
		took := kit.Stopwatch()
		require.ErrorIs(t, kit.Within(t, 20*time.Second, got, name).Err, context.Canceled, name)
		require.Less(t, took(), 2*time.Second, name) // it is a tenth of a second
		remove()
		for _, rule := range asked {
			rule.Remove()
		}
		f.Empty()
	}
}
