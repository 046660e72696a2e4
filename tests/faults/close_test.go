package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// closeBound is how long Close may take, with a margin for a busy machine.
const closeBound = 5*time.Second + 500*time.Millisecond

// closing closes a session twice, checks that both calls return the same, and returns that.
func closing(t *testing.T, s *holdfast.Session) error {
	t.Helper()
	took := kit.Stopwatch()
	err := s.Close()
	require.Less(t, took(), closeBound)
	took = kit.Stopwatch()
	require.Equal(t, err, s.Close())
	require.Less(t, took(), 50*time.Millisecond)
	return err
}

func TestCloseReleasesEverythingInOneBatch(t *testing.T) {
	t.Parallel()
	const n = 300
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	// The lease is long enough that nobody takes the connection for dead while a reply is held back.
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	var holds []*holdfast.Hold
	for i := range n {
		holds = append(holds, kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("lock ", i), nil)))
	}
	nested := kit.Lock(t, holds[0].Context(t.Context()), rlock.New(s, "lock 0", nil))
	left := kit.Lock(t, t.Context(), rlock.New(s, "detached", nil))
	require.NoError(t, left.Detach())
	around := kit.Lock(t, t.Context(), rlock.New(s, "detached within", nil))
	require.NoError(t, kit.Lock(t, around.Context(t.Context()), rlock.New(s, "detached within", nil)).Detach())

	srv.Do(t, "SCRIPT", "LOAD", lua.Source("rlock_release"))
	r := p.On(kit.ScriptOf(kit.Kinds[0], "release"), proxy.HoldReply, proxy.First)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	r.WaitMatched(t, n+1) // all of them, and what is around a detached one, were sent, though none has been answered
	r.Wait(t, 1)
	for _, h := range append(holds, nested, around) {
		require.ErrorIs(t, h.Err(), holdfast.ErrClosed)
		require.ErrorIs(t, h.Release(), holdfast.ErrClosed)
	}
	r.Release()
	require.NoError(t, kit.Within(t, closeBound, closed, "the end of Close"))
	require.Equal(t, n+1, r.Matched())
	require.ElementsMatch(t, []string{"detached", "detached within"}, srv.Strs(t, "KEYS", "*"))
}

// After Release has returned, the hold has ended, even if Close was about to end it.
func TestReleaseDuringCloseEndsTheHold(t *testing.T) {
	t.Parallel()
	const n, releasers = 4000, 8
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	var holds []*holdfast.Hold
	for i := range n {
		var opts *setlock.Options
		if i%2 == 0 {
			opts = &setlock.Options{Token: fmt.Sprint("token ", i)} // given back once, and by nobody else
		}
		holds = append(holds, kit.Lock(t, t.Context(), setlock.New(s, fmt.Sprint("lock ", i), opts)))
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	alive := make(chan int, releasers)
	for r := range releasers {
		go func() {
			late := 0
			for i := n - 1 - r; i >= 0; i -= releasers {
				if err := holds[i].Release(); holds[i].Err() == nil || err != nil &&
					!errors.Is(err, holdfast.ErrClosed) {
					late++
				}
			}
			alive <- late
		}()
	}
	for range releasers {
		require.Zero(t, kit.Within(t, closeBound, alive, "the releases"))
	}
	require.NoError(t, kit.Within(t, closeBound, closed, "the end of Close"))
	require.Empty(t, srv.Keyspace(t))
}

// Close waits for a hold that is being released, which ends slowly because thousands of contexts end with it.
func TestCloseWaitsForAReleaseThatHasBegun(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for i := range 3 { // in some, Close ends the hold itself
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
		for n := range 200 { // these Close ends before the slow one
			kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("lock ", n), nil))
		}
		slow := kit.Lock(t, t.Context(), rlock.New(s, "slow", nil))
		ctx, cancel := context.WithCancel(slow.Context(t.Context()))
		defer cancel()
		for range 10_000 {
			_, cancel := context.WithCancel(ctx)
			defer cancel()
		}
		released := make(chan error, 1)
		go func() {
			for !(*session.Session)(s).Closed() {
				runtime.Gosched()
			}
			released <- slow.Release()
		}()
		require.NoError(t, closing(t, s))
		require.Empty(t, srv.Keyspace(t), i)
		require.ErrorIs(t, kit.Within(t, closeBound, released, "the release"), holdfast.ErrClosed)
	}
}

// A server that does not know a release script gets it once, and all releases still go in few batches.
func TestCloseOnAServerThatHasForgottenItsScripts(t *testing.T) {
	t.Parallel()
	const n = 200 // one by one they would take 6 s
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	for i := range n {
		kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("lock ", i), nil))
	}
	kit.Lock(t, t.Context(), setlock.New(s, "one string", nil))
	p.On(proxy.Command("EVAL", "EVALSHA"), proxy.Delay(30*time.Millisecond), proxy.EveryTime)
	srv.Do(t, "SCRIPT", "FLUSH")
	srv.ResetStats(t)
	require.NoError(t, closing(t, s))
	require.Empty(t, srv.Keyspace(t))
	require.EqualValues(t, 2, srv.CommandStats(t)["eval"], "one of each script")
}

// The error of Close counts everything that may be left.
func TestCloseCountsWhatItCouldNotRelease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	for i := range 5 {
		kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("lock ", i), nil))
	}
	for i := range 3 {
		srv.Do(t, "SET", fmt.Sprint("lock ", i), "of another type")
	}
	require.ErrorContains(t, closing(t, s), "close: 3 of 5 releases failed: ")
	paused := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	for i := range 5 {
		kit.Lock(t, t.Context(), rlock.New(paused, fmt.Sprint("another ", i), nil))
	}
	srv.Pause()
	defer srv.Resume()
	require.ErrorContains(t, closing(t, paused), "close: 5 of 5 releases failed: ")
}

// The caller of Close has given no context, so an error that is about one would tell nothing.
func TestCloseSaysThatThereIsNoConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var late atomic.Bool // whoever dials
	s, err := holdfast.Open(rueidis.ClientOption{
		InitAddress: []string{srv.Addr()},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if late.Load() {
				return nil, context.DeadlineExceeded
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	}, nil)
	require.NoError(t, err)
	kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	late.Store(true)
	srv.Do(t, "CLIENT", "KILL", "TYPE", "normal")
	err = closing(t, s)
	require.ErrorContains(t, err, "close: 1 of 1 releases failed: ")
	require.ErrorContains(t, err, "no connection to the server")
}

// A server that refuses every write has nothing of a call that waited, so nothing is to be given back.
func TestCloseAtAServerWithoutReplicas(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t, "--min-replicas-to-write", "1").Addr(), nil)
	_, err := rlock.New(s, "x", nil).TryLockFor(t.Context(), time.Second)
	require.ErrorContains(t, err, "NOREPLICAS")
	took := kit.Stopwatch()
	require.NoError(t, s.Close())
	require.Less(t, took(), 2*time.Second)
}

// A server or a network that answers nothing does not delay Close beyond its bound.
func TestCloseIsBounded(t *testing.T) {
	for _, c := range []struct {
		name    string
		unknown bool // the outcome is unknown; otherwise it depends on what the client has noticed
		stall   func(srv *redistest.Server, p *proxy.Proxy)
	}{
		{"when the server is stopped", true, func(srv *redistest.Server, _ *proxy.Proxy) { srv.Pause() }},
		{"when the network is silent", true, func(_ *redistest.Server, p *proxy.Proxy) {
			p.Silence()
		}},
		{"when the server is stopped and the connection gone", true, func(srv *redistest.Server, p *proxy.Proxy) {
			srv.Pause()
			p.CutAll()
		}},
		{"when nobody listens", false, func(_ *redistest.Server, p *proxy.Proxy) {
			p.RefuseNew(true)
			p.CutAll()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			// A silent connection is given up before Close gives up.
			s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 6 * time.Second})
			h := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
			work := h.Context(t.Context())
			other := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), &holdfast.Options{}), "returns", nil))
			waiter := kit.GoLock(t.Context(), rlock.New(s, "returns", nil).Lock)
			kit.Waiting(t, kit.Kinds[0], srv)
			c.stall(srv, p)
			calls := kit.GoLock(t.Context(), rlock.New(s, "new", nil).Lock)

			took := kit.Stopwatch()
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			for _, call := range []<-chan kit.Result{waiter, calls} {
				require.ErrorIs(t, kit.Within(t, closeBound, call, "the end of the wait").Err, holdfast.ErrClosed)
			}
			kit.Within(t, time.Second, work.Done(), "the end of the hold")
			require.ErrorIs(t, h.Err(), holdfast.ErrClosed)
			err := kit.Within(t, closeBound, closed, "the end of Close")
			require.Less(t, took(), closeBound)
			require.Error(t, err)
			if c.unknown {
				require.ErrorIs(t, err, holdfast.ErrUnknown)
			}
			require.Equal(t, err, closing(t, s))

			srv.Resume()
			p.RefuseNew(false)
			p.ResumeAll()
			require.NoError(t, other.Release())
			kit.Await(t, "the end of the lease", func() bool { return len(srv.Strs(t, "KEYS", "*")) == 0 })
		})
	}
}

// closeWithoutReplies closes a session while a call has no reply, and returns how that and the call have ended. The
// call is got ready while there are replies.
func closeWithoutReplies(
	t *testing.T, srv *redistest.Server, ready func(s *holdfast.Session) (call func(ctx context.Context) error),
) (closed, ended error) {
	t.Helper()
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second}) // a silent connection outlasts Close
	call := ready(s)
	held := p.On(proxy.Command("EVAL", "EVALSHA"), proxy.HoldReply, proxy.EveryTime)
	end := make(chan error, 1)
	go func() { end <- call(t.Context()) }()
	held.WaitMatched(t, 1)
	closed = closing(t, s)
	return closed, kit.Within(t, time.Second, end, "the end of the call")
}

var callsThatCloseEnds = map[string]func(ctx context.Context, s *holdfast.Session) error{
	"Lock": func(ctx context.Context, s *holdfast.Session) error {
		return kit.ErrorOf(rlock.New(s, "x", nil).Lock(ctx))
	},
	"TryLock": func(ctx context.Context, s *holdfast.Session) error {
		return kit.ErrorOf(setlock.New(s, "x", nil).TryLock(ctx))
	},
	"Locked": func(ctx context.Context, s *holdfast.Session) error {
		return kit.ErrorOf(rlock.New(s, "x", nil).Locked(ctx))
	},
	"Acquire": func(ctx context.Context, s *holdfast.Session) error {
		return semaphore.New(s, "y").Acquire(ctx, 1)
	},
	"Release": func(ctx context.Context, s *holdfast.Session) error {
		return semaphore.New(s, "y").Release(ctx, 1)
	},
}

// requireClosed wants the error to be that of a session that is closed, and to say so once.
func requireClosed(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, holdfast.ErrClosed)
	require.Equal(t, 1, strings.Count(err.Error(), holdfast.ErrClosed.Error()), err)
}

// A call whose reply does not come before Close gives up ends because the session does, and says so.
func TestCloseIsWhyCallsEndThatHaveNoReply(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, call := range callsThatCloseEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Of permits that are taken meanwhile Close knows nothing.
			_, err := closeWithoutReplies(t, srv, func(s *holdfast.Session) func(ctx context.Context) error {
				return func(ctx context.Context) error { return call(ctx, s) }
			})
			requireClosed(t, err)
		})
	}
}

// So does a call that has no connection yet.
func TestCloseIsWhyCallsEndThatHaveNoConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	calls := maps.Clone(callsThatCloseEnds)
	maps.Copy(calls, map[string]func(ctx context.Context, s *holdfast.Session) error{
		"TryLock of an rlock": func(ctx context.Context, s *holdfast.Session) error {
			return kit.ErrorOf(rlock.New(s, "x", nil).TryLock(ctx))
		},
		"TryAcquire": func(ctx context.Context, s *holdfast.Session) error {
			return semaphore.New(s, "y").TryAcquire(ctx, 1)
		},
	})
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxy.Start(t, srv.Addr())
			s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
			dials := p.On(proxy.Command("HELLO"), proxy.Stall, proxy.EveryTime)
			connections := (*session.Session)(s).Connections()
			p.CutAll()
			kit.Await(t, "the end of the connection",
				func() bool { return (*session.Session)(s).Connections() > connections })
			end := make(chan error, 1)
			go func() { end <- call(t.Context(), s) }()
			dials.Wait(t, 1)
			_ = closing(t, s)
			requireClosed(t, kit.Within(t, 10*time.Second, end, "the end of the call"))
		})
	}
}

// So does a guarded call, which may have been executed.
func TestCloseIsWhyGuardedCallsEndThatHaveNoReply(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	b := kit.NewClient(t, srv.Addr()).B
	for name, call := range map[string]func(ctx context.Context, h *holdfast.Hold) error{
		"Guard": func(ctx context.Context, h *holdfast.Hold) error {
			return kit.ErrorOf(h.Guard(ctx, b().Set().Key("stock").Value("1").Build()))
		},
		"GuardScript": func(ctx context.Context, h *holdfast.Hold) error {
			return kit.ErrorOf(h.GuardScript(ctx, "return 1", nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed, err := closeWithoutReplies(t, srv, func(s *holdfast.Session) func(ctx context.Context) error {
				h := kit.Lock(t, t.Context(), rlock.New(s, name, nil))
				return func(ctx context.Context) error { return call(ctx, h) }
			})
			require.Error(t, closed) // the release has no reply either
			require.ErrorIs(t, err, holdfast.ErrClosed)
			require.ErrorIs(t, err, holdfast.ErrUnknown)
		})
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	// The lease is short, so that the connection whose reply is held is given up soon.
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 3 * time.Second})
	busy := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "busy", nil))
	waiter := kit.GoLock(t.Context(), rlock.New(s, "busy", nil).Lock)
	kit.Await(t, "the waiter's place", func() bool { return len(srv.Strs(t, "KEYS", "holdfast_line:{busy}")) > 0 })
	held := p.On(kit.ScriptOf(kit.Kinds[0], "acquire").With("free"), proxy.HoldReply, proxy.First)
	granted := kit.GoLock(t.Context(), rlock.New(s, "free", nil).Lock)
	held.WaitAnswered(t, 1) // the server has granted it, and the session does not know that yet

	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	require.ErrorIs(t, kit.Within(t, time.Second, waiter, "the end of the wait").Err, holdfast.ErrClosed)
	held.Release()
	require.ErrorIs(t, kit.Within(t, time.Second, granted, "the end of the call").Err, holdfast.ErrClosed)
	require.NoError(t, kit.Within(t, closeBound, closed, "the end of Close"))
	require.Equal(t, []string{"busy"}, srv.Strs(t, "KEYS", "*")) // what was granted meanwhile has been given back
	require.NoError(t, closing(t, s))

	for _, take := range []func(context.Context) (*holdfast.Hold, error){
		rlock.New(s, "new", nil).Lock, rlock.New(s, "new", nil).TryLock,
	} {
		_, err := take(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
	}
	require.NoError(t, busy.Release())
}

// This test runs alone, so that every goroutine that appears is its own.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	for _, stalled := range []string{"healthy", "stopped"} {
		t.Run(stalled, func(t *testing.T) {
			srv := redistest.Start(t)
			holder := kit.Open(t, srv.Addr(), &holdfast.Options{})
			kit.Pipeline(t, holder) // which takes goroutines
			other := kit.Lock(t, t.Context(), rlock.New(holder, "busy", nil))
			before := runtime.NumGoroutine()
			s := kit.Open(t, srv.Addr(), nil)
			h := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
			h.Context(t.Context())
			waiter := kit.GoLock(t.Context(), rlock.New(s, "busy", nil).Lock)
			kit.Waiting(t, kit.Kinds[0], srv)
			require.Greater(t, runtime.NumGoroutine(), before)
			if stalled == "stopped" {
				srv.Pause()
			}
			_ = closing(t, s)
			kit.Within(t, time.Second, waiter, "the end of the wait")
			kit.Await(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
			srv.Resume()
			require.NoError(t, other.Release())
		})
	}
}

// A connected connection is counted until it is closed.
type connected struct {
	net.Conn
	ended func()
}

func (c connected) Close() error {
	c.ended()
	return c.Conn.Close()
}

// The client forgets a connection that was being made to the former master when Sentinel named the next one. It stays
// open, but not longer than the session.
func TestCloseEndsAConnectionThatTheClientHasForgotten(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	former, next, back := set.Master().Addr(), set.Replica().Addr(), redistest.Start(t) // back is in the former's place
	var slow, named atomic.Bool
	var open atomic.Int64
	made, forgotten := make(chan struct{}), make(chan struct{}, 1)
	opt := rueidis.ClientOption{
		InitAddress: set.SentinelAddrs(), Sentinel: rueidis.SentinelOption{MasterSet: set.MasterName},
	}
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		named.Store(named.Load() || slow.Load() && addr == next)
		if slow.Load() && addr == former {
			again := time.Now().Add(time.Second) // so there is always a young one, as long as calls go there
			for named.Load() || time.Now().Before(again) {
				select {
				case <-made:
					addr = back.Addr()
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
					continue
				}
				break
			}
		}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		if addr == back.Addr() {
			forgotten <- struct{}{}
		}
		open.Add(1)
		return connected{conn, sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
	s := kit.OpenWith(t, opt, nil)
	lock := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		h, err := rlock.New(s, "x", nil).TryLock(ctx)
		if err == nil {
			err = h.Release()
		}
		return err
	}
	kit.Await(t, "a first lock", func() bool { return lock() == nil })
	slow.Store(true)
	set.Master().Stop()
	kit.AwaitFor(t, time.Minute, "the next master", func() bool { return lock() == nil })
	close(made)
	select {
	case <-forgotten:
	case <-time.After(3 * time.Second): // the machine was too busy, and it was given up
		t.Log("no connection was being made")
	}
	require.NoError(t, s.Close())
	kit.Await(t, "no connection", func() bool { return open.Load() == 0 })
}

// What is detached keeps the name for its own lease, and not for that of the hold around it, which Close releases, or
// which was released right before.
func TestCloseReleasesWhatIsAroundADetachedHold(t *testing.T) {
	t.Parallel()
	for _, fixed := range []time.Duration{0, time.Hour} {
		for i, k := range slices.Concat(kit.Kinds, kit.Kinds) {
			if !k.Reentrant || k.Several {
				continue // nothing is nested
			}
			released := i >= len(kit.Kinds)
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 5 * time.Minute})
			outer := kit.Lock(t, t.Context(), k.Make(s, "x", fixed))
			require.NoError(t, kit.Lock(t, outer.Context(t.Context()), k.Make(s, "x", time.Minute)).Detach())
			if released {
				require.NoError(t, outer.Release())
			}
			require.NoError(t, s.Close())
			if !released {
				require.ErrorIs(t, outer.Err(), holdfast.ErrClosed)
			}
			for key, ttl := range srv.TTLs(t) {
				require.Less(t, ttl, 2*time.Minute, "%s, %v, released before: %v: %s", k.Name, fixed, released, key)
			}
			require.Contains(t, srv.TTLs(t), "x", k.Name)
			require.Greater(t, srv.TTLs(t)["x"], 30*time.Second, k.Name)
		}
	}
}

// The same goes for what is detached of one half of a read-write lock, while the owner holds the other one.
func TestCloseReleasesWhatIsBesideADetachedHalf(t *testing.T) {
	t.Parallel()
	const short = 2 * time.Minute
	for name, begin := range map[string]func(lock func(half string, fixed time.Duration) *holdfast.Hold) error{
		"read": func(lock func(half string, fixed time.Duration) *holdfast.Hold) error {
			lock("write", 0)
			outer := lock("read", 0)
			return errors.Join(lock("read", short).Detach(), outer.Release())
		},
		"write": func(lock func(half string, fixed time.Duration) *holdfast.Hold) error {
			outer := lock("write", 0)
			err := lock("write", short).Detach()
			lock("read", 0)
			return errors.Join(err, outer.Release())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 10 * time.Minute})
			ctx := holdfast.NewOwner(t.Context())
			require.NoError(t, begin(func(half string, fixed time.Duration) *holdfast.Hold {
				return kit.Lock(t, ctx, kit.KindOf("rwlock "+half).Make(s, kit.Orders, fixed))
			}))
			require.NoError(t, s.Close())
			require.Contains(t, srv.TTLs(t), kit.Orders)
			for key, ttl := range srv.TTLs(t) {
				require.Less(t, ttl, short+30*time.Second, key)
				require.Greater(t, ttl, short-30*time.Second, key)
			}
		})
	}
}

// A nested hold that was given up for want of a reply is Close's to give back, also if the others of its owner are
// detached: they keep the name for their own leases, and not for its.
func TestCloseGivesBackWhatIsInDoubtBesideADetachedHold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rlock", "fairlock", "rwlock read", "rwlock write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			k, s := kit.KindOf(name), kit.Open(t, p.Addr(), nil)
			ctx := holdfast.NewOwner(t.Context())
			detached := kit.Lock(t, ctx, k.Make(s, kit.Orders, 2*time.Minute))
			lost := p.On(kit.ScriptOf(k, "acquire"), proxy.DropReply, proxy.EveryTime)
			returns := p.On(kit.ScriptOf(k, "release"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
			brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			_, err := k.Make(s, kit.Orders, time.Hour).TryLock(brief)
			require.ErrorIs(t, err, holdfast.ErrUnknown)
			lost.Remove()
			require.NoError(t, detached.Detach())
			time.AfterFunc(200*time.Millisecond, returns.Remove) // when the session is being closed
			require.NoError(t, s.Close())
			require.Contains(t, srv.TTLs(t), kit.Orders)
			for key, ttl := range srv.TTLs(t) {
				require.LessOrEqual(t, ttl, 2*time.Minute+3*time.Second, key)
			}
		})
	}
}
