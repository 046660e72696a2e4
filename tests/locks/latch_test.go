package locks

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const readyChannel = "redisson_countdownlatch__channel__{ready}"

// waitFor waits for a latch in a goroutine.
func waitFor(ctx context.Context, l *latch.Latch) <-chan error {
	c := make(chan error, 1)
	go func() { c <- l.Wait(ctx) }()
	return c
}

// listening waits until the latch "ready" has n subscribers.
func listening(t *testing.T, srv *redistest.Server, n int64) {
	t.Helper()
	kit.Await(t, "the subscriptions",
		func() bool { return srv.Do(t, "PUBSUB", "NUMSUB", readyChannel).([]any)[1].(int64) == n })
}

// closed sets the latch "ready" to n.
func closed(t *testing.T, l *latch.Latch, n int) {
	t.Helper()
	ok, err := l.TrySetCount(t.Context(), n)
	require.NoError(t, err)
	require.True(t, ok)
}

func TestALatchOpensWhenAllHaveCountedDown(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := latch.New(kit.Open(t, srv.Addr(), nil), "ready"), latch.New(kit.Open(t, srv.Addr(), nil), "ready")
	require.NoError(t, a.Wait(t.Context()), "an unset latch is open")
	require.NoError(t, a.CountDown(t.Context()), "an unset latch can be counted down")
	for range 2 { // once more after zero
		closed(t, a, 2)
		ok, err := b.TrySetCount(t.Context(), 5)
		require.NoError(t, err)
		require.False(t, ok)
		waits := []<-chan error{waitFor(t.Context(), a), waitFor(t.Context(), b)}
		listening(t, srv, 2)
		n, err := b.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, a.CountDown(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, a.Wait(ctx), context.DeadlineExceeded)
		cancel()
		require.Empty(t, waits[0])
		require.Empty(t, waits[1])

		before := time.Now()
		require.NoError(t, b.CountDown(t.Context()))
		for _, w := range waits {
			require.NoError(t, kit.Within(t, kit.Told, w, "the opening"))
		}
		t.Log("open after", time.Since(before))
		n, err = a.Count(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, srv.Keyspace(t))
		kit.Await(t, "the subscriptions' end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

func TestADeletedLatchLetsWaitersThrough(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := latch.New(kit.Open(t, srv.Addr(), nil), "ready"), latch.New(kit.Open(t, srv.Addr(), nil), "ready")
	ok, err := a.Delete(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	closed(t, a, 2)
	wait := waitFor(t.Context(), a)
	listening(t, srv, 1)
	ok, err = b.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, kit.Within(t, kit.Told, wait, "the opening"))
}

// What was sent in one round, and is executed in a later one, neither opens the latch nor closes it.
func TestALateCallConcernsNoOtherRoundOfALatch(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	for name, c := range map[string]struct {
		script string
		call   func(ctx context.Context, l *latch.Latch) (bool, error)
		left   int // of the later round, when the call is executed
	}{
		"TrySetCount": {
			"latch_set", func(ctx context.Context, l *latch.Latch) (bool, error) { return l.TrySetCount(ctx, 5) }, 0,
		},
		"Delete": {"latch_delete", func(ctx context.Context, l *latch.Latch) (bool, error) { return l.Delete(ctx) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, proxied := kit.StartProxied(t)
			opts := &holdfast.Options{Lease: lease}
			late := latch.New(kit.Open(t, proxied.Addr(), opts), "ready")
			other := latch.New(kit.Open(t, srv.Addr(), opts), "ready")
			closed(t, late, 1) // now its session knows the server's clock
			require.NoError(t, late.CountDown(t.Context()))
			sends := proxied.On(kit.ScriptNamed(c.script), proxy.Stall, proxy.First)
			kit.GiveUp(t, sends, func(ctx context.Context) error { return kit.ErrorOf(c.call(ctx, late)) })
			sent := time.Now() // or earlier

			closed(t, other, c.left+1)
			require.NoError(t, other.CountDown(t.Context()))
			kit.SleepUntil(sent.Add(lease/3 + 10*time.Millisecond))
			sends.Release()
			sends.WaitAnswered(t, 1)
			left, err := other.Count(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.left, left)
		})
	}
}

func TestALatchNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	srv.ResetStats(t)
	for n, says := range map[int]string{0: "count is 0", -1: "count is -1", 1 << 53: "must be from 1 to 2^53 - 1"} {
		_, err := latch.New(s, "ready").TrySetCount(t.Context(), n)
		assert.ErrorContains(t, err, says)
		assert.ErrorContains(t, err, `latch "ready": try set count: `)
	}
	nameless := latch.New(s, "")
	_, err := nameless.TrySetCount(t.Context(), 1)
	assert.ErrorContains(t, err, "name is empty")
	assert.ErrorContains(t, nameless.CountDown(t.Context()), "name is empty")
	assert.ErrorContains(t, nameless.Wait(t.Context()), "name is empty")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, latch.New(s, "ready").Wait(ended), context.Canceled)
	assert.Zero(t, srv.CommandStats(t)["evalsha"])
}

// However many callers wait in a process, it looks once for each event.
func TestTenThousandWaitersLookAsOne(t *testing.T) {
	const waiters = 10_000
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := latch.New(s, "ready")
	closed(t, l, 3)
	first := waitFor(t.Context(), l)
	listening(t, srv, 1)
	kit.Await(t, "the look behind the subscription", func() bool { return srv.CommandStats(t)["evalsha"] >= 3 })
	srv.ResetStats(t)

	var all, in sync.WaitGroup
	for range waiters {
		in.Add(1)
		all.Go(func() {
			in.Done()
			assert.NoError(t, latch.New(s, "ready").Wait(t.Context()))
		})
	}
	in.Wait()
	for range 2 {
		require.NoError(t, l.CountDown(t.Context()))
	}
	require.Empty(t, first)
	began := time.Now()
	require.NoError(t, l.CountDown(t.Context()))
	all.Wait()
	t.Log("all through after", time.Since(began))
	require.NoError(t, <-first)
	stats := srv.CommandStats(t)
	// There are three counts, a look at zero, and some looks while waiters came or afterwards.
	require.LessOrEqual(t, stats["evalsha"]+stats["eval"], int64(3+1+10))
	require.Zero(t, stats["subscribe"])
}

// A look that was in flight when the latch was set again tells nothing to later callers.
func TestALookDoesNotAnswerLaterCallers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s, other := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	require.NoError(t, latch.New(s, "ready").Wait(t.Context())) // now the script is known
	look := p.On(proxy.Command("EVALSHA").With("ready"), proxy.HoldReply, proxy.First)
	first := waitFor(t.Context(), latch.New(s, "ready"))
	look.Wait(t, 1)
	closed(t, latch.New(other, "ready"), 1)
	second := waitFor(t.Context(), latch.New(s, "ready"))
	kit.SleepUntil(time.Now().Add(50 * time.Millisecond)) // time for it to arrive
	look.Release()
	require.NoError(t, kit.Within(t, kit.Told, first, "the first caller"))
	listening(t, srv, 1)
	require.Empty(t, second)
	require.NoError(t, latch.New(other, "ready").CountDown(t.Context()))
	require.NoError(t, kit.Within(t, kit.Told, second, "the later caller"))
}

func TestALatchWhoseMessageIsLostIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := latch.New(kit.Open(t, srv.Addr(), nil), "ready")
	closed(t, l, 1)
	wait := waitFor(t.Context(), l)
	listening(t, srv, 1)
	srv.Do(t, "DEL", "ready")
	require.NoError(t, kit.Within(t, kit.LongestWait, wait, "the opening"))
}

func TestAWaitForALatchEnds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	l := latch.New(s, "ready")
	closed(t, l, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled, stays := waitFor(ctx, l), waitFor(t.Context(), l)
	listening(t, srv, 1)
	cancel(assert.AnError)
	err := kit.Within(t, kit.Told, cancelled, "the end")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, assert.AnError)
	require.Empty(t, stays)
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.Within(t, kit.Told, stays, "the end"), holdfast.ErrClosed)
	require.ErrorIs(t, l.Wait(t.Context()), holdfast.ErrClosed)
	require.ErrorIs(t, l.CountDown(t.Context()), holdfast.ErrClosed)
	n, err := latch.New(other, "ready").Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestAKeyThatIsNoLatchIsAnErrorForAll(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := latch.New(kit.Open(t, srv.Addr(), nil), "ready")
	closed(t, l, 1)
	waits := []<-chan error{waitFor(t.Context(), l), waitFor(t.Context(), l)}
	listening(t, srv, 1)
	// This happens in one step: a look in between would find no latch, which counts as open.
	srv.Do(t, "EVAL", "redis.call('DEL', KEYS[1]) redis.call('SADD', KEYS[1], 'precious')", "1", "ready")
	srv.Do(t, "PUBLISH", readyChannel, "0")
	for _, w := range waits {
		err := kit.Within(t, kit.Told, w, "the error")
		require.Error(t, err)
		require.ErrorContains(t, err, `latch "ready": wait: holdfast: wrong kind: `)
	}
	require.ErrorIs(t, l.CountDown(t.Context()), holdfast.ErrWrongKind)
	_, err := l.Count(t.Context())
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
}

// Nobody can tell a second copy of a count from a second count, so no copy is ever sent.
func TestALostCountIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action  proxy.Action
		unknown bool
		left    int
	}{
		"reply lost":      {proxy.DropReply, true, 2},
		"never executed":  {proxy.ResetBefore, true, 3},
		"loading":         {proxy.Answer(kit.LoadingReply), false, 2},
		"nothing happens": {proxy.Pass, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			srv.Do(t, "SCRIPT", "LOAD", lua.Source("latch_count_down"))
			p := proxy.Start(t, srv.Addr())
			s := kit.Open(t, p.Addr(), nil)
			l := latch.New(s, "ready")
			closed(t, l, 3)
			p.On(proxy.Command("EVALSHA").With("ready"), c.action, proxy.First)
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it is sent all the same
			if err := l.CountDown(ctx); c.unknown {
				require.ErrorIs(t, err, holdfast.ErrUnknown)
			} else {
				require.NoError(t, err)
			}
			n, err := l.Count(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.left, n)
		})
	}
}

func TestLatchesInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	a := kit.OpenCluster(t, cluster, nil)
	b := kit.OpenCluster(t, cluster, nil)
	_, err := latch.New(a, "app{42}ready").TrySetCount(t.Context(), 1)
	require.ErrorContains(t, err, "cannot be used in a cluster")
	for _, name := range []string{"ready", "a:ready", "others"} {
		closed(t, latch.New(a, name), 1)
		wait := waitFor(t.Context(), latch.New(b, name))
		node, channel := cluster.NodeOf(t, name), "redisson_countdownlatch__channel__{"+name+"}"
		kit.Await(t, "the subscription", func() bool {
			if cluster.Sharded() {
				return node.Do(t, "PUBSUB", "SHARDNUMSUB", channel).([]any)[1].(int64) == 1
			}
			// plain messages are heard at any node
			return slices.ContainsFunc(cluster.Nodes, func(n *redistest.Server) bool {
				return len(n.Strs(t, "PUBSUB", "CHANNELS", channel)) == 1
			})
		})
		require.NoError(t, latch.New(a, name).CountDown(t.Context()))
		require.NoError(t, kit.Within(t, kit.Told, wait, "the opening"))
	}
}

// A semaphore of that name may lack permits.
func TestALatchBelowZeroIsOpen(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := latch.New(kit.Open(t, srv.Addr(), nil), "ready")
	srv.Do(t, "SET", "ready", "-2")
	n, err := l.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, l.Wait(t.Context()))
}
