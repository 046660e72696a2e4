package locks

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// If a wait is woken when its ctx has just ended, there is nobody for whom to ask. A permit that is taken for nobody is
// lost if the reply is.
func TestAWaitWhoseCtxHasEndedAsksForNoPermit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	ctx, cancel := context.WithCancelCause(t.Context())
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Observer: &holdfast.Observer{
		WakeUp: func(holdfast.Subject, holdfast.WakeUp) { cancel(assert.AnError) },
	}})
	p := kit.NewPool(t, s, 1)
	require.NoError(t, p.Acquire(t.Context(), 1)) // now the script and the server's clock are known
	attempt := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), proxy.Pass, proxy.EveryTime)
	err := p.Acquire(ctx, 1) // is woken when its subscription stands, at the latest
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, assert.AnError)
	require.NoError(t, s.Close()) // which waits for what is under way
	require.Equal(t, 1, attempt.Matched(), "the first one")
}

// Nor is there when the ctx has ended before there was a connection to ask on.
func TestACallThatGaveUpBeforeAConnectionWasUpAsksForNoPermit(t *testing.T) {
	t.Parallel()
	_, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), nil)
	p := kit.NewPool(t, s, 1)
	require.NoError(t, p.Acquire(t.Context(), 1)) // now the server's clock is known
	require.NoError(t, p.Release(t.Context(), 1))
	attempt := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), proxy.Pass, proxy.EveryTime)
	hello := proxied.On(proxy.Command("HELLO"), proxy.Stall, proxy.EveryTime)
	proxied.CutAll()
	kit.Await(t, "the client to notice", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return kit.ErrorOf(p.AvailablePermits(ctx)) != nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	got := goAcquire(ctx, p, 1)
	kit.SleepUntil(time.Now().Add(50 * time.Millisecond)) // time for it to wait for the connection
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, got, "the end"), context.Canceled)
	hello.Remove()
	free(t, p, 1)
	require.NoError(t, s.Close()) // which waits for what is under way
	require.Zero(t, attempt.Matched())
}

// Nor if it has ended while too many other calls were under way for another one to be sent.
func TestACallThatGaveUpBehindOthersAsksForNoPermit(t *testing.T) {
	t.Parallel()
	const callers, underWay = 600, 440
	_, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 90 * time.Second})
	p := kit.NewPool(t, s, 1)
	require.NoError(t, p.Acquire(t.Context(), 1)) // now the server's clock is known
	require.NoError(t, p.Release(t.Context(), 1))
	attempts := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), proxy.HoldReply, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { assert.ErrorIs(t, p.TryAcquire(ctx, 1), context.Canceled) })
	}
	attempts.WaitMatched(t, underWay)
	kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // time for the others to be sent
	cancel()
	all.Wait()
	attempts.Release()
	require.NoError(t, s.Close()) // which waits for what is under way
	require.Equal(t, underWay, attempts.Matched())
}

// Where connections are accepted and end before they are up, as behind a balancer without a server, or at a server that
// has too many clients, no call was sent: nothing is in doubt, whatever a copy of it would do.
func TestCountsSurviveConnectionsThatAreNotUp(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{
		"reset": proxy.ResetBefore, "full": proxy.Answer("-ERR max number of clients reached"), "silent": proxy.Stall,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, proxied := kit.StartProxied(t)
			s := kit.Open(t, proxied.Addr(), nil)
			p, l := kit.NewPool(t, s, 1), latch.New(s, "ready")
			require.NoError(t, p.Acquire(t.Context(), 1))
			require.True(t, valueOf(l.TrySetCount(t.Context(), 1)))
			hello := proxied.On(proxy.Command("HELLO"), action, proxy.EveryTime)
			proxied.CutAll()
			kit.Await(t, "the client to notice", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				return kit.ErrorOf(p.AvailablePermits(ctx)) != nil
			})
			got := goAcquire(t.Context(), p, 1)
			require.ErrorIs(t, p.Release(t.Context(), 1), holdfast.ErrUnknown)
			require.ErrorIs(t, l.CountDown(t.Context()), holdfast.ErrUnknown)
			hello.Remove()
			hello.Release()
			require.NoError(t, kit.Within(t, 20*time.Second, got, "the permit"))
			require.NoError(t, kit.Within(t, 20*time.Second, waitFor(t.Context(), l), "the latch"))
			require.Equal(t, "0", srv.Str(t, "GET", "pool"))
		})
	}
}

// Where nobody takes connections, an attempt fails at once, as that of a lock does, and whatever fails says why. What
// is to be given back comes soon after the outage, however long that lasts.
func TestASemaphoreWithoutAServerSaysWhy(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 3 * time.Second})
	p, l := kit.NewPool(t, s, 2), latch.New(s, "ready")
	require.NoError(t, p.Acquire(t.Context(), 1))
	require.True(t, valueOf(l.TrySetCount(t.Context(), 1)))
	srv.Stop()
	kit.Await(t, "the client to notice", func() bool {
		return errors.Is(kit.ErrorOf(p.AvailablePermits(t.Context())), syscall.ECONNREFUSED)
	})
	took := kit.Stopwatch()
	require.ErrorIs(t, p.TryAcquire(t.Context(), 1), syscall.ECONNREFUSED)
	require.Less(t, took(), 500*time.Millisecond)
	require.ErrorIs(t, p.TryAcquireFor(t.Context(), 1, 100*time.Millisecond), syscall.ECONNREFUSED)
	for name, err := range map[string]error{"Release": p.Release(t.Context(), 1), "CountDown": l.CountDown(t.Context())} {
		require.ErrorIs(t, err, holdfast.ErrUnknown, name)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, name)
	}

	kit.SleepUntil(time.Now().Add(6 * time.Second)) // so that an ever rarer try would not come soon
	srv.Restart()
	kit.AwaitFor(t, 2*time.Second, "the permit that is back", func() bool {
		n, err := p.AvailablePermits(t.Context())
		return err == nil && n == 1
	})
}

func TestACancelledWaitEatsNoPermit(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(ctx context.Context, p *semaphore.Semaphore) error{
		"Acquire":    func(ctx context.Context, p *semaphore.Semaphore) error { return p.Acquire(ctx, 2) },
		"TryAcquire": func(ctx context.Context, p *semaphore.Semaphore) error { return p.TryAcquire(ctx, 2) },
		"TryAcquireFor": func(ctx context.Context, p *semaphore.Semaphore) error {
			return p.TryAcquireFor(ctx, 2, time.Hour)
		},
	} {
		for when, action := range map[string]proxy.Action{
			"before it is executed":  proxy.Stall,
			"before its reply comes": proxy.HoldReply,
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				proxied := proxy.Start(t, srv.Addr())
				p := kit.NewPool(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 20 * time.Second}), 2)
				require.NoError(t, p.Acquire(t.Context(), 2)) // now the scripts and the server's clock are known
				require.NoError(t, p.Release(t.Context(), 2))
				attempt := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), action, proxy.First)
				ctx, cancel := context.WithCancelCause(t.Context())
				result := make(chan error, 1)
				go func() { result <- take(ctx, p) }()
				attempt.Wait(t, 1)
				cancel(assert.AnError)
				err := kit.Within(t, time.Second, result, "the end")
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, assert.AnError)
				require.NotErrorIs(t, err, holdfast.ErrUnknown)
				attempt.Release()
				attempt.WaitAnswered(t, 1)
				kit.Await(t, "the permits", func() bool { return srv.Str(t, "GET", "pool") == "2" })
			})
		}
	}
	t.Run("cancelled at random", func(t *testing.T) {
		t.Parallel()
		const permits = 3
		srv := redistest.Start(t)
		p := kit.NewPool(t, kit.Open(t, srv.Addr(), nil), permits)
		var all sync.WaitGroup
		var got, cancelled atomic.Int64
		for range 16 {
			all.Go(func() {
				for range 60 {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
					if p.Acquire(ctx, 1+rand.IntN(2)) == nil {
						got.Add(1)
					} else {
						cancelled.Add(1)
					}
					cancel()
				}
			})
		}
		all.Wait()
		t.Log(got.Load(), "got some,", cancelled.Load(), "did not")
		require.NotZero(t, cancelled.Load())
		require.LessOrEqual(t, got.Load(), int64(permits))
	})
}

// A permit that nobody waits for any more goes with the semaphore from which it was taken, and makes no new one.
func TestAPermitThatComesBackTooLateMakesNoSemaphore(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *semaphore.Semaphore, ctx context.Context) (bool, error){
		"deleted": (*semaphore.Semaphore).Delete,
		"expired": func(p *semaphore.Semaphore, ctx context.Context) (bool, error) {
			return p.Expire(ctx, time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			p := kit.NewPool(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 20 * time.Second}), 2)
			require.NoError(t, p.Acquire(t.Context(), 1)) // now the scripts and the server's clock are known
			require.NoError(t, p.Release(t.Context(), 1))
			attempt := proxied.On(kit.ScriptNamed("semaphore_acquire"), proxy.HoldReply, proxy.First)
			back := proxied.On(kit.ScriptNamed("semaphore_add"), proxy.Pass, proxy.First)
			ctx, cancel := context.WithCancel(t.Context())
			got := goAcquire(ctx, p, 1)
			attempt.Wait(t, 1)
			cancel()
			require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the end"), context.Canceled)
			was, err := end(semaphore.New(kit.Open(t, srv.Addr(), nil), "pool"), t.Context())
			require.NoError(t, err)
			require.True(t, was)
			kit.Await(t, "its end", func() bool { return srv.Int(t, "EXISTS", "pool") == 0 })
			attempt.Release()
			back.WaitAnswered(t, 1)
			require.Zero(t, srv.Int(t, "EXISTS", "pool"))
			made, err := p.TrySetPermits(t.Context(), 5)
			require.NoError(t, err)
			require.True(t, made, "there is another one already")
		})
	}
}

// The error of an attempt without a reply differs from others, and what the attempt takes comes back.
func TestAnAttemptWithoutAReplySaysSo(t *testing.T) {
	t.Parallel()
	const lease = 18 * time.Second // a connection may be silent for a sixth of it; else the reply is lost
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: lease})
	p, e := kit.NewPool(t, s, 2), kit.NewExports(t, s, 1, lease/2)
	require.NoError(t, p.Acquire(t.Context(), 2)) // now the scripts and the server's clock are known
	require.NoError(t, p.Release(t.Context(), 2))
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Release())
	for name, take := range map[string]func() error{
		"TryAcquireFor":        func() error { return p.TryAcquireFor(t.Context(), 2, lease/30) },
		"Expirable.TryAcquire": func() error { return kit.ErrorOf(e.TryAcquire(t.Context())) },
	} {
		held := proxied.On(proxy.Command("EVALSHA"), proxy.HoldReply, proxy.First)
		err := take()
		held.Release()
		require.ErrorIs(t, err, holdfast.ErrNoReply, name)
		require.Equal(t, name == "Expirable.TryAcquire", errors.Is(err, holdfast.ErrUnknown), name)
		for _, other := range []error{holdfast.ErrBusy, context.DeadlineExceeded} {
			require.NotErrorIs(t, err, other, name)
		}
		kit.Await(t, "the permits", func() bool {
			return srv.Str(t, "GET", "pool") == "2" && srv.Str(t, "GET", "exports") == "1"
		})
	}
}

// Nobody can tell a second copy of such a call from a second call, so no copy is ever sent.
func TestALostReplyOfASemaphoreIsUnknown(t *testing.T) {
	t.Parallel()
	for verb, c := range map[string]struct {
		do  func(ctx context.Context, p *semaphore.Semaphore) error
		ran int // how many permits are free after it was executed
	}{
		"acquire": {func(ctx context.Context, p *semaphore.Semaphore) error { return p.Acquire(ctx, 1) }, 4},
		"add":     {func(ctx context.Context, p *semaphore.Semaphore) error { return p.Release(ctx, 1) }, 6},
		"drain": {func(ctx context.Context, p *semaphore.Semaphore) error {
			_, err := p.DrainPermits(ctx)
			return err
		}, 0},
	} {
		for name, a := range map[string]struct {
			action proxy.Action
			ran    bool
			known  bool
		}{
			"reply lost": {proxy.DropReply, true, false}, "never executed": {proxy.ResetBefore, false, false},
			"nothing happens": {proxy.Pass, true, true},
		} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				_, proxied := kit.StartProxied(t)
				p := kit.NewPool(t, kit.Open(t, proxied.Addr(), nil), 5)
				require.NoError(t, p.Acquire(t.Context(), 1))
				require.NoError(t, p.Release(t.Context(), 1))
				rule := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, verb), a.action, proxy.First)
				err := c.do(t.Context(), p)
				if a.known {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, holdfast.ErrUnknown)
				}
				require.Equal(t, 1, rule.Matched())
				if a.ran {
					free(t, p, c.ran)
				} else {
					free(t, p, 5)
				}
			})
		}
	}
	t.Run("a passing refusal is waited out", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		proxied := proxy.Start(t, srv.Addr())
		p := kit.NewPool(t, kit.Open(t, proxied.Addr(), nil), 5)
		for _, verb := range []string{"acquire", "add"} {
			proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, verb), proxy.Answer(kit.LoadingReply), proxy.First)
		}
		require.NoError(t, p.Acquire(t.Context(), 1))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, p.Release(ended, 1), "it is sent all the same")
		free(t, p, 5)
	})
}

// An attempt that is executed when nobody can wait for it any more takes nothing.
func TestAnAttemptForPermitsThatComesTooLateTakesNone(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	p := kit.NewPool(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: lease}), 2)
	require.NoError(t, p.Acquire(t.Context(), 1))
	attempt := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), proxy.Stall, proxy.First)
	result := goAcquire(context.Background(), p, 1)
	attempt.Wait(t, 1)
	sent := time.Now()
	require.ErrorIs(t, kit.Within(t, lease, result, "the end"), holdfast.ErrUnknown)
	kit.SleepUntil(sent.Add(lease/3 + 10*time.Millisecond))
	attempt.Release()
	attempt.WaitAnswered(t, 1)
	require.Equal(t, "1", srv.Str(t, "GET", "pool"))
}

// However long a server takes to answer, what a cancelled wait got of it goes back, and a wait that is not cancelled
// goes on.
func TestASlowServerEatsNoPermit(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]bool{"cancelled": true, "not cancelled": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
			kit.Pipeline(t, s) // directly, a reply may take no longer than a release
			p := kit.NewPool(t, s, 1)
			require.NoError(t, p.Acquire(t.Context(), 1))
			require.NoError(t, p.Release(t.Context(), 1))
			srv.Do(t, "CLIENT", "PAUSE", "6000", "WRITE") // longer than a release may take
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := goAcquire(ctx, p, 1)
			if !cancelled {
				require.NoError(t, kit.Within(t, 10*time.Second, result, "the permit"))
				return
			}
			kit.SleepUntil(time.Now().Add(50 * time.Millisecond)) // time for it to be sent
			cancel()
			require.ErrorIs(t, kit.Within(t, time.Second, result, "the end"), context.Canceled)
			srv.Do(t, "CLIENT", "UNPAUSE")
			kit.Await(t, "the permit", func() bool { return srv.Str(t, "GET", "pool") == "1" })
		})
	}
}

// What is granted while the session closes goes back, too, even if the server refuses it for long.
func TestWhatNobodyTakesGoesBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, s *holdfast.Session, p *proxy.Proxy, cancel func(),
		attempt *proxy.Rule){
		"the session is closed": func(t *testing.T, s *holdfast.Session, _ *proxy.Proxy, _ func(),
			attempt *proxy.Rule,
		) {
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
			attempt.Release()
			require.NoError(t, kit.Within(t, 5*time.Second, closed, "the end of the session"))
		},
		"the server is loading": func(t *testing.T, _ *holdfast.Session, p *proxy.Proxy, cancel func(),
			attempt *proxy.Rule,
		) {
			refused := p.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "add"), proxy.Answer(kit.LoadingReply),
				proxy.EveryTime)
			cancel()
			kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
			attempt.Release()
			kit.SleepUntil(time.Now().Add(1500 * time.Millisecond)) // longer than a release may take
			refused.Remove()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			s := kit.Open(t, proxied.Addr(), nil)
			p := kit.NewPool(t, s, 1)
			require.NoError(t, p.Acquire(t.Context(), 1))
			require.NoError(t, p.Release(t.Context(), 1))
			attempt := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), proxy.HoldReply, proxy.First)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			result := goAcquire(ctx, p, 1)
			attempt.Wait(t, 1)
			end(t, s, proxied, cancel, attempt)
			require.Error(t, kit.Within(t, time.Second, result, "the end"))
			kit.Await(t, "the permit", func() bool { return srv.Str(t, "GET", "pool") == "1" })
		})
	}
}

// The reply of an attempt is lost when its caller has gone: the permits may be missing for good, and the log says so.
func TestPermitsThatACancelledCallMayHaveTakenAreToldOf(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	proxied := proxy.Start(t, srv.Addr())
	opts := &holdfast.Options{Lease: 9 * time.Second, Logger: log.JsonLogger()}
	p := kit.NewPool(t, kit.Open(t, proxied.Addr(), opts), 2)
	require.NoError(t, p.Acquire(t.Context(), 2)) // now the scripts and the server's clock are known
	require.NoError(t, p.Release(t.Context(), 2))
	attempt := proxied.On(kit.ScriptOf(kit.Kind{Name: "semaphore"}, "acquire"), proxy.HoldReply, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	result := goAcquire(ctx, p, 1)
	attempt.WaitAnswered(t, 1)
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.Told, result, "the end"), context.Canceled)
	require.Empty(t, log.String(), "it may come yet")
	attempt.Conns()[0].Cut()
	kit.Await(t, "a warning", func() bool {
		return len(log.Entries(t, "holdfast: what was to be given back may be lost")) == 1
	})
	require.Equal(t, "1", srv.Str(t, "GET", "pool"))
}

// A drain that the server executes late takes no permits: nobody would know how many to give back.
func TestALateDrainTakesNothing(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	_, proxied := kit.StartProxied(t)
	p := kit.NewPool(t, kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: lease}), 2)
	require.Equal(t, 2, valueOf(p.DrainPermits(t.Context()))) // now the session knows the server's clock
	require.NoError(t, p.Release(t.Context(), 2))
	drains := proxied.On(kit.ScriptNamed("semaphore_drain"), proxy.Stall, proxy.First)
	kit.GiveUp(t, drains, func(ctx context.Context) error { return kit.ErrorOf(p.DrainPermits(ctx)) })
	kit.SleepUntil(time.Now().Add(lease/3 + 10*time.Millisecond))
	drains.Release()
	drains.WaitAnswered(t, 1)
	free(t, p, 2)
}
