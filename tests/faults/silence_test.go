package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func try(i int) string { return fmt.Sprintf("try %d", i) }

// Whatever the phase of the renewals in which the network goes silent: when somebody else gets the lock, the holder
// already knows that it has lost it.
func TestAHolderBehindAStalledNetworkLearnsItsLossFirst(t *testing.T) {
	const tries = 50
	const lease = 3 * time.Second
	srv := redistest.Start(t)
	m := kit.StartMonitor(t, srv)
	others := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	kit.InParallel(t, tries/2, kit.UpTo(tries), try, func(t *testing.T, i int) {
		kit.Building <- struct{}{}
		p := proxy.Start(t, srv.Addr())
		s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
		<-kit.Building
		name, stood := fmt.Sprintf("lock %d", i), kit.Stillness()
		h := kit.Lock(t, t.Context(), rlock.New(s, name, nil))
		ctx := h.Context(t.Context())
		told := make(chan time.Time, 1)
		go func(done <-chan struct{}) {
			<-done
			told <- time.Now()
		}(ctx.Done())

		<-time.After(lease / 3 * time.Duration(i) / tries)
		if err := h.Err(); err != nil { // where this process stood still it may be lost already
			require.Greater(t, stood(), lease/3, "%v", err)
		}
		p.Silence()

		next := kit.Lock(t, t.Context(), rlock.New(others, name, nil))
		err, cause := h.Err(), ctx.Err()
		got, since := time.Now(), kit.Stillness()
		require.ErrorIs(t, err, holdfast.ErrLost)
		require.ErrorIs(t, cause, context.Canceled)
		require.Equal(t, err, context.Cause(ctx))
		granted := m.Granted(t, name, next.ID())
		require.True(t, h.Deadline().Before(granted), "trusted until %v, granted to another at %v",
			h.Deadline(), granted)
		// A timer closes the channel, so its reader may learn of the loss a little later than by asking.
		late := kit.Within(t, time.Second, told, "the end of the context").Sub(got)
		require.Less(t, late-since(), 50*time.Millisecond)
		require.NoError(t, next.Release())
		p.ResumeAll()
	})
}

// A single connection that goes silent does not cost a hold, provided that another one can be made.
func TestASilentConnectionDoesNotCostTheHold(t *testing.T) {
	const tries = 10
	const lease = 6 * time.Second
	srv := redistest.Start(t)
	others := kit.Open(t, srv.Addr(), nil)
	kit.InParallel(t, tries, kit.UpTo(tries), try, func(t *testing.T, i int) {
		p := proxy.Start(t, srv.Addr())
		s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
		name := fmt.Sprintf("lock %d", i)
		h := kit.Lock(t, t.Context(), rlock.New(s, name, nil))
		began := time.Now()

		<-time.After(lease / 3 * time.Duration(i) / tries)
		before := p.Accepted()
		p.StallAll() // for good

		for end := began.Add(3 * lease / 2); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
			if err := h.Err(); !assert.NoError(t, err) {
				break
			}
		}
		require.Greater(t, p.Accepted(), before)
		_, err := rlock.New(others, name, nil).TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, h.Release())
	})
}

// However long the lease is, the client notices a silent connection as soon as it would by default.
func TestALongLeaseDoesNotMakeASilentConnectionLast(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 10 * time.Minute})
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	p.StallAll()
	looked := make(chan error, 1)
	go func() {
		_, err := rlock.New(s, "x", nil).Locked(t.Context())
		looked <- err
	}()
	require.NoError(t, kit.Within(t, 20*time.Second, looked, "an answer on another connection"))
	require.NoError(t, hold.Release())
}

// A loss tells why the renewals failed, and does not look like a deadline of the caller's.
func TestALossByAStalledServerIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 3 * time.Second})
	began := time.Now()
	h := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	locked := time.Now()
	srv.Pause()
	defer srv.Resume()
	ctx := h.Context(t.Context())
	kit.Within(t, 10*time.Second, ctx.Done(), "the loss")
	loss, ok := errors.AsType[*holdfast.LostError](h.Err())
	require.True(t, ok)
	require.Error(t, loss.Err)
	require.LessOrEqual(t, loss.Held, h.Deadline().Sub(began))
	require.GreaterOrEqual(t, loss.Held, h.Deadline().Sub(locked))
	require.NotErrorIs(t, h.Err(), context.DeadlineExceeded)
}

// Whoever makes the new connection, and however long that takes: each call ends with its own ctx.
func TestNobodyWaitsForSomebodyElsesConnection(t *testing.T) {
	t.Parallel()
	type call struct {
		what  string
		begin func(ctx context.Context, s *holdfast.Session, held *holdfast.Hold) error
	}
	calls := []call{
		{"TryLock", func(ctx context.Context, s *holdfast.Session, _ *holdfast.Hold) error {
			_, err := rlock.New(s, "orders", nil).TryLock(ctx)
			return err
		}},
		{"Lock", func(ctx context.Context, s *holdfast.Session, _ *holdfast.Hold) error {
			_, err := rlock.New(s, "orders", nil).Lock(ctx)
			return err
		}},
		{"Locked", func(ctx context.Context, s *holdfast.Session, _ *holdfast.Hold) error {
			_, err := rlock.New(s, "orders", nil).Locked(ctx)
			return err
		}},
		{"Extend", func(ctx context.Context, _ *holdfast.Session, held *holdfast.Hold) error {
			return held.Extend(ctx, time.Minute)
		}},
		{"TryAcquire", func(ctx context.Context, s *holdfast.Session, _ *holdfast.Hold) error {
			return semaphore.New(s, "pool").TryAcquire(ctx, 1)
		}},
		{"Wait", func(ctx context.Context, s *holdfast.Session, _ *holdfast.Hold) error {
			return latch.New(s, "gate").Wait(ctx)
		}},
	}
	// A call that begins in the moment in which its connection ends may be the one that the client makes another for. It
	// heeds its ctx when that attempt is over, which may last for 2 s.
	const connects = 3 * time.Second
	for _, first := range []string{"with a deadline", "without one", "cancelled"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
			held := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
			srv.Pause() // the kernel goes on accepting connections
			defer srv.Resume()
			before := p.Accepted()
			p.CutAll()

			patient, cancel := context.WithCancel(t.Context())
			defer cancel()
			if first == "with a deadline" {
				patient, cancel = context.WithTimeout(patient, time.Minute)
				defer cancel()
			}
			gone := make(chan error, 1)
			go func() {
				_, err := rlock.New(s, "other", nil).Lock(patient)
				gone <- err
			}()
			kit.Await(t, "a connection", func() bool { return p.Accepted() > before })
			if first == "cancelled" {
				cancel()
				require.ErrorIs(t, kit.Within(t, connects, gone, "the end of the one that connects"), context.Canceled)
			}

			const patience = 50 * time.Millisecond
			elapsed := kit.Stopwatch()
			var wg sync.WaitGroup
			for _, c := range calls {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					assert.ErrorIs(t, c.begin(ctx, s, held), context.DeadlineExceeded, c.what)
					assert.Less(t, elapsed(), 10*patience, c.what)
				})
			}
			wg.Wait()
			if first != "cancelled" {
				cancel()
				require.ErrorIs(t, kit.Within(t, connects, gone, "the end of the one that connects"), patient.Err())
			}
		})
	}
}
