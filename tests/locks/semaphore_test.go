package locks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// free checks how many permits are free.
func free(t *testing.T, p *semaphore.Semaphore, n int) {
	t.Helper()
	got, err := p.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.Equal(t, n, got)
}

// goAcquire waits for permits in a goroutine.
func goAcquire(ctx context.Context, p *semaphore.Semaphore, n int) <-chan error {
	c := make(chan error, 1)
	go func() { c <- p.Acquire(ctx, n) }()
	return c
}

// pooling waits until a process waits for the pool.
func pooling(t *testing.T, srv *redistest.Server) {
	t.Helper()
	kit.Await(t, "the subscriptions",
		func() bool { return srv.Do(t, "PUBSUB", "NUMSUB", "redisson_sc:{pool}").([]any)[1].(int64) == 1 })
}

func TestPermitsAreTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.NewPool(t, kit.Open(t, srv.Addr(), nil), 5), semaphore.New(kit.Open(t, srv.Addr(), nil), "pool")
	made, err := b.TrySetPermits(t.Context(), 9)
	require.NoError(t, err)
	require.False(t, made)
	require.NoError(t, a.Acquire(t.Context(), 2))
	require.NoError(t, b.TryAcquire(t.Context(), 3))
	require.ErrorIs(t, a.TryAcquire(t.Context(), 1), holdfast.ErrBusy)
	began := time.Now()
	err = a.TryAcquireFor(t.Context(), 1, 100*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `semaphore "pool": try acquire for: `)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
	require.NoError(t, b.Release(t.Context(), 3))
	free(t, a, 3)

	require.NoError(t, a.AddPermits(t.Context(), -4))
	free(t, b, -1)
	require.NoError(t, a.Release(t.Context(), 2))
	free(t, b, 1)
	n, err := b.DrainPermits(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	free(t, a, 0)

	exists, err := a.ReleaseIfExists(t.Context(), 2)
	require.NoError(t, err)
	require.True(t, exists)
	was, err := a.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	exists, err = a.ReleaseIfExists(t.Context(), 2)
	require.NoError(t, err)
	require.False(t, exists)
	free(t, a, 0)
	made, err = a.TrySetPermitsFor(t.Context(), 3, 300*time.Millisecond)
	require.NoError(t, err)
	require.True(t, made)
	kit.Await(t, "its end", func() bool { return len(srv.Keyspace(t)) == 0 })
}

func TestASemaphoreNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	p := semaphore.New(s, "pool")
	srv.ResetStats(t)
	ctx := t.Context()
	const tooMany = 1 << 53
	for _, c := range []struct {
		says string
		err  error
	}{
		{`semaphore "pool": acquire: permits are -1, must be from 0 to 2^53 - 1`, p.Acquire(ctx, -1)},
		{`semaphore "pool": try acquire: permits are -1, must be from 0 to 2^53 - 1`, p.TryAcquire(ctx, -1)},
		{
			`semaphore "pool": try acquire for: permits are 9007199254740992, must be from 0 to`,
			p.TryAcquireFor(ctx, tooMany, time.Second),
		},
		{`semaphore "pool": release: permits are 0, must be from 1 to 2^53 - 1`, p.Release(ctx, 0)},
		{
			`semaphore "pool": add permits: permits are 9007199254740992, must be from -(2^53 - 1) to`,
			p.AddPermits(ctx, tooMany),
		},
		{`semaphore "": acquire: name is empty`, semaphore.New(s, "").Acquire(ctx, 1)},
		{`semaphore "": try acquire: name is empty`, semaphore.New(s, "").TryAcquire(ctx, 0)},
	} {
		assert.ErrorContains(t, c.err, c.says)
	}
	_, err := p.ReleaseIfExists(ctx, -1)
	assert.ErrorContains(t, err, "permits are -1, must be from 1")
	_, err = p.TrySetPermits(ctx, -1)
	assert.ErrorContains(t, err, "permits are -1, must be from 0")
	_, err = p.TrySetPermitsFor(ctx, 1, 0)
	assert.ErrorContains(t, err, "ttl is 0s, must be above 0")
	for _, take := range []func() error{
		func() error { return p.Acquire(ctx, 0) },
		func() error { return p.TryAcquire(ctx, 0) },
		func() error { return p.TryAcquireFor(ctx, 0, time.Hour) },
	} {
		assert.NoError(t, take(), "zero permits are always available")
	}
	assert.Zero(t, srv.CommandStats(t)["evalsha"]+srv.CommandStats(t)["eval"])
}

// No more callers are inside than there are permits, and in the end all permits are back.
func TestNoMoreThanThePermitsAreInside(t *testing.T) {
	t.Parallel()
	const permits, sessions, goroutines, rounds = 5, 3, 6, 20
	srv := redistest.Start(t)
	var inside atomic.Int64
	var all sync.WaitGroup
	var last *semaphore.Semaphore
	for range sessions {
		p := kit.NewPool(t, kit.Open(t, srv.Addr(), nil), permits)
		last = p
		for range goroutines {
			all.Go(func() {
				for range rounds {
					n := 1 + rand.IntN(3)
					if !assert.NoError(t, p.Acquire(t.Context(), n)) {
						return
					}
					assert.LessOrEqual(t, inside.Add(int64(n)), int64(permits))
					inside.Add(-int64(n))
					assert.NoError(t, p.Release(t.Context(), n))
				}
			})
		}
	}
	all.Wait()
	free(t, last, permits)
}

// A caller that wants many is not overtaken by those that want few, and later callers do not wait longer than
// necessary.
func TestThoseWhoWaitAreServedInOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, kit.Lease)
	other := kit.Open(t, srv.Addr(), nil)
	p := kit.NewPool(t, s, 4)
	require.NoError(t, semaphore.New(other, "pool").Acquire(t.Context(), 4))
	many := goAcquire(t.Context(), p, 3)
	pooling(t, srv)
	var few []<-chan error
	for n := range 3 {
		few = append(few, goAcquire(t.Context(), p, 1))
		kit.Await(t, "one more in the line behind the others", func() bool { return o.sum("wait") == n+2 })
	}
	for range 2 {
		require.NoError(t, semaphore.New(other, "pool").Release(t.Context(), 1))
		kit.SleepUntil(time.Now().Add(50 * time.Millisecond)) // nobody may take it in this time
		for _, c := range append(few, many) {
			require.Empty(t, c)
		}
	}
	require.NoError(t, semaphore.New(other, "pool").Release(t.Context(), 2))
	require.NoError(t, kit.Within(t, kit.Told, many, "the three"))
	require.NoError(t, kit.Within(t, kit.Told, few[0], "the one behind"))
	require.Empty(t, few[1])
	require.NoError(t, p.Release(t.Context(), 3))
	for _, c := range few[1:] {
		require.NoError(t, kit.Within(t, kit.Told, c, "another one"))
	}
	free(t, p, 1)
}

func TestAWaiterForPermitsNeedsNoMessage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := kit.NewPool(t, kit.Open(t, srv.Addr(), nil), 0)
	wait := goAcquire(t.Context(), p, 1)
	pooling(t, srv)
	srv.Do(t, "INCR", "pool")
	require.NoError(t, kit.Within(t, kit.LongestWait, wait, "the permit"))
}

// Redisson's braces give the names x and {x} one channel: waiting for one delays nobody who wants the other, which
// has permits.
func TestAWaiterForPermitsDelaysNobodyOnTheSameChannel(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	kit.NewPool(t, s, 0)
	braced := semaphore.New(s, "{pool}")
	_, err := braced.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := goAcquire(ctx, semaphore.New(s, "pool"), 1)
	pooling(t, srv)
	require.NoError(t, kit.Within(t, 5*time.Second, goAcquire(t.Context(), braced, 1), "a permit that is free"))
	cancel()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, waits, "the end of the wait"), context.Canceled)
}

func TestCloseEndsWaitsForPermits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	p := kit.NewPool(t, s, 0)
	wait := goAcquire(t.Context(), p, 1)
	pooling(t, srv)
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.Within(t, time.Second, wait, "the end"), holdfast.ErrClosed)
	require.ErrorIs(t, p.Acquire(t.Context(), 1), holdfast.ErrClosed)
	require.ErrorIs(t, p.Release(t.Context(), 1), holdfast.ErrClosed)
}

func TestSemaphoresInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	a, b := kit.OpenCluster(t, cluster, nil), kit.OpenCluster(t, cluster, nil)
	for i := range 3 {
		for _, name := range []string{fmt.Sprintf("pool:%d", i), fmt.Sprintf("app{%d}pool", i)} {
			p, q := semaphore.New(a, name), semaphore.New(b, name)
			made, err := p.TrySetPermits(t.Context(), 1)
			require.NoError(t, err)
			require.True(t, made)
			require.NoError(t, p.Acquire(t.Context(), 1))
			wait := goAcquire(t.Context(), q, 1)
			node := cluster.NodeOf(t, name)
			kit.Await(t, "the waiter", func() bool { return subscribers(t, cluster, node, name, "auto") })
			require.NoError(t, p.Release(t.Context(), 1))
			require.NoError(t, kit.Within(t, kit.Told, wait, "the permit"))
		}
	}
}

// Two releases wake two waiters, however close together they are.
func TestReleasesThatComeTogetherWakeAsManyAsTheyServe(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	p, q := kit.NewPool(t, s, 2), semaphore.New(other, "pool")
	for range 200 {
		require.NoError(t, q.Acquire(t.Context(), 2))
		first, second := goAcquire(t.Context(), p, 1), goAcquire(t.Context(), p, 1)
		pooling(t, srv)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { assert.NoError(t, q.Release(t.Context(), 1)) })
		}
		all.Wait()
		require.NoError(t, kit.Within(t, kit.Told, first, "the first"))
		require.NoError(t, kit.Within(t, kit.Told, second, "the second"))
		require.NoError(t, p.Release(t.Context(), 2))
	}
}
