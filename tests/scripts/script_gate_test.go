package scripts

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Behind a silent connection callers return when their contexts end, however many have come before them. Attempts,
// renewals and releases have separate places.
func TestNobodyIsStuckBehindASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRunner(t, kit.NewClient(t, srv.Addr()))
	require.NoError(t, take(t.Context(), r, script.Take, "x"))
	srv.Pause()

	const waves, callers, patience = 3, 1000, 300 * time.Millisecond
	late := make(chan time.Duration, 2*waves*callers)
	var wg sync.WaitGroup
	flood := func(lane script.Lane) {
		for range waves { // each wave comes when the one before it gives up
			gaveUp := make(chan struct{})
			var once sync.Once
			for range callers {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					began := time.Now()
					assert.ErrorIs(t, take(ctx, r, lane, "x"), context.DeadlineExceeded)
					late <- time.Since(began) - patience
					once.Do(func() { close(gaveUp) })
				})
			}
			kit.Within(t, 10*time.Second, gaveUp, "the end of the first")
		}
	}
	class := func(lane script.Lane) script.Class { // there is time to send it, though the machine is busy with the others
		ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
		defer cancel()
		return script.ClassOf(take(ctx, r, lane, "x"))
	}
	flood(script.Take)
	assert.Equal(t, script.Refused, class(script.Take), "nothing is sent for whom there is no place")
	assert.Equal(t, script.Unknown, class(script.Return), "a release has its place and is sent")
	flood(script.Return)
	assert.Equal(t, script.Refused, class(script.Return), "nor for a release")
	assert.Equal(t, script.Unknown, class(script.Keep), "a renewal has its place and is sent")
	returned := make(chan struct{})
	go func() {
		wg.Wait()
		close(returned)
	}()
	kit.Within(t, 10*time.Second, returned, "the callers")
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
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second) // silent servers are waited for longer than that
	defer cancel()
	failed := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := take(ctx, r, script.Lane(i%3), keys[i%len(keys)]); err != nil {
				failed <- err
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		t.Errorf("%d of %d calls failed, one of them of: %v", len(failed), n, <-failed)
	}
}

// far delays every reply through the proxy, as if the server were that far away.
func far(p *proxy.Proxy, away time.Duration) { p.On(proxy.Any, proxy.Delay(away), proxy.EveryTime) }

// However far away the server is, releases get through as fast as the attempts did.
func TestReleasesDoNotPileUpInFrontOfAServerThatIsFarAway(t *testing.T) {
	t.Parallel()
	const holds, away, lease = 900, time.Second, 30 * time.Second // a release takes five seconds at most
	p := proxy.Start(t, redistest.Start(t).Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	all := make([]*holdfast.Hold, holds)
	for i := range all {
		all[i] = kit.Lock(t, t.Context(), rlock.New(s, strconv.Itoa(i), nil))
	}
	far(p, away)
	var wg sync.WaitGroup
	var unknown atomic.Int64
	for _, h := range all {
		wg.Go(func() {
			if err := h.Release(); err != nil {
				unknown.Add(1)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, unknown.Load(), "of %d", holds)
}

// An attempt that has to wait for its place loses nothing by it: its time begins when it is sent.
func TestAnAttemptThatWaitsForItsPlaceIsNotLate(t *testing.T) {
	t.Parallel()
	const attempts, away, lease = 2640, 2 * time.Second, 30 * time.Second // an attempt may be in flight for ten seconds
	p := proxy.Start(t, redistest.Start(t).Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release()) // now the clock is known
	far(p, away)
	sent := p.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.Pass, proxy.EveryTime)
	var wg sync.WaitGroup
	for i := range attempts {
		wg.Go(func() {
			_, err := rlock.New(s, strconv.Itoa(i), &rlock.Options{FixedLease: lease}).Lock(t.Context())
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Equal(t, attempts, sent.Matched(), "none was refused and sent again")
}

// A connection that dies frees its places, too.
func TestADeadConnectionFreesItsPlaces(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRunner(t, kit.NewClient(t, srv.Addr(), func(opt *rueidis.ClientOption) {
		opt.ConnWriteTimeout, opt.Dialer.KeepAlive = 3*time.Second, 500*time.Millisecond
	}))
	require.NoError(t, take(t.Context(), r, script.Take, "x"))
	srv.Pause()
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() { // until the client gives the connection up
			assert.Error(t, take(t.Context(), r, script.Lane(i%3), "x"))
		})
	}
	wg.Wait()
	srv.Resume()
	kit.Await(t, "a connection", func() bool { return take(t.Context(), r, script.Take, "x") == nil })
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
	redistest.Limit(t, client.Close)
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
		wg.Go(func() { assert.Error(t, take(stuck, r, script.Lane(i%3), keys[true][i%len(keys[true])])) })
	}
	assertAllRun(t, r, 1000, keys[false])
	cancel()
	wg.Wait()
	stopped.Resume()
}
