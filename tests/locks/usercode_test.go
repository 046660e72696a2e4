package locks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A saboteur, once armed, does something to the first caller of an observer's function.
type saboteur struct {
	function string
	kind     string // the kind of lock it waits for; "" for any
	armed    atomic.Bool
	struck   atomic.Bool
	do       func()
	waits    atomic.Int32 // calls that have begun to wait
}

func (s *saboteur) strike(function string, of holdfast.Subject) {
	if function == s.function && (s.kind == "" || s.kind == of.Kind) && s.armed.CompareAndSwap(true, false) {
		s.struck.Store(true)
		s.do()
	}
}

func (s *saboteur) observer() *holdfast.Observer {
	return &holdfast.Observer{
		Acquire: func(_ context.Context, of holdfast.Subject) func(holdfast.Acquired) {
			s.strike("Acquire", of)
			return func(holdfast.Acquired) { s.strike("Acquired", of) }
		},
		Attempt: func(of holdfast.Subject, _ holdfast.Attempt) { s.strike("Attempt", of) },
		Wait: func(of holdfast.Subject) func() {
			s.strike("Wait", of)
			s.waits.Add(1)
			return func() { s.strike("Waited", of) }
		},
		WakeUp: func(of holdfast.Subject, _ holdfast.WakeUp) { s.strike("WakeUp", of) },
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			s.strike("Hold", of)
			return func(holdfast.Ended) { s.strike("Ended", of) }
		},
		Renewal: func(of holdfast.Subject, _ error) { s.strike("Renewal", of) },
	}
}

// goSabotaged calls f in a goroutine and tells when that has ended: true if f returned.
func goSabotaged(f func()) <-chan bool {
	ended := make(chan bool, 1)
	go func() {
		back := false
		defer func() {
			_ = recover() // as net/http does
			ended <- back
		}()
		f()
		back = true
	}()
	return ended
}

// lockAndRelease takes a lock and gives it back at once.
func lockAndRelease(ctx context.Context, l kit.Locker) error {
	hold, err := l.Lock(ctx)
	if err == nil {
		err = hold.Release()
	}
	return err
}

// oneOfTwo lets two calls wait, of which the saboteur ends one. It requires that the other one gets what it wants
// when release is called.
func (s *saboteur) oneOfTwo(t *testing.T, take, release func() error) {
	t.Helper()
	errs := make(chan error, 2)
	wait := func() <-chan bool { return goSabotaged(func() { errs <- take() }) }
	s.armed.Store(true)
	first := wait()
	kit.Await(t, "the first", func() bool { return s.struck.Load() || s.waits.Load() > 0 })
	second := wait()
	require.NoError(t, release())
	require.NoError(t, kit.Within(t, kit.LongestWait, errs, "the one that has not been ended"))
	require.NotEqual(t, kit.Within(t, kit.LongestWait, first, "the end of the first"),
		kit.Within(t, kit.LongestWait, second, "the end of the second"))
	require.True(t, s.struck.Load())
}

var (
	sabotages = map[string]func(){
		"panic":  func() { panic("sabotage") },
		"Goexit": runtime.Goexit,
	}
	// It does so for a call that gets what it wants at once, and for one that has to wait.
	functionsOfACall = []string{"Acquire", "Attempt", "Hold", "Acquired"}
	functionsOfAWait = []string{"Acquire", "Attempt", "Wait", "WakeUp", "Waited", "Hold", "Acquired"}
)

// titles returns the kinds that are tested, of those that an observer is told about.
func titlesOf(k kit.Kind) []string {
	switch {
	case k.Most != nil: // several goroutines ask the members, and nobody could recover in them
		return []string{k.Title()}
	case k.Several:
		return []string{"", k.Title()}
	}
	return []string{""}
}

// asked reports whether an observer of the kind is told of that by the function.
func asked(k kit.Kind, function, title string) bool {
	switch {
	case k.Title() != title:
		return true
	case function == "Attempt":
		return k.Asks()
	case function == "Wait" || function == "Waited" || function == "WakeUp":
		return k.Together || k.Most != nil || !k.Several
	}
	return true
}

// eachSabotage runs test for each way of ending a call, from each of the functions.
func eachSabotage(t *testing.T, k kit.Kind, functions []string,
	test func(t *testing.T, name string, saboteur *saboteur),
) {
	for how, do := range sabotages {
		for _, function := range functions {
			for _, title := range titlesOf(k) {
				if !asked(k, function, title) {
					continue
				}
				t.Run(fmt.Sprint(how, " in ", function, " of ", title), func(t *testing.T) {
					test(t, fmt.Sprint(how, function, title), &saboteur{function: function, kind: title, do: do})
				})
			}
		}
	}
}

// The observer's code runs inside a call, and may end it. Then nobody has what the call was granted.
func TestACallThatAnObserverEndsLeavesNothing(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		others := kit.Open(t, srv.Addr(), nil)
		eachSabotage(t, k, functionsOfACall, func(t *testing.T, name string, saboteur *saboteur) {
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: saboteur.observer()})
			l, rival := k.Make(s, name, 0), k.Rival(others, name, 0)
			saboteur.armed.Store(true)
			ended := goSabotaged(func() { _, _ = l.TryLock(t.Context()) })
			require.False(t, kit.Within(t, kit.LongestWait, ended, "the end of the call"))
			require.True(t, saboteur.struck.Load())
			requireNothingLeft(t, s, l, rival)
		})
	})
}

func TestAWaitThatAnObserverEndsLeavesNothing(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		others := kit.Open(t, srv.Addr(), nil)
		eachSabotage(t, k, functionsOfAWait, func(t *testing.T, name string, saboteur *saboteur) {
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute, Observer: saboteur.observer()})
			l, rival := k.Make(s, name, 0), k.Rival(others, name, 0)
			if k.Queues { // a dead waiter would stay there for long
				l = fairlock.New(s, name, &fairlock.Options{WaiterLease: time.Hour})
			}
			held := kit.Lock(t, t.Context(), rival)
			take := func() error { return lockAndRelease(t.Context(), l) }
			saboteur.oneOfTwo(t, take, held.Release)
			requireNothingLeft(t, s, l, rival)
		})
	})
}

// requireNothingLeft requires that others and its own session soon get the lock, and that the session then closes
// well.
func requireNothingLeft(t *testing.T, s *holdfast.Session, l, rival kit.Locker) {
	t.Helper()
	for _, l := range []kit.Locker{rival, l} {
		var hold *holdfast.Hold
		kit.AwaitFor(t, kit.LongestWait, "the lock", func() (got bool) { // sooner than anybody is taken for dead
			h, err := l.TryLock(t.Context())
			hold = h
			return err == nil
		})
		require.NoError(t, hold.Release())
	}
	require.NoError(t, s.Close())
}

// The end of a hold is told after everything that has to be done about it.
func TestAnEndThatAnObserverInterruptsIsAnEnd(t *testing.T) {
	ends := map[string]func(s *holdfast.Session, h *holdfast.Hold){
		"release": func(_ *holdfast.Session, h *holdfast.Hold) { _ = h.Release() },
		"detach":  func(_ *holdfast.Session, h *holdfast.Hold) { _ = h.Detach() },
		"close":   func(s *holdfast.Session, _ *holdfast.Hold) { _ = s.Close() },
	}
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		others := kit.Open(t, srv.Addr(), nil)
		for what, end := range ends {
			if what == "close" && k.Several {
				continue // its members end, and a separate goroutine tells of that
			}
			eachSabotage(t, k, []string{"Ended"}, func(t *testing.T, name string, saboteur *saboteur) {
				name += what
				s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: saboteur.observer()})
				fixed := time.Duration(0)
				if what == "detach" { // others wait until the lease has ended
					fixed = 2 * time.Second
				}
				hold := kit.Lock(t, t.Context(), k.Make(s, name, fixed))
				other := kit.Lock(t, t.Context(), rlock.New(s, name+" other", nil))
				ctx := hold.Context(t.Context())
				saboteur.armed.Store(true)
				ended := goSabotaged(func() { end(s, hold) })
				back := kit.Within(t, kit.LongestWait, ended, what)
				if !k.Several || saboteur.kind != "" { // otherwise it may have ended the goroutine of a member
					require.False(t, back)
				}
				require.Error(t, hold.Err())
				require.Error(t, ctx.Err())
				if what != "close" {
					require.NoError(t, other.Err())
				}
				require.NoError(t, s.Close())
				for _, l := range []kit.Locker{k.Rival(others, name, 0), rlock.New(others, name+" other", nil)} {
					h := kit.Lock(t, t.Context(), l)
					require.NoError(t, h.Release())
				}
			})
		}
	})
}

func TestPermitsThatAnObserverInterruptsComeBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	k := kit.Kind{Name: "semaphore"}
	others := kit.Open(t, srv.Addr(), nil)
	for _, waits := range []bool{false, true} {
		functions := []string{"Acquire", "Attempt", "Acquired"}
		if waits {
			functions = []string{"Acquire", "Attempt", "Wait", "WakeUp", "Waited", "Acquired"}
		}
		eachSabotage(t, k, functions, func(t *testing.T, name string, saboteur *saboteur) {
			name += fmt.Sprint(waits)
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: saboteur.observer()})
			p, rival := semaphore.New(s, name), semaphore.New(others, name)
			_, err := rival.TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
			saboteur.armed.Store(true)
			if !waits {
				ended := goSabotaged(func() { _ = p.TryAcquire(t.Context(), 1) })
				require.False(t, kit.Within(t, kit.LongestWait, ended, "the end of the call"))
			} else {
				require.NoError(t, rival.Acquire(t.Context(), 1))
				take := func() error {
					if err := p.Acquire(t.Context(), 1); err != nil {
						return err
					}
					return p.Release(t.Context(), 1)
				}
				saboteur.oneOfTwo(t, take, func() error { return rival.Release(t.Context(), 1) })
			}
			require.True(t, saboteur.struck.Load())
			kit.Await(t, "the permit", func() bool {
				n, err := rival.AvailablePermits(t.Context())
				return err == nil && n == 1
			})
			require.NoError(t, s.Close())
		})
	}
}

func TestAWaitThatABackoffEndsLeavesNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	others := kit.Open(t, srv.Addr(), nil)
	for how, do := range sabotages {
		t.Run(how, func(t *testing.T) {
			s := kit.Open(t, srv.Addr(), nil)
			rival := rlock.New(others, how, nil)
			held := kit.Lock(t, t.Context(), rival)
			l := rlock.New(s, how, &rlock.Options{Backoff: func(int) time.Duration {
				do()
				return time.Millisecond
			}})
			require.False(t, kit.Within(t, kit.LongestWait,
				goSabotaged(func() { _, _ = l.Lock(t.Context()) }), "the end"))
			behind := kit.GoLock(t.Context(), rlock.New(s, how, nil).Lock)
			require.NoError(t, held.Release())
			require.NoError(t, kit.Within(t, kit.LongestWait, behind, "the lock").Hold.Release())
			requireNothingLeft(t, s, rlock.New(s, how, nil), rival)
		})
	}
}

// A saboteurHandler does something when a line is logged.
type saboteurHandler struct {
	slog.Handler
	line string
	do   func()
}

func (h *saboteurHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.line {
		h.do()
	}
	return nil
}

func (h *saboteurHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *saboteurHandler) Enabled(context.Context, slog.Level) bool { return true }

func TestAWaitThatALogHandlerEndsLeavesNothing(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		if k.Several {
			return
		}
		for how, do := range sabotages {
			var armed atomic.Bool
			handler := &saboteurHandler{line: "holdfast: waiting for the server", do: func() {
				if armed.CompareAndSwap(true, false) {
					do()
				}
			}}
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second, Logger: slog.New(handler)})
			kit.Lock(t, t.Context(), k.Rival(kit.Open(t, srv.Addr(), nil), how, time.Hour)) // the restart frees it
			l := k.Make(s, how, 0)
			armed.Store(true)
			ended := goSabotaged(func() { _, _ = l.Lock(t.Context()) })
			kit.Waiting(t, k, srv)
			srv.Stop()
			require.False(t, kit.Within(t, kit.LongestWait, ended, "the end of the call"), how)
			srv.Restart()
			behind := kit.GoLock(t.Context(), k.Make(s, how, 0).Lock)
			require.NoError(t, kit.Within(t, kit.LongestWait, behind, "the lock of the one behind").Hold.Release())
			require.NoError(t, s.Close())
		}
	})
}

func TestWorkThatEndsItsGoroutineGivesBack(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		for how, do := range sabotages {
			s := kit.Open(t, srv.Addr(), nil)
			l := k.Make(s, how, 0)
			ended := goSabotaged(func() {
				_ = holdfast.Do(t.Context(), l.Lock, func(context.Context) error {
					do()
					return nil
				})
			})
			require.False(t, kit.Within(t, kit.LongestWait, ended, "the work"))
			requireNothingLeft(t, s, l, k.Rival(kit.Open(t, srv.Addr(), nil), how, 0))
		}
	})
}

// A session goes on hearing whatever a handler does that is told that it does not.
func TestAWaiterHearsThoughALogHandlerHangs(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	defer close(free)
	for how, do := range map[string]func(){"Goexit": runtime.Goexit, "blocks": func() { <-free }} {
		srv, struck := redistest.Start(t), make(chan struct{}, 100)
		handler := &saboteurHandler{line: "holdfast: subscriptions interrupted", do: func() {
			struck <- struct{}{}
			do()
		}}
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Logger: slog.New(handler)})
		held := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), how, nil))
		got := kit.GoLock(t.Context(), rlock.New(s, how, nil).Lock)
		kit.Waiting(t, kit.KindOf("rlock"), srv)
		srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		kit.Within(t, kit.LongestWait, struck, "the call of the handler")
		kit.Await(t, how+": the next subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
		require.NoError(t, held.Release())
		require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the lock").Release())
	}
}
