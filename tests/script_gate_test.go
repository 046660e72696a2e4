package tests

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Behind a silent connection callers come back when their contexts end, however many have come
// before them, and those that keep or give back have places of their own.
func TestNobodyIsStuckBehindASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRunner(t, newClient(t, srv.Addr()))
	require.NoError(t, take(t.Context(), r, script.Take, "x"))
	srv.Pause()

	const waves, callers, patience = 3, 1000, 300 * time.Millisecond
	late := make(chan time.Duration, waves*callers)
	var wg sync.WaitGroup
	for range waves { // each comes when the one before gives up
		gaveUp := make(chan struct{})
		var once sync.Once
		for range callers {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				began := time.Now()
				assert.ErrorIs(t, take(ctx, r, script.Take, "x"), context.DeadlineExceeded)
				late <- time.Since(began) - patience
				once.Do(func() { close(gaveUp) })
			})
		}
		within(t, 10*time.Second, gaveUp, "the end of the first")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := take(ctx, r, script.Keep, "x")
	assert.Equal(t, script.Unknown, script.ClassOf(err), "a renewal has its place and is sent: %v", err)
	err = take(ctx, r, script.Take, "x")
	assert.Equal(t, script.Refused, script.ClassOf(err), "nothing is sent for whom there is no place: %v", err)
	returned := make(chan struct{})
	go func() {
		wg.Wait()
		close(returned)
	}()
	within(t, 10*time.Second, returned, "the callers")
	close(late)
	var latest time.Duration
	for l := range late {
		latest = max(latest, l)
	}
	assert.Less(t, latest, 5*time.Second, "the server stays silent for much longer")

	srv.Resume()
	assertAllRun(t, r, waves*callers, []string{"x"})
}

// assertAllRun asserts that n callers at once get through, each to one of the keys.
func assertAllRun(t *testing.T, r *script.Runner, n int, keys []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	failed := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := take(ctx, r, script.Lane(i%2), keys[i%len(keys)]); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		t.Errorf("%d of %d calls failed, one of them of: %v", len(failed), n, <-failed)
	}
}

// A connection that dies gives the places back too.
func TestADeadConnectionFreesItsPlaces(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRunner(t, newClient(t, srv.Addr(), func(opt *rueidis.ClientOption) {
		opt.ConnWriteTimeout, opt.Dialer.KeepAlive = time.Second, 500*time.Millisecond
	}))
	require.NoError(t, take(t.Context(), r, script.Take, "x"))
	srv.Pause()
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() { // until the client gives the connection up
			assert.Error(t, take(t.Context(), r, script.Lane(i%2), "x"))
		})
	}
	wg.Wait()
	srv.Resume()
	await(t, "a connection", func() bool { return take(t.Context(), r, script.Take, "x") == nil })
	assertAllRun(t, r, 1000, []string{"x"})
}

// In a cluster one silent node delays no call to another.
func TestASilentNodeDelaysNoOther(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: cluster.Addrs(), PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true,
		ConnWriteTimeout: 20 * time.Second, Dialer: net.Dialer{Timeout: 2 * time.Second, KeepAlive: 20 * time.Second},
	})
	require.NoError(t, err)
	r := newRunner(t, client)
	stopped := cluster.NodeOf(t, "k0")
	keys := map[bool][]string{} // by whether they are on the node that will be stopped
	for i := range 300 {
		key := "k" + strconv.Itoa(i)
		on := cluster.NodeOf(t, key) == stopped
		keys[on] = append(keys[on], key)
		require.NoError(t, take(t.Context(), r, script.Take, key))
	}
	stopped.Pause()

	stuck, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() { assert.Error(t, take(stuck, r, script.Lane(i%2), keys[true][i%len(keys[true])])) })
	}
	assertAllRun(t, r, 1000, keys[false])
	cancel()
	wg.Wait()
	stopped.Resume()
}
