package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A lookout counts what an observer is told, as "<kind> <what>".
type lookout struct {
	mu   sync.Mutex // guards the rest
	told map[string]int
	last holdfast.Acquired // of the calls that succeeded
	of   holdfast.Subject  // that one
}

func (o *lookout) note(of holdfast.Subject, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told == nil {
		o.told = make(map[string]int)
	}
	o.told[of.Kind+" "+fmt.Sprintf(format, args...)]++
}

// once is noted the first time, and as a mistake from then on.
func (o *lookout) once(of holdfast.Subject) func(format string, args ...any) {
	var told atomic.Bool
	return func(format string, args ...any) {
		if told.Swap(true) {
			format = "TWICE " + format
		}
		o.note(of, format, args...)
	}
}

// observer tells the lookout everything.
func (o *lookout) observer() *holdfast.Observer {
	return &holdfast.Observer{
		Acquire: func(_ context.Context, of holdfast.Subject) func(holdfast.Acquired) {
			o.note(of, "acquire")
			once := o.once(of)
			return func(a holdfast.Acquired) {
				once("acquired %s", in(a.Err))
				if a.Err == nil {
					o.mu.Lock()
					defer o.mu.Unlock()
					o.last, o.of = a, of
				}
			}
		},
		Attempt: func(of holdfast.Subject, a holdfast.Attempt) { o.note(of, "attempt %s", in(a.Err)) },
		Wait: func(of holdfast.Subject) func() {
			o.note(of, "wait")
			once := o.once(of)
			return func() { once("waited") }
		},
		WakeUp: func(of holdfast.Subject, by holdfast.WakeUp) { o.note(of, "woken by %s", by) },
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			o.note(of, "hold")
			once := o.once(of)
			return func(e holdfast.Ended) {
				if e.Held <= 0 {
					once("ended at once")
				}
				once("ended %s", in(e.Err))
			}
		},
		Renewal: func(of holdfast.Subject, err error) { o.note(of, "renewal %s", in(err)) },
	}
}

// in is an error in a word.
func in(err error) string {
	switch {
	case err == nil:
		return "well"
	case errors.Is(err, holdfast.ErrBusy):
		return "busy"
	case errors.Is(err, holdfast.ErrLost):
		return "lost"
	case errors.Is(err, holdfast.ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "badly"
}

// counts are what was told of a kind.
func (o *lookout) counts(kind string) map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := make(map[string]int)
	for what, n := range o.told {
		if what, ok := strings.CutPrefix(what, kind+" "); ok {
			of[what] = n
		}
	}
	return of
}

// sum is how often that was told, of whatever kind.
func (o *lookout) sum(what string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for told, times := range o.told {
		if strings.HasSuffix(told, " "+what) {
			n += times
		}
	}
	return n
}

// requireTold waits until exactly that was told of a kind.
func (o *lookout) requireTold(t *testing.T, kind string, want map[string]int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !maps.Equal(o.counts(kind), want) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	require.Equal(t, want, o.counts(kind), kind)
}

// requireBalance waits until whatever has begun has ended, and requires that it did once.
func (o *lookout) requireBalance(t *testing.T) {
	t.Helper()
	ended := func() int { return o.sum("ended well") + o.sum("ended lost") + o.sum("ended closed") }
	acquired := func() (n int) {
		for _, how := range []string{"well", "busy", "lost", "closed", "cancelled", "badly"} {
			n += o.sum("acquired " + how)
		}
		return n
	}
	kit.Await(t, "the end of everything", func() bool {
		return o.sum("hold") == ended() && o.sum("wait") == o.sum("waited") && o.sum("acquire") == acquired()
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	for what := range o.told {
		require.NotContains(t, what, "TWICE")
		require.NotContains(t, what, "at once")
	}
}

// told is what an observer is told if this happens, and attempts of who asks.
func told(k kit.Kind, what, attempts map[string]int) map[string]int {
	all := maps.Clone(what)
	if k.Asks() {
		maps.Copy(all, attempts)
	}
	return all
}

func observed(t *testing.T, srv *redistest.Server, lease time.Duration) (*lookout, *holdfast.Session) {
	t.Helper()
	o := &lookout{}
	return o, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease, Observer: o.observer()})
}

func TestObserverOfAFreeLock(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		l := k.Make(s, "orders", 0)
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
	})
}

func TestObserverOfALockThatIsTaken(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), "orders", 0))
		_, err := k.Make(s, "orders", 0).TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		o.requireTold(t, k.Title(), told(k, map[string]int{"acquire": 1, "acquired busy": 1}, map[string]int{"attempt busy": 1}))
		o.requireBalance(t)
		require.NoError(t, hold.Release())
	})
}

func TestObserverOfAWaitThatAReleaseEnds(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), "orders", 0))
		got := kit.GoLock(t.Context(), k.Make(s, "orders", 0).Lock)
		kit.Await(t, "a wait", func() bool { return o.sum("wait") > o.sum("waited") })
		kit.Waiting(t, k, srv)
		require.NoError(t, hold.Release())
		r := kit.Within(t, kit.LongestWait, got, "the lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
		o.requireBalance(t)
		if !k.Polls && !k.OneString && k.Most == nil { // those may look in the very moment
			require.Positive(t, o.sum("woken by message"))
		}
		told := o.counts(k.Title())
		require.Equal(t, 1, told["acquired well"])
		require.Equal(t, 1, told["hold"])
		if !k.Several {
			require.Equal(t, o.last.Attempts, told["attempt well"]+told["attempt busy"])
			require.Equal(t, 1, told["wait"])
		}
	})
}

func TestObserverOfAWaitThatATimerEnds(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), "orders", time.Second))
		require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, "orders", 0)).Release())
		require.Positive(t, o.sum("woken by timer"))
		o.requireBalance(t)
	})
}

// Whoever is first in a session and goes makes the next one first.
func TestObserverOfTurns(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, 3*time.Second)
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

func TestObserverOfAWaitThatIsCancelled(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), "orders", 0))
		ctx, cancel := context.WithCancel(t.Context())
		got := kit.GoLock(ctx, k.Make(s, "orders", 0).Lock)
		kit.Await(t, "a wait", func() bool { return o.sum("wait") > 0 })
		cancel()
		require.ErrorIs(t, kit.Within(t, kit.LongestWait, got, "the end").Err, context.Canceled)
		require.Equal(t, 1, o.counts(k.Title())["acquired cancelled"])
		o.requireBalance(t)
		require.NoError(t, hold.Release())
	})
}

func TestObserverOfNestedHolds(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		if !k.Reentrant {
			return
		}
		o, s := observed(t, srv, 3*time.Second)
		l := k.Make(s, "orders", 0)
		outer := kit.Lock(t, t.Context(), l)
		inner := kit.Lock(t, outer.Context(t.Context()), l)
		require.Equal(t, 2, o.counts(k.Title())["hold"])
		require.NoError(t, inner.Release())
		require.Equal(t, 1, o.counts(k.Title())["ended well"])
		require.NoError(t, outer.Release())
		told := o.counts(k.Title())
		require.Equal(t, []int{2, 2, 2, 2}, []int{told["acquire"], told["acquired well"], told["hold"], told["ended well"]})
		o.requireBalance(t)
	})
}

func TestObserverOfDetachedHolds(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, "orders", 0)).Detach())
		require.Equal(t, 1, o.counts(k.Title())["ended well"])
		o.requireBalance(t)
	})
}

func TestObserverOfALoss(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, k kit.Kind, srv *redistest.Server){
		"dropped": func(t *testing.T, k kit.Kind, srv *redistest.Server) { k.Wipe(t, srv, "orders") },
		"paused":  func(_ *testing.T, _ kit.Kind, srv *redistest.Server) { srv.Pause() },
	} {
		t.Run(what, func(t *testing.T) {
			kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
				o, s := observed(t, srv, time.Second)
				hold := kit.Lock(t, t.Context(), k.Make(s, "orders", 0))
				ctx := hold.Context(t.Context())
				harm(t, k, srv)
				kit.Within(t, 5*time.Second, ctx.Done(), "the loss")
				kit.Await(t, "word of it", func() bool { return o.counts(k.Title())["ended lost"] == 1 })
				srv.Resume()
				require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
				o.requireBalance(t)
				require.Equal(t, 1, o.counts(k.Title())["ended lost"])
				kit.Await(t, "word of a renewal without a reply, or that found nothing", func() bool { return o.sum("renewal badly") > 0 })
			})
		})
	}
}

// A loss that nobody has noticed before is one for those who watch, too.
func TestObserverOfALossThatTheReleaseFinds(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, time.Minute)
		hold := kit.Lock(t, t.Context(), k.Make(s, "orders", 0))
		k.Wipe(t, srv, "orders")
		require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
		require.Equal(t, 1, o.counts(k.Title())["ended lost"])
		o.requireBalance(t)
	})
}

func TestObserverOfRenewals(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, time.Second)
		hold := kit.Lock(t, t.Context(), k.Make(s, "orders", 0))
		kit.Await(t, "renewals", func() bool { return o.sum("renewal well") >= 2 })
		require.NoError(t, hold.Release())
		require.Zero(t, o.sum("renewal badly"))
		o.requireBalance(t)
	})
}

func TestObserverOfAnEndOfTheSession(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		o, s := observed(t, srv, 3*time.Second)
		hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), "taken", 0))
		got := kit.GoLock(t.Context(), k.Make(s, "taken", 0).Lock)
		kit.Lock(t, t.Context(), k.Make(s, "held", 0))
		kit.Await(t, "a wait", func() bool { return o.sum("wait") > 0 })
		require.NoError(t, s.Close())
		require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the end").Err, holdfast.ErrClosed)
		o.requireBalance(t)
		require.Equal(t, 1, o.counts(k.Title())["acquired closed"])
		require.Equal(t, 1, o.counts(k.Title())["ended closed"])
		require.NoError(t, hold.Release())
	})
}

func TestObserverOfASemaphore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, 3*time.Second)
	p := semaphore.New(s, "permits")
	_, err := p.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Acquire(t.Context(), 1))
	require.ErrorIs(t, p.TryAcquire(t.Context(), 1), holdfast.ErrBusy)
	o.requireTold(t, "semaphore", map[string]int{
		"acquire": 2, "acquired well": 1, "acquired busy": 1, "attempt well": 1, "attempt busy": 1,
	})
	got := make(chan error, 1)
	go func() { got <- p.Acquire(t.Context(), 1) }()
	kit.Await(t, "a wait", func() bool { return o.sum("wait") == 1 })
	require.NoError(t, p.Release(t.Context(), 1))
	require.NoError(t, kit.Within(t, kit.LongestWait, got, "the permit"))
	require.Positive(t, o.sum("woken by message"))
	o.requireBalance(t)
}

func TestObserverOfSeveralPermits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, 3*time.Second)
	p := semaphore.NewExpirable(s, "permits", nil)
	_, err := p.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	holds, err := p.AcquireN(t.Context(), 3)
	require.NoError(t, err)
	for _, h := range holds {
		require.NoError(t, h.Release())
	}
	o.requireTold(t, "semaphore.Expirable", map[string]int{
		"acquire": 1, "acquired well": 1, "attempt well": 1, "hold": 3, "ended well": 3,
	})
}

func TestObserverOfALatch(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, 3*time.Second)
	l := latch.New(s, "ready")
	_, err := l.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	const callers = 3
	got := make(chan error, callers)
	for range callers {
		go func() { got <- l.Wait(t.Context()) }()
	}
	kit.Await(t, "waits", func() bool { return o.sum("wait") == callers })
	require.NoError(t, l.CountDown(t.Context()))
	for range callers {
		require.NoError(t, kit.Within(t, kit.LongestWait, got, "the opening"))
	}
	told := o.counts("latch")
	delete(told, "woken by message") // they look together
	require.Equal(t, map[string]int{"acquire": callers, "acquired well": callers, "wait": callers, "waited": callers}, told)
}

// Any of the functions may be missing, and what they return, too.
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
	for what := range all(&lookout{}) {
		t.Run(what, func(t *testing.T) {
			kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
				if k.Twin || k.Queues || k.Polls || k.OneString {
					return // they are told of by the same code as others
				}
				o := &lookout{}
				s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Second, Observer: all(o)[what]})
				hold := kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), "orders", 0))
				got := kit.GoLock(t.Context(), k.Make(s, "orders", 0).Lock)
				kit.Waiting(t, k, srv)
				require.NoError(t, hold.Release())
				r := kit.Within(t, kit.LongestWait, got, "the lock")
				require.NoError(t, r.Err)
				trusted := r.Hold.Deadline()
				kit.Await(t, "a renewal", func() bool {
					return r.Hold.Deadline().After(trusted) && (what != "renewal" || o.sum("renewal well") > 0)
				})
				require.NoError(t, r.Hold.Release())
				o.mu.Lock()
				defer o.mu.Unlock()
				for told := range o.told {
					require.Contains(t, words[what], strings.Fields(told)[1], told)
				}
				if words[what] != nil {
					require.NotEmpty(t, o.told)
				}
			})
		})
	}
}

// However a loss, a release and an end of the session cross, the end of a hold is told once.
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
		if i%3 == 0 { // which stays taken
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

// Without an observer nothing is paid for one.
func TestAllocationsOfAnObserver(t *testing.T) {
	srv := redistest.Start(t)
	cost := func(observer *holdfast.Observer) float64 {
		l := rlock.New(kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute, Observer: observer}), "orders", nil)
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
		return testing.AllocsPerRun(1000, cycle)
	}
	none, empty, all := cost(nil), cost(&holdfast.Observer{}), cost((&lookout{}).observer())
	t.Logf("allocations of a lock and release: %v, with an empty observer %v, with one that counts %v", none, empty, all)
	if kit.Racing() { // pools forget now and then
		assert.InDelta(t, none, empty, 1)
		return
	}
	assert.Equal(t, none, empty)
	assert.LessOrEqual(t, none, 4.0)
}
