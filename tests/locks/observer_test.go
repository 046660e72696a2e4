package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// observations are of what an observer is told of each kind. They are made one after the other, and so share a
// server.
var observations = map[string]func(t *testing.T, k kit.Kind, srv *redistest.Server){
	"a free lock": observeAFreeLock, "a lock that is taken": observeALockThatIsTaken,
	"a wait that a release ends": observeAWaitThatAReleaseEnds, "a wait that is cancelled": observeAWaitThatIsCancelled,
	"nested holds": observeNestedHolds, "a detached hold": observeADetachedHold,
	"a loss that the release finds": observeALossThatTheReleaseFinds, "an end of the session": observeAnEndOfTheSession,
}

func TestObserver(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		for name, observe := range observations {
			t.Run(name, func(t *testing.T) { observe(t, k, srv) })
			kit.Await(t, "the end of its connections", func() bool { return srv.Connections(t) == 0 })
		}
	})
}

func observeAFreeLock(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	l := k.Make(s, t.Name(), 0)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	once := map[string]int{"acquire": 1, "acquired well": 1, "hold": 1, "ended well": 1}
	o.requireTold(t, k.Title(), told(k, once, map[string]int{"attempt well": 1}))
	switch k.Name {
	case "multilock":
		once["attempt well"] = 1
		o.requireTold(t, "rlock", once)
		o.requireTold(t, "fairlock", once)
	case "multilock together":
		o.requireTold(t, "rlock", map[string]int{"hold": 2, "ended well": 2})
	case "redlock": // the other servers' sessions are not observed
		once["attempt well"] = 1
		o.requireTold(t, "rlock", once)
	default:
		require.Equal(t, holdfast.Subject{Kind: k.Title(), Name: l.Name()}, o.of)
		require.Equal(t, 1, o.last.Attempts)
		require.Positive(t, o.last.Took)
	}
	o.requireBalance(t)
}

func observeALockThatIsTaken(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), t.Name(), 0))
	_, err := k.Make(s, t.Name(), 0).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	o.requireTold(t, k.Title(), told(k, map[string]int{"acquire": 1, "acquired busy": 1},
		map[string]int{"attempt busy": 1}))
	o.requireBalance(t)
	require.NoError(t, hold.Release())
}

func observeAWaitThatAReleaseEnds(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), t.Name(), 0))
	still := kit.Stillness()
	got := kit.GoLock(t.Context(), k.Make(s, t.Name(), 0).Lock)
	kit.Await(t, "a wait", func() bool { return o.sum("wait") > o.sum("waited") })
	kit.Waiting(t, k, srv)
	require.NoError(t, hold.Release())
	r := kit.Within(t, kit.LongestWait, got, "the lock")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	o.requireBalance(t)
	// Waiters of these kinds may look in the very moment, as may any in a process that stood still for as long as one of
	// them sleeps.
	if !k.Polls && !k.OneString && k.Most == nil && still() < 250*time.Millisecond {
		require.Positive(t, o.sum("woken by message"))
	}
	told := o.counts(k.Title())
	require.Equal(t, 1, told["acquired well"])
	require.Equal(t, 1, told["hold"])
	if !k.Several {
		require.Equal(t, o.last.Attempts, told["attempt well"]+told["attempt busy"])
		require.Equal(t, 1, told["wait"])
		// The session listens still, so its next call may stand in the line from the beginning. It does not wait.
		require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0)).Release())
		require.Equal(t, 1, o.counts(k.Title())["wait"])
	}
}

func observeAWaitThatIsCancelled(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), t.Name(), 0))
	ctx, cancel := context.WithCancel(t.Context())
	got := kit.GoLock(ctx, k.Make(s, t.Name(), 0).Lock)
	kit.Await(t, "a wait", func() bool { return o.sum("wait") > 0 })
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, got, "the end").Err, context.Canceled)
	require.Equal(t, 1, o.counts(k.Title())["acquired cancelled"])
	o.requireBalance(t)
	require.NoError(t, hold.Release())
}

func observeNestedHolds(t *testing.T, k kit.Kind, srv *redistest.Server) {
	if !k.Reentrant {
		return
	}
	o, s := observed(t, srv, kit.Lease)
	l := k.Make(s, t.Name(), 0)
	outer := kit.Lock(t, t.Context(), l)
	inner := kit.Lock(t, outer.Context(t.Context()), l)
	require.Equal(t, 2, o.counts(k.Title())["hold"])
	require.NoError(t, inner.Release())
	require.Equal(t, 1, o.counts(k.Title())["ended well"])
	require.NoError(t, outer.Release())
	told := o.counts(k.Title())
	require.Equal(t, []int{2, 2, 2, 2},
		[]int{told["acquire"], told["acquired well"], told["hold"], told["ended well"]})
	o.requireBalance(t)
}

func observeADetachedHold(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0)).Detach())
	require.Equal(t, 1, o.counts(k.Title())["ended well"])
	o.requireBalance(t)
}

// A loss that nobody has noticed before is also told to observers.
func observeALossThatTheReleaseFinds(t *testing.T, k kit.Kind, srv *redistest.Server) {
	if k.Most != nil {
		return // its fate is that of several servers
	}
	o, s := observed(t, srv, time.Minute)
	hold := kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0))
	k.Wipe(t, srv, t.Name())
	require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
	require.Equal(t, 1, o.counts(k.Title())["ended lost"])
	o.requireBalance(t)
}

func observeAnEndOfTheSession(t *testing.T, k kit.Kind, srv *redistest.Server) {
	if k.Most != nil {
		return // its fate is that of several servers
	}
	o, s := observed(t, srv, kit.Lease)
	hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), t.Name(), 0))
	got := kit.GoLock(t.Context(), k.Make(s, t.Name(), 0).Lock)
	kit.Lock(t, t.Context(), k.Make(s, "held", 0))
	kit.Await(t, "a wait", func() bool { return o.sum("wait") > 0 })
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the end").Err, holdfast.ErrClosed)
	o.requireBalance(t)
	require.Equal(t, 1, o.counts(k.Title())["acquired closed"])
	require.Equal(t, 1, o.counts(k.Title())["ended closed"])
	require.NoError(t, hold.Release())
}

// observationsInTime take seconds, and are made at the same time.
var observationsInTime = map[string]func(t *testing.T, k kit.Kind, srv *redistest.Server){
	"a wait that a timer ends": observeAWaitThatATimerEnds, "renewals": observeRenewals,
	"leases that run out": observeLeasesThatRunOut, "a loss": observeALoss,
}

func TestObserverOfWhatTakesTime(t *testing.T) {
	kit.EachKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		kit.InParallel(t, len(observationsInTime), slices.Collect(maps.Keys(observationsInTime)),
			func(name string) string { return name }, func(t *testing.T, name string) { observationsInTime[name](t, k, srv) })
	})
}

func observeAWaitThatATimerEnds(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), t.Name(), 3*time.Second))
	require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0)).Release())
	require.Positive(t, o.sum("woken by timer"))
	o.requireBalance(t)
}

func observeRenewals(t *testing.T, k kit.Kind, srv *redistest.Server) {
	const lease = 6 * time.Second
	still := kit.Stillness()
	o, s := observed(t, srv, lease)
	hold := kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0))
	kit.Await(t, "renewals", func() bool { return o.sum("renewal well") >= 2 })
	require.NoError(t, hold.Release())
	if still() < lease/6 { // a renewal that takes longer has failed
		require.Zero(t, o.sum("renewal badly"))
	}
	o.requireBalance(t)
}

// A hold with a fixed lease that nobody releases or looks at ends all the same, and nothing of it stays.
func observeLeasesThatRunOut(t *testing.T, k kit.Kind, srv *redistest.Server) {
	o, s := observed(t, srv, kit.Lease)
	kit.Lock(t, t.Context(), k.Make(s, t.Name(), time.Second))
	kit.Await(t, "the end", func() bool { return o.counts(k.Title())["ended lost"] == 1 })
	kit.Lock(t, t.Context(), k.Make(s, t.Name(), time.Second))
	kit.Await(t, "the end of the next one", func() bool { return o.counts(k.Title())["ended lost"] == 2 })
	o.requireBalance(t)
}

// observeALoss is of what the server has dropped, or of a server that has gone.
func observeALoss(t *testing.T, k kit.Kind, srv *redistest.Server) {
	observeLossBy(t, k, srv, func() { k.Wipe(t, srv, t.Name()) })
}

func TestObserverOfALossAtASilentServer(t *testing.T) {
	kit.EachAloneAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		observeLossBy(t, k, srv, srv.Pause)
	})
}

func observeLossBy(t *testing.T, k kit.Kind, srv *redistest.Server, harm func()) {
	if k.Most != nil {
		return // it has other servers
	}
	o, s := observed(t, srv, 3*time.Second)
	hold := kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0))
	ctx := hold.Context(t.Context())
	harm()
	kit.Within(t, 10*time.Second, ctx.Done(), "the loss")
	kit.Await(t, "word of it", func() bool { return o.counts(k.Title())["ended lost"] == 1 })
	srv.Resume()
	require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
	o.requireBalance(t)
	require.Equal(t, 1, o.counts(k.Title())["ended lost"])
	kit.Await(t, "word of a renewal without a reply, or that found nothing",
		func() bool { return o.sum("renewal badly") > 0 })
}

// A release of another session hands an rlock or a fair lock over to the first in its line, which asks no more. The
// first that waits to write, or for a permit, is told, and takes by one more call.
func TestObserverOfAGrant(t *testing.T) {
	t.Parallel()
	for _, k := range linedKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, k)
			o, s := observed(t, q.srv, 30*time.Second)
			next := q.waits(t, s, kit.Orders, func() *redistest.Server { return q.srv }, 1)
			settled()
			asked := o.sum("attempt well")
			kit.AwaitHandOn(t, q.srv)
			q.passesOn(kit.LongestWait, next, "the waiter")
			o.mu.Lock()
			last := o.last
			o.mu.Unlock()
			require.Equal(t, k.granted, last.Granted)
			require.False(t, last.HandedOver)
			require.Equal(t, !k.granted, o.sum("attempt well") > asked)
			require.NoError(t, q.give())
			o.requireBalance(t)
		})
	}
}

// A session that waited just now is still subscribed, so its next call stands in the line on the server at once. It
// waits only if that was in vain.
func TestObserverOfAFreeLockAfterAWait(t *testing.T) {
	t.Parallel()
	for _, k := range linedKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, k)
			server := func() *redistest.Server { return q.srv }
			o, s := observed(t, q.srv, 30*time.Second)
			q.passesOn(kit.LongestWait, q.waits(t, s, kit.Orders, server, 1), "the waiter")
			require.NoError(t, q.give())
			require.Equal(t, 1, o.sum("wait"))
			for range 5 {
				give, err := k.take(t.Context(), s, kit.Orders)
				require.NoError(t, err)
				require.NoError(t, give())
			}
			require.Equal(t, 1, o.sum("wait"), "of those that got it at once")
			var err error
			q.give, err = k.take(t.Context(), q.comes(q.srv.Addr()), kit.Orders)
			require.NoError(t, err)
			next := q.waits(t, s, kit.Orders, server, 1)
			kit.Await(t, "another wait", func() bool { return o.sum("wait") == 2 })
			q.passesOn(kit.LongestWait, next, "the waiter")
			require.NoError(t, q.give())
			o.requireBalance(t)
		})
	}
}

// What a call of the session has released is handed over inside it, and not granted.
func TestObserverOfAHandOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, 30*time.Second)
	l := rlock.New(s, "orders", nil)
	hold := kit.Lock(t, t.Context(), l)
	require.False(t, o.last.Granted, "it was free")
	next := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "a wait", func() bool { return o.sum("wait") == 1 })
	require.NoError(t, hold.Release())
	hold = kit.Granted(t, kit.LongestWait, next, "the next of the session")
	require.True(t, o.last.HandedOver)
	require.False(t, o.last.Granted)
	require.NoError(t, hold.Release())
	o.requireBalance(t)
}

// When the first waiter of a session leaves, the next one becomes the first.
func TestObserverOfTurns(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, kit.Lease)
	hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil))
	l := rlock.New(s, "orders", nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := kit.GoLock(ctx, l.Lock)
	kit.Await(t, "the first", func() bool { return o.sum("wait") == 1 })
	second := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "the second", func() bool { return o.sum("wait") == 2 })
	cancel()
	require.ErrorIs(t, kit.Within(t, time.Second, first, "the first").Err, context.Canceled)
	kit.Await(t, "its turn", func() bool { return o.sum("woken by turn") == 1 })
	require.NoError(t, hold.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, second, "the second").Release())
	o.requireBalance(t)
}

// One that is nested with renewed ones ends when those are renewed.
func TestObserverOfANestedLeaseThatRunsOut(t *testing.T) {
	t.Parallel()
	o, s := observed(t, redistest.Start(t), 6*time.Second)
	outer := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	kit.Lock(t, outer.Context(t.Context()), rlock.New(s, "orders", &rlock.Options{FixedLease: time.Second}))
	kit.Await(t, "the end", func() bool { return o.sum("ended lost") == 1 })
	require.NoError(t, outer.Release())
	o.requireBalance(t)
}

// Any of the functions may be missing, and so may those that they return.
func TestObserversThatWantLittle(t *testing.T) {
	t.Parallel()
	all := func(o *lookout) map[string]*holdfast.Observer {
		full := o.observer()
		return map[string]*holdfast.Observer{
			"nothing": {},
			"acquire": {Acquire: full.Acquire},
			"attempt": {Attempt: full.Attempt},
			"wait":    {Wait: full.Wait},
			"woken":   {WakeUp: full.WakeUp},
			"hold":    {Hold: full.Hold},
			"renewal": {Renewal: full.Renewal},
			"nil": {
				Acquire: func(context.Context, holdfast.Subject) func(holdfast.Acquired) { return nil },
				Wait:    func(holdfast.Subject) func() { return nil },
				Hold:    func(context.Context, holdfast.Subject) func(holdfast.Ended) { return nil },
			},
		}
	}
	words := map[string][]string{
		"acquire": {"acquire", "acquired"}, "attempt": {"attempt"}, "wait": {"wait", "waited"}, "woken": {"woken"},
		"hold": {"hold", "ended"}, "renewal": {"renewal"},
	}
	for _, kind := range []string{"rlock", "semaphore expirable", "multilock", "multilock together", "redlock"} {
		t.Run(kind, func(t *testing.T) { // the same code tells of them as of others
			t.Parallel()
			srv, k := redistest.Start(t), kit.KindOf(kind)
			if k.Most != nil {
				k.Make = k.Most(t)
			}
			for what := range all(&lookout{}) {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					o, name := &lookout{}, "orders "+what
					s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second, Observer: all(o)[what]})
					hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), name, 0))
					got := kit.GoLock(t.Context(), k.Make(s, name, 0).Lock)
					kit.WaitingFor(t, k, srv, name)
					require.NoError(t, hold.Release())
					h := kit.Granted(t, kit.LongestWait, got, "the lock")
					trusted := h.Deadline()
					kit.Await(t, "a renewal", func() bool {
						return h.Deadline().After(trusted) && (what != "renewal" || o.sum("renewal well") > 0)
					})
					require.NoError(t, h.Release())
					o.mu.Lock()
					defer o.mu.Unlock()
					for told := range o.told {
						require.Contains(t, words[what], strings.Fields(told)[1], told)
					}
					if words[what] != nil {
						require.NotEmpty(t, o.told)
					}
				})
			}
		})
	}
}

// However a loss, a release and the end of the session coincide, an observer is told of the end of a hold once.
func TestObserverOfEndsThatCross(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, 3*time.Second)
	l := rlock.New(s, "orders", nil)
	const rounds = 300
	for i := range rounds {
		ends := []func(h *holdfast.Hold){
			func(h *holdfast.Hold) { _ = h.Release() },
			func(h *holdfast.Hold) { _ = h.Release() },
			func(h *holdfast.Hold) {
				if tell, err := (*core.Hold)(h).Inside().Lose(errors.New("on purpose")); err == nil {
					tell(t.Context())
				}
			},
			func(h *holdfast.Hold) { _ = h.Err() },
		}
		if i%3 == 0 {
			ends = append(ends, func(h *holdfast.Hold) { _ = h.Detach() })
		}
		name := l
		if i%3 == 0 { // that one stays taken
			name = rlock.New(s, fmt.Sprint("detached ", i), &rlock.Options{FixedLease: time.Second})
		}
		h := kit.Lock(t, t.Context(), name)
		var wg sync.WaitGroup
		for _, end := range ends {
			wg.Go(func() { end(h) })
		}
		wg.Wait()
	}
	o.requireBalance(t)
	require.Equal(t, rounds, o.sum("hold"))
}

// Without an observer nothing is spent on it.
func TestAllocationsOfAnObserver(t *testing.T) {
	srv, runs, rounds := redistest.Start(t), 1000, 1
	if kit.Racing() { // pools forget now and then: the figure is not exact, and the least is the steadiest
		runs, rounds = 100, 5
	}
	cost := func(observer *holdfast.Observer) float64 {
		l := rlock.New(kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute, Observer: observer}),
			"orders", nil)
		ctx := context.Background()
		cycle := func() {
			h, err := l.Lock(ctx)
			if err == nil {
				err = h.Release()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cycle()
		least := math.Inf(1)
		for range rounds {
			least = min(least, testing.AllocsPerRun(runs, cycle))
		}
		return least
	}
	none, empty, all := cost(nil), cost(&holdfast.Observer{}), cost((&lookout{}).observer())
	t.Logf("allocations of a lock and release: %v, with an empty observer %v, with one that counts %v",
		none, empty, all)
	if kit.Racing() {
		assert.InDelta(t, none, empty, 1)
		return
	}
	assert.Equal(t, none, empty)
	assert.LessOrEqual(t, none, 3.0)
}
