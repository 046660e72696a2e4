package locks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestObserverOfASemaphore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, kit.Lease)
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
	o, s := observed(t, srv, kit.Lease)
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
	o, s := observed(t, srv, kit.Lease)
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
	require.Equal(t, map[string]int{"acquire": callers, "acquired well": callers, "wait": callers, "waited": callers},
		told)
}
