package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The functions of the client in which a goroutine is that writes a pipelined connection, and a direct call.
const (
	pipelining = "rueidis.(*pipe)._backgroundWrite"
	calling    = "rueidis.(*pipe).syncDo"
)

// directly opens a session whose connection begins direct.
func directly(t testing.TB, addr string, lease time.Duration) *holdfast.Session {
	t.Helper()
	client := rueidis.ClientOption{InitAddress: []string{addr}}
	return kit.OpenDirect(t, client, &holdfast.Options{Lease: lease, Anonymous: true})
}

// running reports whether a goroutine of this process is in the function.
func running(t testing.TB, function string) bool {
	t.Helper()
	var stacks bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1))
	return bytes.Contains(stacks.Bytes(), []byte(function))
}

// unending is a context of the test's that never ends.
func unending(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// A lone caller costs no goroutine between it and the connection, whatever it does, whether its context can end or not,
// and whatever the session does of its own accord; nor after the connection was lost. (Nothing else runs meanwhile, and
// the client has no reason for a PING.)
func TestALoneCallerUsesTheConnectionDirectly(t *testing.T) {
	for name, ctx := range map[string]context.Context{"can end": t.Context(), "cannot": unending(t)} {
		t.Run(name, func(t *testing.T) { requireDirect(t, ctx) })
	}
}

func requireDirect(t *testing.T, ctx context.Context) {
	t.Helper()
	p := proxy.Start(t, redistest.Start(t).Addr())
	told := p.On(proxy.Command("SET").With("holdfast_session"), proxy.Pass, proxy.EveryTime)
	opt := rueidis.ClientOption{InitAddress: []string{p.Addr()}, ConnWriteTimeout: 5 * time.Second}
	opt.Dialer.KeepAlive = 5 * time.Minute
	s := kit.OpenDirect(t, opt, &holdfast.Options{Lease: time.Hour})
	use := func() {
		h := kit.Lock(t, ctx, rlock.New(s, "orders", nil))
		require.NoError(t, h.Extend(ctx, time.Minute))
		_, err := rlock.New(s, "orders", nil).TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrBusy)
		_, err = rlock.New(s, "orders", nil).Holders(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Release())
		permits, gate := semaphore.New(s, "pool"), latch.New(s, "gate")
		_, err = permits.TrySetPermits(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, permits.Acquire(ctx, 1))
		require.NoError(t, permits.Release(ctx, 1))
		_, err = gate.TrySetCount(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, gate.CountDown(ctx))
	}
	use()
	require.True(t, kit.Direct(s))
	direct := func() bool {
		// With a lease that is renewed, the session would ask for the hold when the connection has ended.
		h := kit.Lock(t, ctx, rlock.New(s, "held", &rlock.Options{FixedLease: time.Hour}))
		told.Wait(t, 1)
		p.CutAll()
		require.NoError(t, h.Release()) // first on a new connection, or on the lost one
		use()
		return !running(t, pipelining)
	}
	// A release that comes after the client has noticed the cut, and before it dials, meets another call of the session
	// on the new connection, which is pipelined then: on a busy machine every third time.
	for cuts := 1; !direct(); cuts++ {
		require.Less(t, cuts, 10)
	}

	require.NoError(t, s.Close())
	kit.Await(t, "the end of the connection", func() bool { return !running(t, pipelining) })
}

// It stays so while the session says from time to time which process it is, and renews what it holds.
func TestALoneCallerGoesOnDirectlyBesideTheSessionsOwnCalls(t *testing.T) {
	const lease = 6 * time.Second // each comes after a third of it
	goesOn := func() (direct bool) {
		p := proxy.Start(t, redistest.Start(t).Addr())
		told := p.On(proxy.Command("SET").With("holdfast_session"), proxy.Pass, proxy.EveryTime)
		renewed := p.On(kit.ScriptOf(kit.KindOf("rlock"), "renew"), proxy.Pass, proxy.EveryTime)
		s := kit.OpenDirect(t, rueidis.ClientOption{InitAddress: []string{p.Addr()}}, &holdfast.Options{Lease: lease})
		kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
		connections := p.Accepted()
		kit.Await(t, "three notes and three renewals", func() bool {
			for range 100 {
				require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "orders", nil)).Release())
			}
			if direct = !running(t, pipelining); !direct {
				require.Greater(t, p.Accepted(), connections, "after %d notes and %d renewals", told.Count(),
					renewed.Count())
				return true
			}
			return told.Count() >= 3 && renewed.Count() >= 3
		})
		require.NoError(t, s.Close())
		kit.Await(t, "the end of the connection", func() bool { return !running(t, pipelining) })
		return direct
	}
	// Where the machine stood still for a sixth of the lease, the session has changed its connection, on which its calls
	// may have met.
	for tries := 1; !goesOn(); tries++ {
		require.Less(t, tries, 4)
	}
}

// Nobody reads a direct connection between calls. One that the server has ended meanwhile, as in a failover, takes no
// call of which no copy may be sent.
func TestALoneCallerNoticesThatItsConnectionHasEnded(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, call := range map[string]func(ctx context.Context, p *semaphore.Semaphore, l *latch.Latch) error{
		"Release":    func(ctx context.Context, p *semaphore.Semaphore, _ *latch.Latch) error { return p.Release(ctx, 1) },
		"TryAcquire": func(ctx context.Context, p *semaphore.Semaphore, _ *latch.Latch) error { return p.TryAcquire(ctx, 1) },
		"CountDown":  func(ctx context.Context, _ *semaphore.Semaphore, l *latch.Latch) error { return l.CountDown(ctx) },
	} {
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Hour})
		p, l := semaphore.New(s, "pool "+name), latch.New(s, "gate "+name)
		_, err := p.TrySetPermits(unending(t), 1)
		require.NoError(t, err)
		_, err = l.TrySetCount(unending(t), 1)
		require.NoError(t, err)
		srv.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.NoError(t, call(unending(t), p, l), name)
		require.NoError(t, s.Close())
	}
}

// A mode is a way in which a lone caller's calls use the connection.
type mode struct {
	ctx       func(t *testing.T) context.Context
	pipelined bool
}

// open opens a session whose connection is used in that way.
func (m mode) open(t *testing.T, addr string, lease time.Duration) *holdfast.Session {
	t.Helper()
	s := directly(t, addr, lease)
	if m.pipelined {
		kit.Pipeline(t, s)
	}
	return s
}

var modes = map[string]mode{
	"direct":                               {ctx: unending},
	"direct, under a context that can end": {ctx: (*testing.T).Context},
	"pipelined":                            {ctx: (*testing.T).Context, pipelined: true},
}

// A call to a server that has gone silent is noticed in both modes, while there is time to renew on a new connection.
func TestACallToASilentConnectionEndsInTime(t *testing.T) {
	const lease = 8 * time.Second
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxy.Start(t, redistest.Start(t).Addr())
			s := mode.open(t, p.Addr(), lease)
			l := rlock.New(s, "orders", nil)
			h := kit.Lock(t, mode.ctx(t), l)
			before := p.Accepted()
			p.StallAll()
			silent := kit.Stopwatch()
			locked, err := l.Locked(mode.ctx(t))
			require.NoError(t, err)
			require.True(t, locked)
			require.Less(t, silent(), lease/2) // a third, and what a busy machine needs
			require.Greater(t, p.Accepted(), before)
			for silent() < 3*lease/2 {
				require.NoError(t, h.Err())
				<-time.After(10 * time.Millisecond)
			}
			require.NoError(t, h.Release())
		})
	}
}

// A release to a silent server, which has no context, ends after its bound in both modes.
func TestAReleaseToASilentServerEnds(t *testing.T) {
	const lease = 6 * time.Second
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxy.Start(t, redistest.Start(t).Addr())
			s := mode.open(t, p.Addr(), lease)
			h := kit.Lock(t, mode.ctx(t), rlock.New(s, "orders", nil))
			p.Silence()
			took := kit.Stopwatch()
			require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
			require.Less(t, took(), lease/3+500*time.Millisecond)
			p.ResumeAll()
		})
	}
}

// With the old protocol, the client has connections beside that for calls which are never pipelined: for messages, and
// to Sentinel. A release ends all the same.
func TestAReleaseWithTheOldProtocolEnds(t *testing.T) {
	const bound = 5 * time.Second
	old := rueidis.ClientOption{AlwaysRESP2: true, ConnWriteTimeout: bound, Dialer: net.Dialer{KeepAlive: bound}}
	// requireEnd releases a hold when the server has gone silent.
	requireEnd := func(t *testing.T, s *holdfast.Session, silence func()) {
		t.Helper()
		h := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
		silence()
		took := kit.Stopwatch()
		require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
		require.Less(t, took(), bound*3/2)
	}
	t.Run("listening", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		p := proxy.Start(t, srv.Addr())
		opt := old
		opt.InitAddress = []string{p.Addr()}
		s := kit.OpenWith(t, opt, &holdfast.Options{Lease: time.Minute})
		kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "wanted", nil))
		kit.GoLock(t.Context(), rlock.New(s, "wanted", nil).Lock)
		kit.Waiting(t, kit.KindOf("rlock"), srv)
		requireEnd(t, s, p.Silence)
		p.ResumeAll()
	})
	t.Run("behind Sentinel", func(t *testing.T) {
		t.Parallel()
		set := redistest.StartSentinels(t)
		opt := old
		opt.InitAddress, opt.Sentinel.MasterSet = set.SentinelAddrs(), set.MasterName
		s := kit.OpenWith(t, opt, &holdfast.Options{Lease: time.Minute})
		all := append(set.Sentinels, set.Master())
		requireEnd(t, s, func() {
			for _, srv := range all {
				srv.Pause()
			}
		})
		for _, srv := range all {
			srv.Resume()
		}
	})
}

// callDirectly begins a call that goes to a silent server by the direct path, and that ends when something is said.
func callDirectly(t *testing.T, l *rlock.Mutex) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Locked(unending(t))
		done <- err
	}()
	kit.Await(t, "the direct call", func() bool { return running(t, calling) })
	return done
}

// Callers that leave at any moment leave the connection as it is, and the next ones get their own answers.
func TestCallersThatLeaveADirectConnectionLeaveItAsItIs(t *testing.T) {
	p := proxy.Start(t, redistest.Start(t).Addr())
	s := directly(t, p.Addr(), time.Hour)
	held, free := rlock.New(s, "held", nil), rlock.New(s, "free", nil)
	kit.Lock(t, t.Context(), held)
	connections := p.Accepted()
	sent := p.On(proxy.Command("EVALSHA"), proxy.Delay(2*time.Millisecond), proxy.EveryTime)
	var calls, left, stayed int
	for end := time.Now().Add(time.Minute); (left < 100 || stayed < 100) && time.Now().Before(end); {
		ctx, cancel := context.WithCancel(t.Context())
		calls++
		go func(call int) {
			sent.WaitMatched(t, call) // one that is left before it is sent may meet another, by which its place is freed
			time.Sleep(rand.N(4 * time.Millisecond))
			cancel()
		}(calls)
		is, err := held.Locked(ctx)
		if err == nil {
			require.True(t, is)
			stayed++
		} else {
			require.ErrorIs(t, err, context.Canceled)
			left++
		}
		if left%2 == 0 {
			calls++
			is, err = free.Locked(t.Context())
			require.NoError(t, err)
			require.False(t, is)
		}
		<-ctx.Done()
	}
	require.GreaterOrEqual(t, left, 100)
	require.GreaterOrEqual(t, stayed, 100)
	require.Equal(t, connections, p.Accepted())
	require.True(t, kit.Direct(s))
}

// A brittle is a connection that is lost when a read of it times out, as that of some tunnels is.
type brittle struct{ net.Conn }

func (b brittle) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = b.Close()
	}
	return n, err
}

// A connection that may not bear it has no read that times out while its server only takes its time.
func TestADirectConnectionThatCannotTimeOutIsNotLost(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	opt := rueidis.ClientOption{InitAddress: []string{p.Addr()}}
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		return brittle{conn}, err
	}
	s := kit.OpenDirect(t, opt, &holdfast.Options{Lease: time.Hour, Anonymous: true})
	l := rlock.New(s, "free", nil)
	_, err := l.Locked(unending(t))
	require.NoError(t, err)
	connections := p.Accepted()
	p.On(proxy.Command("EVALSHA"), proxy.Delay(50*time.Millisecond), proxy.EveryTime)
	for range 3 {
		_, err := l.Locked(unending(t))
		require.NoError(t, err)
	}
	require.True(t, kit.Direct(s))
	_, err = l.Locked(t.Context())
	require.NoError(t, err)
	require.Equal(t, connections, p.Accepted())
}

// Close sends its batch over the connection that is there, though a call has been left on it.
func TestCloseKeepsAConnectionOnWhichACallWasLeft(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	s := directly(t, p.Addr(), time.Minute)
	kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
	connections := p.Accepted()
	p.On(proxy.Command("EVALSHA", "EVAL"), proxy.Delay(50*time.Millisecond), proxy.EveryTime)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := rlock.New(s, "other", nil).Locked(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.Close())
	require.Equal(t, connections, p.Accepted())
}

// Behind a direct call to a silent server, a call ends with its own context, and the connection stays as it is.
func TestACallBehindADirectOneEndsWithItsContext(t *testing.T) {
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := directly(t, p.Addr(), 30*time.Second)
	l, other := rlock.New(s, "orders", nil), rlock.New(s, "other", nil)
	h := kit.Lock(t, unending(t), l)
	before := p.Accepted()
	srv.Pause()
	defer srv.Resume()
	direct := callDirectly(t, l)

	const patience = 100 * time.Millisecond
	took := kit.Stopwatch()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := other.TryLock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, took(), 10*patience)
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(patience, cancel)
	_, err = other.Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)

	srv.Resume()
	require.NoError(t, kit.Within(t, 5*time.Second, direct, "the direct call's reply"))
	require.NoError(t, h.Release())
	require.Equal(t, before, p.Accepted())
}

// A caller's deadline never breaks the connection that all callers share, not even if it is the first to use that.
func TestADeadlineBreaksNobodyElsesCall(t *testing.T) {
	type use func(ctx context.Context, l *rlock.Mutex, h *holdfast.Hold) error
	for what, call := range map[string]use{
		"Locked": func(ctx context.Context, l *rlock.Mutex, _ *holdfast.Hold) error {
			_, err := l.Locked(ctx)
			return err
		},
		"Holders": func(ctx context.Context, l *rlock.Mutex, _ *holdfast.Hold) error {
			_, err := l.Holders(ctx)
			return err
		},
		"TryLock": func(ctx context.Context, l *rlock.Mutex, _ *holdfast.Hold) error {
			_, err := l.TryLock(ctx)
			return err
		},
		"Extend": func(ctx context.Context, _ *rlock.Mutex, h *holdfast.Hold) error {
			return h.Extend(ctx, time.Minute)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			sent := p.On(proxy.Any, proxy.Pass, proxy.EveryTime)
			s := directly(t, p.Addr(), 30*time.Second)
			l := rlock.New(s, "orders", nil)
			h := kit.Lock(t, unending(t), l)
			connections, commands := p.Accepted(), sent.Matched()
			srv.Pause()
			defer srv.Resume()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			late, patient := make(chan error, 1), make(chan error, 1)
			go func() { late <- call(ctx, l, h) }()
			sent.WaitMatched(t, commands+1)
			go func() {
				_, err := l.Locked(unending(t))
				patient <- err
			}()
			require.ErrorIs(t, kit.Within(t, 5*time.Second, late, what), context.DeadlineExceeded)
			srv.Resume()
			require.NoError(t, kit.Within(t, 5*time.Second, patient, "the other call's reply"))
			require.Equal(t, connections, p.Accepted())
			require.NoError(t, h.Release())
		})
	}
}

// Close ends in time also while a direct call is under way to a silent server, and ends that call.
func TestCloseEndsADirectCall(t *testing.T) {
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 10 * time.Minute})
	l := rlock.New(s, "orders", nil)
	srv.Pause()
	defer srv.Resume()
	direct := callDirectly(t, l)
	_ = closing(t, s)
	require.Error(t, kit.Within(t, 5*time.Second, direct, "the end of the direct call"))
}
