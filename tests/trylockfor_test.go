package tests

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A process too busy to run the waiter in time makes nothing else of ErrBusy. Not parallel:
// it takes the processors for itself.
func TestTryLockForThatIsScheduledLateIsBusy(t *testing.T) {
	s := open(t, redistest.Start(t).Addr(), nil)
	hold := lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: time.Minute}))
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

// An attempt that is under way when the time is over, at a server that does not answer, is
// given up soon after, and its outcome is not known.
func TestTryLockForAtASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := open(t, p.Addr(), nil)
	require.NoError(t, lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
	p.StallAll()
	began := time.Now()
	_, err := rlock.New(s, "x", nil).TryLockFor(t.Context(), 200*time.Millisecond)
	assert.ErrorIs(t, err, holdfast.ErrUnknown)
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(began), time.Second)
	p.ResumeAll()
	await(t, "what may have been granted to be given back", func() bool { return len(srv.Keyspace(t)) == 0 })
}
