package locks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Acquired.Attempts counts both attempts of a TryLock whose reply was lost and that was repeated.
func TestAttemptsOfATryThatIsRepeated(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	o := &lookout{}
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: o.observer()})
	l := rlock.New(s, "orders", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	p.On(kit.ScriptOf(kit.Kinds[0], "acquire"), proxy.DropReply, proxy.First)
	before := o.sum("attempt well") + o.sum("attempt badly")
	h, err := l.TryLock(t.Context())
	require.NoError(t, err)
	defer h.Release()
	asked := o.sum("attempt well") + o.sum("attempt badly") - before
	require.Equal(t, asked, o.last.Attempts, "attempts told %d", asked)
}

// A call that is cancelled in the session's line before it was first has made no attempt.
func TestACancelledWaiterHasMadeNoAttempt(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	attempts := make(chan int, 10)
	o := &lookout{}
	ob := o.observer()
	ob.Acquire = func(context.Context, holdfast.Subject) func(holdfast.Acquired) {
		return func(a holdfast.Acquired) {
			if a.Err != nil {
				attempts <- a.Attempts
			}
		}
	}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: ob})
	hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil))
	l := rlock.New(s, "orders", nil)
	first := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "first", func() bool { return o.sum("attempt busy") == 2 })
	ctx, cancel := context.WithCancel(t.Context())
	second := kit.GoLock(ctx, l.Lock)
	kit.Await(t, "second", func() bool { return o.sum("wait") == 2 })
	cancel()
	<-second
	require.Equal(t, 2, o.sum("attempt busy"))
	require.Equal(t, 0, kit.Within(t, kit.LongestWait, attempts, "word of the attempts"))
	require.NoError(t, hold.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, first, "the first").Release())
}

// An attempt of a plain semaphore whose reply was lost is not counted.
func TestAttemptsOfASemaphore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	o := &lookout{}
	ob := o.observer()
	var attempts int
	acquire := ob.Acquire
	ob.Acquire = func(ctx context.Context, of holdfast.Subject) func(holdfast.Acquired) {
		done := acquire(ctx, of)
		return func(a holdfast.Acquired) { attempts = a.Attempts; done(a) }
	}
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: ob})
	sem := semaphore.New(s, "permits")
	_, err := sem.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, sem.Acquire(t.Context(), 1))
	drop := p.On(proxy.Command("EVALSHA"), proxy.DropReply, proxy.Second)
	err = sem.Acquire(t.Context(), 1) // busy, then unknown
	t.Log(err, drop.Count())
	require.Equal(t, o.sum("attempt busy")+o.sum("attempt badly"), attempts)
}

// An open latch keeps nobody waiting.
func TestAnOpenLatchKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, kit.Lease)
	require.NoError(t, latch.New(s, "open").Wait(t.Context()))
	require.Zero(t, o.sum("wait"))
}

// Close is called while a renewal is in flight.
func TestCloseIsNoFailedRenewal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	// All at once, because each of them waits for a renewal.
	kit.InParallel(t, 40, kit.UpTo(40), strconv.Itoa, func(t *testing.T, i int) {
		p := proxy.Start(t, srv.Addr())
		o, log := &lookout{}, &kit.Journal{}
		s := kit.Open(t, p.Addr(), &holdfast.Options{
			Lease: 24 * time.Second, Observer: o.observer(), // a renewal may take a sixth of it
			Logger: log.JsonLogger(),
		})
		for j := range 30 {
			kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("orders", i, " ", j), nil))
		}
		r := p.On(kit.ScriptOf(kit.Kinds[0], "renew"), proxy.Delay(30*time.Millisecond), proxy.EveryTime)
		r.WaitMatched(t, 1)
		require.NoError(t, s.Close())
		require.Zero(t, o.sum("renewal badly"), "%s", log)
		require.Empty(t, log.String())
	})
}

// What an observer is told of a loss agrees with the hold's error, however late it was noticed.
func TestHowLongALostHoldWasHeld(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	ended := make(chan holdfast.Ended, 1)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
		Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
			return func(e holdfast.Ended) { ended <- e }
		},
	}})
	h := kit.Lock(t, t.Context(), rlock.New(s, "orders", &rlock.Options{FixedLease: 100 * time.Millisecond}))
	for deadline := h.Deadline(); time.Since(deadline) < 200*time.Millisecond; {
		time.Sleep(time.Millisecond)
	}
	lost, ok := errors.AsType[*holdfast.LostError](h.Err())
	require.True(t, ok)
	e := kit.Within(t, kit.LongestWait, ended, "word of the end")
	require.ErrorIs(t, e.Err, holdfast.ErrLost)
	require.Equal(t, lost.Held, e.Held)
}

// An observer is not told of calls that send nothing, of any kind.
func TestNobodyIsToldOfCallsThatAreNotSent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, kit.Lease)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	several := multilock.New(rlock.New(s, "a", nil), rlock.New(s, "b", nil))
	for _, l := range []holdfast.Locker{rlock.New(s, "a", nil), several, rlock.New(s, "", nil)} {
		_, err := l.Lock(ended)
		require.Error(t, err)
	}
	require.NoError(t, s.Close())
	for _, l := range []holdfast.Locker{rlock.New(s, "a", nil), several} {
		_, err := l.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
	}
	require.Empty(t, o.told)
}
