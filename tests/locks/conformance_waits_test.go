package locks

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestAWaiterIsWokenByTheRelease(t *testing.T) {
	kit.EveryKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		rounds := 1
		if k.Other != nil {
			rounds = 2
		}
		for i, waiter := range []*holdfast.Session{a, b} {
			for j := range rounds {
				has, wants := k.Make, k.Rival
				if j == 1 {
					has, wants = k.Rival, k.Make
				}
				name := fmt.Sprint("orders", i, j)
				hold := kit.Lock(t, t.Context(), has(a, name, 0))
				got := kit.GoLock(t.Context(), wants(waiter, name, 0).Lock)
				kit.WaitingFor(t, k, srv, name)
				settled()
				require.NoError(t, hold.Release())
				r := kit.Within(t, kit.Told, got, "the waiter's lock")
				require.NoError(t, r.Err)
				require.NoError(t, r.Hold.Release())
			}
		}
		kit.Await(t, "the subscription's end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	})
}

// A release that finds nothing on the server, because somebody has deleted it, wakes the waiters of its session: the
// server has told nobody.
func TestAWaiterIsWokenByTheReleaseOfWhatIsGone(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
		hold := kit.Lock(t, t.Context(), k.Make(s, kit.Orders, 0))
		got := kit.GoLock(t.Context(), k.Rival(s, kit.Orders, 0).Lock)
		kit.Waiting(t, k, srv)
		kit.SleepUntil(time.Now().Add(300 * time.Millisecond)) // the looks that came with the subscriptions are over
		k.Wipe(t, srv, kit.Orders)
		_ = hold.Release() // lost, unless it was handed over
		_ = kit.Granted(t, kit.Told, got, "the waiter's lock").Release()
	})
}

// Within a session it takes no message to tell the next one.
func TestAWaiterIsWokenByTheReleaseWithoutASubscription(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		p := proxy.Start(t, srv.Addr())
		p.On(proxy.Command("SUBSCRIBE"), proxy.Stall, proxy.EveryTime)
		began := make(chan struct{}, 4) // there may be several: of the members, too
		s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second, Observer: &holdfast.Observer{
			Wait: func(holdfast.Subject) func() { began <- struct{}{}; return nil },
		}})
		hold := kit.Lock(t, t.Context(), k.Make(s, kit.Orders, 0))
		got := kit.GoLock(t.Context(), k.Rival(s, kit.Orders, 0).Lock)
		kit.Within(t, kit.LongestWait, began, "the wait")
		kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // it sleeps
		require.NoError(t, hold.Release())
		require.NoError(t, kit.Granted(t, kit.Told, got, "the waiter's lock").Release())
	})
}

// Redisson's braces give the names x and {x} one channel: waiting for one delays nobody who wants the other, which is
// free. Fair locks of the two names share more than that: the queue. So do expirable semaphores: the permits that are
// taken.
func TestAWaiterDelaysNobodyOnTheSameChannel(t *testing.T) {
	kit.EveryKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		if k.Queues || k.Name == "multilock" || k.Name == "semaphore expirable" { // a multilock has a fair member
			return
		}
		theirs, ours := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		take := func(ctx context.Context, l kit.Locker) *holdfast.Hold {
			r := kit.Within(t, 5*time.Second, kit.GoLock(ctx, l.Lock), "a lock that is free")
			require.NoError(t, r.Err)
			return r.Hold
		}
		for _, names := range [][2]string{{"x", "{x}"}, {"{y}", "y"}} {
			busy, free := names[0], names[1]
			hold := kit.Lock(t, t.Context(), k.Make(theirs, busy, 0))
			got := kit.GoLock(t.Context(), k.Rival(ours, busy, 0).Lock)
			kit.WaitingFor(t, k, srv, busy)
			require.NoError(t, take(t.Context(), k.Rival(ours, free, 0)).Release())
			require.NoError(t, hold.Release())
			first := kit.Within(t, 5*time.Second, got, "the waiter's lock")
			require.NoError(t, first.Err)

			// An owner that has one of them, for which others wait, takes the other.
			ctx := first.Hold.Context(t.Context())
			got = kit.GoLock(t.Context(), k.Make(ours, busy, 0).Lock)
			kit.WaitingFor(t, k, srv, busy)
			require.NoError(t, take(ctx, k.Rival(ours, free, 0)).Release())
			require.NoError(t, first.Hold.Release())
			last := kit.Within(t, 5*time.Second, got, "the waiter's lock")
			require.NoError(t, last.Err)
			require.NoError(t, last.Hold.Release())
		}
	})
}

// A waiter that polls with long pauses may wait as long as it likes. Waiters that listen are told of a release, and
// know when a lease ends.
func TestASlowPollerDelaysNobody(t *testing.T) {
	const lease = 5 * time.Second
	for name, end := range map[string]func(*holdfast.Hold) error{
		"who released":        (*holdfast.Hold).Release,
		"whose lease is over": (*holdfast.Hold).Detach,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			theirs, ours := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
			hold := kit.Lock(t, t.Context(), rlock.New(theirs, t.Name(), &rlock.Options{FixedLease: lease}))
			paused := make(chan struct{}, 1)
			slow := rlock.New(ours, t.Name(), &rlock.Options{Backoff: func(int) time.Duration {
				paused <- struct{}{}
				return time.Hour
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			polls := kit.GoLock(ctx, slow.Lock)
			kit.Within(t, 5*time.Second, paused, "the first pause")
			listens := kit.GoLock(t.Context(), rlock.New(ours, t.Name(), nil).Lock)
			kit.Waiting(t, kit.KindOf("rlock"), srv)
			require.NoError(t, end(hold))
			r := kit.Within(t, 2*lease, listens, "the lock")
			require.NoError(t, r.Err)

			// Only a release of its own session wakes it earlier.
			require.NoError(t, r.Hold.Release())
			r = kit.Within(t, 5*time.Second, polls, "the poller's lock")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Release())
		})
	}
}

func TestACancelledWaitLeavesNothing(t *testing.T) {
	kit.EveryKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), k.Rival(a, t.Name(), time.Minute)) // which nothing renews
		kit.Await(t, "a grant by this server, too", func() bool { return len(srv.Keyspace(t)) > 0 })
		before := srv.Keyspace(t)

		why := assert.AnError
		ctx, cancel := context.WithCancelCause(t.Context())
		got := kit.GoLock(ctx, k.Make(b, t.Name(), 0).Lock)
		kit.Waiting(t, k, srv)
		cancel(why)
		r := kit.Within(t, kit.Told, got, "the end of the wait")
		assert.Nil(t, r.Hold)
		assert.ErrorIs(t, r.Err, context.Canceled)
		assert.ErrorIs(t, r.Err, why)
		assert.NotErrorIs(t, r.Err, holdfast.ErrBusy)

		kit.Await(t, "the subscription's end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
		kit.Await(t, "the keyspace of before", func() bool { return reflect.DeepEqual(before, srv.Keyspace(t)) })
		require.NoError(t, hold.Release())
	})
}

func TestTryLockForWaitsAndGivesUp(t *testing.T) {
	kit.EveryKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), k.Rival(a, t.Name(), 0))
		l := k.Make(b, t.Name(), 0)

		kit.WaitInVain(t, l.TryLockFor, time.Second)
		for _, wait := range []time.Duration{0, -time.Second} { // a single attempt
			_, err := l.TryLockFor(t.Context(), wait)
			assert.ErrorIs(t, err, holdfast.ErrBusy)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // ends first
		defer cancel()
		_, err := l.TryLockFor(ctx, time.Hour)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, holdfast.ErrBusy)

		got := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
			return l.TryLockFor(ctx, 10*time.Second)
		})
		kit.Waiting(t, k, srv)
		require.NoError(t, hold.Release())
		r := kit.Within(t, kit.Told, got, "the lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	})
}
