package locks

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A hold in the session that updates the lease believes in a longer one at once, and acts on it.
func TestALeaseThatIsMadeLongerIsBelieved(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := semaphore.NewExpirable(s, "permits", &semaphore.ExpirableOptions{FixedLease: 3 * time.Second})
	_, err := e.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	ctx, first := h.Context(t.Context()), h.Deadline()
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 20*time.Second))
	require.Greater(t, time.Until(h.Deadline()), 9*time.Second)
	kit.SleepUntil(first.Add(100 * time.Millisecond))
	require.NoError(t, h.Err())
	require.NoError(t, ctx.Err())
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), semaphore.Forever))
	require.Greater(t, time.Until(h.Deadline()), 1000*time.Hour)
	require.NoError(t, h.Release())
}

// A shortened lease is the one that is believed in, whatever renewals are in flight.
func TestALeaseThatIsMadeShorterIsBelieved(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	// renewed every 2 s
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second}), 1, 0)
	for name, play := range map[string]func(t *testing.T, h *holdfast.Hold){
		"a renewal is under way": func(t *testing.T, h *holdfast.Hold) {
			renewal := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "renew"), proxy.HoldReply,
				proxy.First)
			renewal.Wait(t, 1)
			update := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Pass, proxy.First)
			updated := make(chan error, 1)
			go func() { updated <- e.UpdateLease(t.Context(), h.ID(), 600*time.Millisecond) }()
			update.Wait(t, 1)
			renewal.Release() // the replies come one after the other
			require.NoError(t, kit.Within(t, time.Second, updated, "the update"))
		},
		"its reply is lost": func(t *testing.T, h *holdfast.Hold) {
			proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.DropReply, proxy.First)
			require.ErrorIs(t, e.UpdateLease(t.Context(), h.ID(), 600*time.Millisecond), holdfast.ErrUnknown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			defer func() { _ = h.Release() }()
			play(t, h)
			took := kit.Stopwatch()
			require.LessOrEqual(t, time.Until(h.Deadline()), 600*time.Millisecond)
			for h.Err() == nil {
				require.Less(t, took(), time.Second) // before the question: the answer may take long
				deadline := h.Deadline()
				left, err := e.RemainingLease(t.Context(), h.ID())
				if h.Err() == nil {
					require.NoError(t, err)
					require.Greater(t, time.Now().Add(left), deadline)
				}
			}
			require.ErrorIs(t, h.Err(), holdfast.ErrLost)
			kit.Await(t, "the permit", func() bool { return kit.ErrorOf(e.RemainingLease(t.Context(), h.ID())) != nil })
			kit.RequirePermits(t, e, 1, 0)
		})
	}
}

// Whoever makes a lease shorter and does not look again is told of its end all the same.
func TestTheEndOfALeaseThatWasMadeShorterIsTold(t *testing.T) {
	t.Parallel()
	o := &lookout{}
	s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Observer: o.observer()})
	e := kit.NewExports(t, s, 1, time.Hour)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 2*time.Second))
	kit.AwaitFor(t, kit.LongestWait, "word of its end", func() bool { return o.sum("ended lost") == 1 })
}

// A shorter lease that nobody knows to be in force may come into force later, whatever lease was requested since.
func TestAShorterLeaseMayComeLate(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	// so that a call may be executed up to 10 s late
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), nil), 1, 30*time.Second)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	update := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, e.UpdateLease(ctx, h.ID(), 20*time.Second), holdfast.ErrUnknown)
	kit.Await(t, "another connection", func() bool { return kit.ErrorOf(e.AvailablePermits(t.Context())) == nil })
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 30*time.Second))
	require.ErrorIs(t, h.Extend(t.Context(), 30*time.Second), holdfast.ErrUnknown)
	update.Release()
	update.WaitAnswered(t, 1)
	left, err := e.RemainingLease(t.Context(), h.ID())
	require.NoError(t, err)
	require.Less(t, left, 21*time.Second)
	require.Less(t, time.Until(h.Deadline()), left)
	require.NoError(t, h.Release())
}

// An update that the server refuses as late is sent again, and no doubt stays of the first.
func TestAnUpdateThatIsSentAgainIsBelieved(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	e := kit.NewExports(t, kit.Open(t, p.Addr(), nil), 1, 30*time.Second)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	late := "*2\r\n:-2\r\n:" + strconv.FormatInt(time.Now().UnixMilli(), 10)
	refused := p.On(kit.ScriptNamed("semaphore_update_expirable"), proxy.Answer(late), proxy.First)
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), time.Minute))
	require.Equal(t, 2, refused.Matched())
	require.Greater(t, time.Until(h.Deadline()), 50*time.Second)
	require.NoError(t, h.Extend(t.Context(), 2*time.Minute))
	require.Greater(t, time.Until(h.Deadline()), 110*time.Second)
}

// A longer lease that the server may have, of a hold that is lost before anybody knows, keeps no permit.
func TestALongerLeaseOfALostHoldKeepsNoPermit(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{"no reply": proxy.DropReply, "late reply": proxy.HoldReply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			e := kit.NewExports(t, kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second}), 1, 500*time.Millisecond)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			update := p.On(kit.ScriptNamed("semaphore_update_expirable"), action, proxy.First)
			updated := make(chan error, 1)
			go func() { updated <- e.UpdateLease(t.Context(), h.ID(), time.Hour) }()
			update.Wait(t, 1)
			<-h.Context(t.Context()).Done()
			require.ErrorIs(t, h.Err(), holdfast.ErrLost)
			update.Remove()
			require.Error(t, kit.Within(t, kit.Told, updated, "the end of the update"))
			kit.AwaitFor(t, kit.Told, "the permit", func() bool { return srv.Str(t, "GET", "exports") == "1" })
		})
	}
}

// A refusal changes nothing: the former lease stays believed in.
func TestALeaseThatIsNotUpdatedStays(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	e := kit.NewExports(t, kit.Open(t, proxied.Addr(), nil), 1, time.Hour)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	before := h.Deadline()
	proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Answer(kit.LoadingReply), proxy.First)
	require.ErrorContains(t, e.UpdateLease(t.Context(), h.ID(), time.Second), "LOADING")
	require.Equal(t, before, h.Deadline())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.UpdateLease(ended, h.ID(), time.Second), context.Canceled)
	require.Equal(t, before, h.Deadline())
}

// An update that is executed late is refused, even if the server's clock was set back after the session had learned
// it: then the session believes the clock to be ahead, and so is every not-after.
func TestALateUpdateIsRefusedByAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	e := semaphore.NewExpirable(kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second}), "x", nil)
	require.NoError(t, e.SetPermits(t.Context(), 1))
	hold, err := e.Acquire(t.Context())
	require.NoError(t, err)

	s := kit.Open(t, p.Addr(), nil)
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer("*3\r\n:1\r\n:"+ahead+"\r\n:0"), proxy.First)
	kit.Lock(t, t.Context(), rlock.New(s, "y", nil))
	late := p.On(kit.ScriptNamed("semaphore_update_expirable"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	updated := make(chan error, 1)
	go func() { updated <- semaphore.NewExpirable(s, "x", nil).UpdateLease(ctx, hold.ID(), time.Second) }()
	late.Wait(t, 1)
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.Told, updated, "the end of the call"), holdfast.ErrUnknown)
	kit.SleepUntil(time.Now().Add(kit.Lease/3 + 100*time.Millisecond)) // longer than a third of its session's lease
	late.Release()
	late.WaitAnswered(t, 1)
	left, err := e.RemainingLease(t.Context(), hold.ID())
	require.NoError(t, err)
	require.Greater(t, left, 2*time.Second)
	require.NoError(t, semaphore.NewExpirable(s, "x", nil).UpdateLease(t.Context(), hold.ID(), time.Minute))
	require.NoError(t, hold.Release())
}

// A call that was not even sent has changed nothing, however long it took to find that out: the former lease stays
// believed in.
func TestALeaseWhoseUpdateCouldNotBeSentStays(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]func(t *testing.T, s *holdfast.Session, proxied *proxy.Proxy){
		"no connection": func(t *testing.T, s *holdfast.Session, proxied *proxy.Proxy) {
			proxied.StallNew(true)
			proxied.CutAll()
			kit.Await(t, "the client to notice", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				return errors.Is(kit.ErrorOf(semaphore.New(s, "pool").AvailablePermits(ctx)), context.DeadlineExceeded)
			})
		},
		"no place": func(t *testing.T, s *holdfast.Session, proxied *proxy.Proxy) {
			const callers = 1000
			looks := proxied.On(kit.ScriptNamed("count_value"), proxy.HoldReply, proxy.First)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			t.Cleanup(func() {
				cancel()
				looks.Release()
				all.Wait()
			})
			all.Go(func() { _, _ = semaphore.New(s, "pool").AvailablePermits(ctx) })
			looks.Wait(t, 1)
			began := make(chan struct{}, callers)
			for range callers {
				all.Go(func() {
					began <- struct{}{}
					_, _ = latch.New(s, "done").Count(ctx)
				})
			}
			for range callers {
				kit.Within(t, 10*time.Second, began, "a caller")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 30 * time.Second})
			e := kit.NewExports(t, s, 1, time.Hour)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			ctx, before := h.Context(t.Context()), h.Deadline()
			keep(t, s, proxied)

			const shorter = 100 * time.Millisecond
			patience, cancel := context.WithTimeout(t.Context(), 5*shorter)
			defer cancel()
			err = e.UpdateLease(patience, h.ID(), shorter)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, holdfast.ErrUnknown)
			require.NoError(t, h.Err())
			require.NoError(t, ctx.Err())
			require.Equal(t, before, h.Deadline())
		})
	}
}

// A shorter lease may come late by the window of the call that asks for it, whatever the options are of the semaphore
// value that the hold was taken through.
func TestAShorterLeaseOfAnotherValueMayComeLate(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	s := kit.Open(t, proxied.Addr(), nil)
	e := kit.NewExports(t, s, 1, 9*time.Second)                                                       // may be late by 3 s
	other := semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: time.Hour}) // by a minute
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	update := proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.Stall, proxy.First)
	sent := time.Now()
	kit.GiveUp(t, update, func(ctx context.Context) error { return other.UpdateLease(ctx, h.ID(), 8*time.Second) })
	kit.Await(t, "another connection", func() bool { return kit.ErrorOf(e.AvailablePermits(t.Context())) == nil })
	kit.SleepUntil(sent.Add(3300 * time.Millisecond))
	require.NoError(t, h.Err())
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), time.Minute))
	update.Release()
	update.WaitAnswered(t, 1)
	left, err := e.RemainingLease(t.Context(), h.ID())
	require.NoError(t, err)
	require.Less(t, time.Until(h.Deadline()), left)
}

// Nor is an update executed later than the session reckons with it because the server's clock was set back meanwhile:
// there is time to spare for that.
func TestAnUpdateIsNotExecutedLateByAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"of a hold": true, "of a permit that comes by a hand-over": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.StartWithClock(t)
			kit.LoadScripts(t, srv)
			p := proxy.Start(t, srv.Addr())
			from, to := kit.Open(t, srv.Addr(), nil), kit.Open(t, p.Addr(), nil)
			e := kit.NewExports(t, from, 1, 9*time.Second)
			other := semaphore.NewExpirable(to, "exports", &semaphore.ExpirableOptions{FixedLease: 9 * time.Second})
			require.NoError(t, other.SetPermits(t.Context(), 1)) // so that its session knows the server's clock
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			if held {
				h, err = h.HandTo(t.Context(), to)
				require.NoError(t, err)
			}
			update := p.On(kit.ScriptNamed("semaphore_update_expirable"), proxy.Stall, proxy.First)
			kit.GiveUp(t, update, func(ctx context.Context) error { return other.UpdateLease(ctx, h.ID(), 8*time.Second) })
			over := time.Now().Add(3 * time.Second) // a third of the lease
			kit.Await(t, "another connection", func() bool { return kit.ErrorOf(other.AvailablePermits(t.Context())) == nil })
			if !srv.SetClock(-time.Second) {
				t.Skip("the server's clock cannot be set here")
			}
			kit.SleepUntil(over)
			if !held {
				h, err = h.HandTo(t.Context(), to)
				require.NoError(t, err)
			}
			require.NoError(t, h.Extend(t.Context(), time.Minute))
			update.Release()
			update.WaitAnswered(t, 1)
			left, err := other.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			require.Less(t, time.Until(h.Deadline()), left)
			require.NoError(t, h.Release())
		})
	}
}

// So is who makes the lease of a permit shorter that is not renewed any more, because of MaxHold.
func TestTheEndOfALeaseThatWasMadeShorterIsToldAfterTheLongestTime(t *testing.T) {
	t.Parallel()
	const most = 6 * time.Second
	o := &lookout{}
	opts := &holdfast.Options{Lease: most, MaxHold: most, Observer: o.observer()}
	e := kit.NewExports(t, kit.Open(t, redistest.Start(t).Addr(), opts), 1, 0)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	kit.Await(t, "no renewal", func() bool { return time.Until(h.Deadline()) < most/2 })
	before := h.Deadline()
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	kit.SleepUntil(before.Add(most / 3)) // the session has looked at it
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), time.Second))
	kit.AwaitFor(t, kit.LongestWait, "word of its end", func() bool { return o.sum("ended lost") == 1 })
}
