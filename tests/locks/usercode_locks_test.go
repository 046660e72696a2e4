package locks

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A blocker is user code that does not return until it is let go.
type blocker struct {
	saboteur
	blocked chan struct{}
	letGo   chan struct{}
}

func newBlocker(t *testing.T, function string) *blocker {
	b := &blocker{blocked: make(chan struct{}), letGo: make(chan struct{})}
	b.function = function
	b.do = func() {
		close(b.blocked)
		<-b.letGo
	}
	t.Cleanup(func() { close(b.letGo) })
	return b
}

// logger returns a logger that blocks at the line named by its function.
func (b *blocker) logger() *slog.Logger {
	return slog.New(&saboteurHandler{line: b.function, do: func() { b.strike(b.function, holdfast.Subject{}) }})
}

// While an observer or a log handler takes its time, nobody else has to wait: it runs without a mutex, and without a
// turn.
func TestNobodyWaitsForCodeOfTheUsers(t *testing.T) {
	t.Parallel()
	// Each of these makes the session tell something; a name is held by another session where one must be.
	type scene func(t *testing.T, s *holdfast.Session, srv *redistest.Server, held *holdfast.Hold)
	drop := func(t *testing.T, s *holdfast.Session, srv *redistest.Server, _ *holdfast.Hold) {
		_, err := rlock.New(s, "own", nil).TryLock(t.Context())
		require.NoError(t, err)
		srv.Do(t, "DEL", "own")
	}
	wait := func(t *testing.T, s *holdfast.Session, _ *redistest.Server, _ *holdfast.Hold) {
		go func() { _, _ = rlock.New(s, "taken", nil).Lock(t.Context()) }()
	}
	waitAndGet := func(t *testing.T, s *holdfast.Session, srv *redistest.Server, held *holdfast.Hold) {
		wait(t, s, srv, held)
		kit.Waiting(t, kit.Kinds[0], srv)
		require.NoError(t, held.Release())
	}
	take := func(t *testing.T, s *holdfast.Session, _ *redistest.Server, _ *holdfast.Hold) {
		go func() {
			if h, err := rlock.New(s, "own", nil).TryLock(t.Context()); err == nil {
				_ = h.Release()
			}
		}()
	}
	scenes := map[string]scene{
		"Acquire": take, "Attempt": take, "Acquired": take, "Hold": take, "Ended": take,
		"Wait": wait, "WakeUp": waitAndGet, "Waited": waitAndGet,
		"Renewal":        drop,
		"Ended by loss":  drop,
		"holdfast: lost": drop,
		"holdfast: renewal failed": func(t *testing.T, s *holdfast.Session, srv *redistest.Server,
			held *holdfast.Hold,
		) {
			drop(t, s, srv, held)
			srv.Do(t, "SET", "own", "of another type")
		},
		"holdfast: refused to be given back": func(t *testing.T, s *holdfast.Session, srv *redistest.Server,
			_ *holdfast.Hold,
		) {
			owe(t, s, srv, "owed")
		},
	}
	for what, scene := range scenes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			held := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "taken", nil))
			function := what
			if what == "Ended by loss" {
				function = "Ended"
			}
			b := newBlocker(t, function)
			s := kit.Open(t, srv.Addr(), &holdfast.Options{
				Lease: 4 * time.Second, Observer: b.observer(),
				Logger: b.logger(),
			})
			mine := kit.Lock(t, t.Context(), rlock.New(s, "mine", nil))
			b.armed.Store(true)
			scene(t, s, srv, held)
			kit.Within(t, kit.LongestWait, b.blocked, "the user's code")
			requireProgress(t, s, mine)
			if slices.Contains([]string{"Renewal", "Ended by loss", "holdfast: lost"}, what) {
				require.NoError(t, s.Close(), "what has lost a hold, or renewed one, has nothing more to do")
			}
		})
	}
}

// owe makes the session owe a name that the server does not take back.
func owe(t *testing.T, s *holdfast.Session, srv *redistest.Server, name string) {
	t.Helper()
	srv.Do(t, "SET", name, "of another type")
	srv.Pause()
	defer srv.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := rlock.New(s, name, nil).TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
}

// requireProgress requires that everything else in a session goes on; mine is one of its holds.
func requireProgress(t *testing.T, s *holdfast.Session, mine *holdfast.Hold) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			if err := mine.Err(); err != nil {
				return err
			}
			for i := range 3 {
				h, err := rlock.New(s, fmt.Sprint("other ", i), nil).Lock(t.Context())
				if err != nil {
					return err
				}
				h.Context(t.Context())
				if err := h.Release(); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, _ = rlock.New(s, "taken", nil).Lock(ctx)
			if err := mine.Release(); err != nil {
				return err
			}
			_ = s.Close() // it may report that a call is in flight
			return nil
		}()
	}()
	require.NoError(t, kit.Within(t, 8*time.Second, done, "what others do"))
}

// An observer that is told of a loss may ask for anything, and end anything.
func TestAnObserverOfALossMayAskAndClose(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var session atomic.Pointer[holdfast.Session]
	closed := make(chan time.Duration, 10)
	observer := &holdfast.Observer{Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
		return func(holdfast.Ended) {
			took := kit.Stopwatch()
			_ = session.Load().Close()
			closed <- took()
		}
	}}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 4 * time.Second, Observer: observer})
	session.Store(s)
	kit.Lock(t, t.Context(), rlock.New(s, "lost", nil))
	kit.Lock(t, t.Context(), rlock.New(s, "other", nil))
	srv.Do(t, "DEL", "lost")
	for range 2 {
		require.Less(t, kit.Within(t, kit.LongestWait, closed, "Close"), 3*time.Second)
	}
	require.NoError(t, s.Close())
	require.Empty(t, srv.Keyspace(t))
}

func TestAnObserverOfAReleaseMayClose(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		var session atomic.Pointer[holdfast.Session]
		observer := &holdfast.Observer{Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			return func(holdfast.Ended) { _ = session.Load().Close() }
		}}
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: observer})
		session.Store(s)
		kit.Lock(t, t.Context(), rlock.New(s, "other", nil))
		hold := kit.Lock(t, t.Context(), k.Make(s, "orders", 0))
		released := make(chan error, 1)
		go func() { released <- hold.Release() }()
		// a multilock may report the others' losses later
		if err := kit.Within(t, 3*time.Second, released, "the release"); !k.Several {
			require.NoError(t, err)
		}
		require.NoError(t, s.Close())
	})
}

func TestAnObserverOfAHoldThatNobodyCanReleaseMayClose(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var session atomic.Pointer[holdfast.Session]
	closed := make(chan error, 1)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute, Reclaim: true, Observer: &holdfast.Observer{
		Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			return func(holdfast.Ended) { closed <- session.Load().Close() }
		},
	}})
	session.Store(s)
	forget(t, rlock.New(s, "orders", nil).Lock)
	kit.Await(t, "Close", func() bool {
		runtime.GC()
		return len(closed) > 0
	})
	require.NoError(t, <-closed)
	require.Empty(t, srv.Keyspace(t))
}

// An observer asks about a RedLock while the session is handling the loss of a member.
func TestAnObserverOfALossMayAskTheRedLock(t *testing.T) {
	t.Parallel()
	var hold atomic.Pointer[holdfast.Hold]
	asked := make(chan error, 20)
	observer := &holdfast.Observer{Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
		return func(holdfast.Ended) {
			if h := hold.Load(); h != nil {
				_ = h.Context(context.Background()).Err()
				asked <- h.Err()
			}
		}
	}}
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	var sessions []*holdfast.Session
	var members []holdfast.Locker
	for _, srv := range servers {
		s := kit.OpenWith(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}},
			&holdfast.Options{Lease: 20 * time.Second, Observer: observer})
		sessions, members = append(sessions, s), append(members, rlock.New(s, "orders", nil))
	}
	r := multilock.NewRedLock(members, &multilock.RedLockOptions{ServerTimeout: time.Second, TrustRestarted: true})
	h := kit.Lock(t, t.Context(), r)
	has := (*core.Hold)(h).Inside().(interface{ Members() []session.Holding })
	kit.Await(t, "all servers", func() bool { return len(has.Members()) == len(servers) }) // two grant it
	hold.Store(h)
	// One member is lost, and is asked again. While it does not answer, the leases of the others end, and the first
	// one that looks notices: the one that has asked in vain.
	servers[2].Do(t, "DEL", "orders")
	renewed := sessions[2]
	(*session.Session)(renewed).Skip(7 * time.Second)
	core.CatchUp((*session.Session)(renewed))
	require.NoError(t, kit.Within(t, kit.LongestWait, asked, "what was told of the first loss"))
	servers[2].Pause()
	defer servers[2].Resume()
	time.Sleep(300 * time.Millisecond) // it is asked again after a quarter of a second
	for _, s := range sessions[:2] {
		(*session.Session)(s).Skip(25 * time.Second)
	}
	for range 2 {
		require.ErrorIs(t, kit.Within(t, kit.LongestWait, asked, "what was told of the others"), holdfast.ErrLost)
	}
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
}

// A call that ends when a release has granted it the lock gives that back itself: the next call of its session does not
// get its place in the line besides.
func TestACallThatEndsWithAGrantLeavesItToNobody(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rival := rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil)
	saboteur := &saboteur{function: "Hold", do: runtime.Goexit}
	l := rlock.New(kit.Open(t, srv.Addr(), &holdfast.Options{Observer: saboteur.observer()}), "x", nil)
	held := kit.Lock(t, t.Context(), rival)
	take := func() error { return lockAndRelease(t.Context(), l) }
	errs := make(chan error, 1)
	first := goSabotaged(func() { _ = take() })
	kit.Await(t, "it stands in the line", func() bool { return srv.Int(t, "LLEN", "holdfast_line:{x}") == 1 })
	second := goSabotaged(func() { errs <- take() })
	kit.Await(t, "both wait", func() bool { return saboteur.waits.Load() == 2 })
	saboteur.armed.Store(true)
	require.NoError(t, held.Release())
	require.False(t, kit.Within(t, kit.LongestWait, first, "the end of the first"))
	require.NoError(t, kit.Within(t, kit.LongestWait, errs, "what the second gets"))
	require.True(t, kit.Within(t, kit.LongestWait, second, "the end of the second"))
}
