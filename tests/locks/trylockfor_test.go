package locks

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// If the process is too busy to run the waiter in time, the result is still ErrBusy. The test is not parallel,
// because it takes all processors.
func TestTryLockForThatIsScheduledLateIsBusy(t *testing.T) {
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: time.Minute}))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			}
		})
	}
	for i := range 50 {
		l := rlock.New(s, "x", nil)
		if i%2 == 1 {
			l = rlock.New(s, "x", &rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 128*time.Millisecond)})
		}
		wg.Go(func() {
			_, err := l.TryLockFor(t.Context(), time.Second)
			assert.True(t, errors.Is(err, holdfast.ErrBusy) || errors.Is(err, holdfast.ErrUnknown), "%v", err)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	require.NoError(t, hold.Release())
}

// If the process stands still while the time ends, an answer that is there when it goes on is read.
func TestTryLockForOfAProcessThatStoodStillReadsTheAnswer(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
	said := make(chan string, 2)
	w := worker.Start(t, func(line string) { said <- line }, "visitor", p.Addr())
	require.Equal(t, "busy", kit.Within(t, time.Minute, said, "the first attempt"))
	rule := p.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.HoldReply, proxy.First)
	w.End()
	rule.Wait(t, 1)
	w.Pause()
	rule.Release()
	kit.SleepUntil(time.Now().Add(visit + time.Second))
	w.Resume()
	require.Equal(t, "busy", kit.Within(t, 5*time.Second, said, "the end of the wait"))
	require.NoError(t, hold.Release())
}

const visit = 500 * time.Millisecond

// visitor tries a lock that is taken, and then waits for it for a short time when it is asked to end.
func visitor(args []string) {
	l := rlock.New(kit.OpenWorker(args[0], kit.Lease), "x", nil)
	worker.Say("%s", kit.ClassOf(kit.ErrorOf(l.TryLock(context.Background()))))
	<-worker.Stopped()
	worker.Say("%s", kit.ClassOf(kit.ErrorOf(l.TryLockFor(context.Background(), visit))))
}

// If the time ends during an attempt at a server that does not answer, the attempt is soon given up, and its outcome
// is unknown.
func TestTryLockForAtASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
	p.StallAll()
	took := kit.Stopwatch()
	_, err := rlock.New(s, "x", nil).TryLockFor(t.Context(), 200*time.Millisecond)
	assert.ErrorIs(t, err, holdfast.ErrUnknown)
	assert.ErrorIs(t, err, holdfast.ErrNoReply)
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, context.Canceled)
	assert.Less(t, took(), time.Second)
	p.ResumeAll()
	kit.Await(t, "what may have been granted to be given back", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// If a call's time ends before its attempt, behind another call of its owner, it has sent nothing. It returns the
// error of a call that did not get its turn.
func TestTryLockForBehindACallOfItsOwnerIsBusy(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, k := range kit.OnOneServer() {
		if k.Twin || k.Permits {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			p := proxy.Start(t, srv.Addr())
			l := k.Make(kit.Open(t, p.Addr(), nil), k.Name, 0)
			require.NoError(t, kit.Lock(t, t.Context(), l).Release())
			rule := p.On(kit.ScriptOf(k, "acquire"), proxy.HoldReply, proxy.First)
			owner := holdfast.NewOwner(t.Context())
			first := kit.GoLock(owner, l.Lock)
			rule.Wait(t, 1)
			_, err := l.TryLockFor(owner, 100*time.Millisecond)
			assert.ErrorIs(t, err, holdfast.ErrBusy)
			rule.Release()
			r := kit.Within(t, kit.LongestWait, first, "the lock")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Release())
		})
	}
}

// However late a cancellation is noticed, a call that took nothing reports it.
func TestACancelledTryLockForIsAnError(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	permits := semaphore.New(s, "permits")
	_, err := permits.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, permits.Acquire(t.Context(), 1))
	waits := map[string]func(ctx context.Context) (*holdfast.Hold, error){
		"permits": func(ctx context.Context) (*holdfast.Hold, error) {
			return nil, permits.TryAcquireFor(ctx, 1, time.Minute)
		},
	}
	for _, k := range kit.OnOneServer() {
		if !k.Twin {
			kit.Lock(t, t.Context(), k.Rival(other, k.Name, time.Hour))
			l := k.Make(s, k.Name, 0)
			waits[k.Name] = func(ctx context.Context) (*holdfast.Hold, error) { return l.TryLockFor(ctx, time.Minute) }
		}
	}
	for name, wait := range waits {
		const callers = 20
		for range kit.Stressed(3, 15) {
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					h, err := wait(holdfast.NewOwner(ctx))
					assert.Nil(t, h, name)
					assert.ErrorIs(t, err, context.Canceled, name)
				})
			}
			kit.SleepUntil(time.Now().Add(20 * time.Millisecond)) // most are waiting then
			cancel()
			all.Wait()
		}
	}
}

// One attempt at a server that does not answer lasts a third of the lock's lease, however long the session's is, even
// if the server has been silent for some time.
func TestOneAttemptAtASilentServerEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lease, fixed, most time.Duration }{
		"fixed":   {time.Minute, 600 * time.Millisecond, 2 * time.Second},
		"renewed": {1500 * time.Millisecond, 0, 1500 * time.Millisecond},
	} {
		srv := redistest.Start(t)
		for _, k := range kit.OnOneServer() {
			t.Run(name+"/"+k.Name, func(t *testing.T) {
				t.Parallel()
				p := proxy.Start(t, srv.Addr())
				s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: c.lease})
				l := k.Make(s, k.Name, c.fixed)
				require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, k.Name, time.Minute)).Release())
				p.Silence()
				for range 3 {
					took := kit.Stopwatch()
					_, err := l.TryLock(t.Context())
					assert.Error(t, err)
					assert.NotErrorIs(t, err, context.DeadlineExceeded)
					assert.NotErrorIs(t, err, holdfast.ErrBusy)
					assert.Less(t, took(), c.most)
				}
				p.ResumeAll()
			})
		}
	}
}

// Nor does an attempt last longer if its time ends just when a connection could be made: the client would wait a
// second for its closing handshake.
func TestAConnectionThatComesTooLateIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	var slow atomic.Bool
	client := rueidis.ClientOption{
		InitAddress: []string{p.Addr()},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			if end, ok := ctx.Deadline(); ok && time.Until(end) < 300*time.Millisecond && slow.Load() {
				<-ctx.Done()
			}
			return conn, err
		},
	}
	s := kit.OpenWith(t, client, &holdfast.Options{Lease: time.Second})
	l := rlock.New(s, "x", &rlock.Options{FixedLease: 600 * time.Millisecond})
	known := rlock.New(s, "x", &rlock.Options{FixedLease: time.Minute}) // its release may take longer
	require.NoError(t, kit.Lock(t, t.Context(), known).Release())
	slow.Store(true)
	p.StallNew(true)
	p.CutAll()
	for range 3 {
		took := kit.Stopwatch()
		_, err := l.TryLock(t.Context())
		require.Error(t, err)
		require.Less(t, took(), time.Second) // 0.2 s is meant, but another caller may be connecting
	}
	slow.Store(false)
	p.StallNew(false)
}

// Permits that nobody has heard of are neither free nor taken.
func TestPermitsOfASilentServer(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, permits *semaphore.Semaphore) error{
		"one attempt": func(ctx context.Context, p *semaphore.Semaphore) error { return p.TryAcquire(ctx, 1) },
		"a wait": func(ctx context.Context, p *semaphore.Semaphore) error {
			return p.TryAcquireFor(ctx, 1, 200*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			permits := semaphore.New(kit.Open(t, p.Addr(), &holdfast.Options{Lease: 6 * time.Second}), "permits")
			_, err := permits.TrySetPermits(t.Context(), 5)
			require.NoError(t, err)
			require.NoError(t, permits.Acquire(t.Context(), 1))
			p.Silence()
			took := kit.Stopwatch()
			err = call(t.Context(), permits)
			require.Error(t, err)
			require.NotErrorIs(t, err, holdfast.ErrBusy)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, took(), 4*time.Second) // a third of the lease is two seconds
			p.ResumeAll()
		})
	}
}

// A call that waits behind a renewal that has no reply has not heard of anybody who has the lock.
func TestTryLockForBehindARenewalAtASilentServer(t *testing.T) {
	t.Parallel()
	s, ctx, end := kit.BehindARenewal(t)
	_, err := rlock.New(s, "free", nil).TryLockFor(ctx, 200*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrNoReply)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	end()
}

// A waiter that stands in the line does not take 0.1 s for its attempt and 0.1 s more to leave. The quickest of some
// calls counts: a busy machine makes others take longer.
func TestTryLockForAtASilentServerFromTheLine(t *testing.T) {
	t.Parallel()
	const wait, both = 4 * time.Second, 150 * time.Millisecond
	least := time.Hour
	for tries := 0; tries < 5 && least >= wait+both; tries++ {
		srv := redistest.Start(t)
		p := proxy.Start(t, srv.Addr())
		s, other := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), rlock.New(other, "x", nil))
		took, ended := kit.Stopwatch(), make(chan time.Duration, 1)
		go func() {
			_, err := rlock.New(s, "x", nil).TryLockFor(t.Context(), wait)
			assert.Error(t, err)
			ended <- took()
		}()
		kit.Await(t, "it waits", func() bool { return srv.Int(t, "LLEN", wire.Line("x")) == 1 })
		acquires := p.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.HoldReply, proxy.EveryTime)
		least = min(least, kit.Within(t, kit.LongestWait, ended, "the end of the call"))
		acquires.Release()
		acquires.Remove()
		require.NoError(t, hold.Release())
	}
	t.Log(least)
	require.Less(t, least, wait+both)
}
