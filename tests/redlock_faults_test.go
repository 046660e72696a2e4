package tests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A fleet is independent servers with a proxy in front of each. What goes through the proxies is called near,
// what does not far: faults of the network are the near one's alone.
type fleet struct {
	*testing.T
	servers []*redistest.Server
	proxies []*proxy.Proxy
}

func newFleet(t *testing.T, n int) *fleet {
	building <- struct{}{}
	defer func() { <-building }()
	f := &fleet{T: t, servers: startServers(t, n)}
	for _, srv := range f.servers {
		loadScripts(t, srv)
		f.proxies = append(f.proxies, proxy.Start(t, srv.Addr()))
	}
	return f
}

// near opens a session on each server, through the proxies.
func (f *fleet) near(opts *holdfast.Options) (sessions []*holdfast.Session) {
	f.Helper()
	for _, p := range f.proxies {
		sessions = append(sessions, open(f, p.Addr(), opts))
	}
	return sessions
}

// far opens a session on each server.
func (f *fleet) far(opts *holdfast.Options) []*holdfast.Session {
	f.Helper()
	return openAll(f, f.servers, opts)
}

// empty waits until nothing is left on any server.
func (f *fleet) empty() {
	f.Helper()
	await(f, "empty servers", func() bool { return left(f, f.servers) == 0 })
}

// seasoned waits until the servers have been up for a lease, as far as that can be told.
func (f *fleet) seasoned(length time.Duration) {
	f.Helper()
	for _, srv := range f.servers {
		await(f, "a server that has been up for a lease", func() bool { return uptime(f, srv) > int(length/time.Second) })
	}
}

// uptime is for how many seconds a server has been up, give or take one.
func uptime(t testing.TB, srv *redistest.Server) (seconds int) {
	t.Helper()
	_, rest, _ := strings.Cut(srv.Str(t, "INFO", "server"), "uptime_in_seconds:")
	_, err := fmt.Sscan(rest, &seconds)
	require.NoError(t, err)
	return seconds
}

// cut cuts the near ones off from a server; heal ends that for all.
func (f *fleet) cut(i int) {
	f.proxies[i].RefuseNew(true)
	f.proxies[i].CutAll()
}

func (f *fleet) heal() {
	for _, p := range f.proxies {
		p.RefuseNew(false)
	}
}

// careful is what tests use that are about restarts.
var careful = &multilock.RedLockOptions{ServerTimeout: 300 * time.Millisecond}

// Whoever waits asks now and then: that the server is gone which tells of releases costs no more than that, also
// those who wait in one process.
func TestWaitersOfARedLockTakeTurnsWithoutTheFirstServer(t *testing.T) {
	t.Parallel()
	const waiters = 3
	f := newFleet(t, 3)
	sessions := f.far(&holdfast.Options{Lease: 30 * time.Second})
	l := redLock(sessions, orders, reentrant, patient)
	h := lock(t, t.Context(), l)
	f.servers[0].Stop()
	turns := make(chan result, waiters)
	for range waiters {
		go func() {
			h, err := l.Lock(t.Context())
			turns <- result{h, err}
		}()
	}
	for range waiters {
		began := time.Now()
		require.NoError(t, h.Release())
		r := within(t, 10*time.Second, turns, "the next one's turn")
		assert.Less(t, time.Since(began), 2*time.Second) // a quarter of a second is promised
		require.NoError(t, r.err)
		h = r.hold
	}
	require.NoError(t, h.Release())
}

// Who has an owner, whom other calls might share, asks as seldom as anybody else.
func TestAWaiterOfARedLockWithAnOwnerAsksNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	holder, waiter := f.near(nil), f.far(nil)
	f.cut(2) // which then is free for whoever waits
	h := lock(t, t.Context(), redLock(holder, orders, func(s *holdfast.Session, name string) holdfast.Locker {
		return rlock.New(s, name, &rlock.Options{FixedLease: time.Minute})
	}, patient))
	asked := map[string]int64{}
	for who, ctx := range map[string]context.Context{"nobody": t.Context(), "an owner": holdfast.NewOwner(t.Context())} {
		before := f.servers[0].CommandStats(t)["evalsha"]
		_, err := redLock(waiter, orders, reentrant, patient).TryLockFor(ctx, 2*time.Second)
		require.ErrorIs(t, err, holdfast.ErrBusy)
		asked[who] = f.servers[0].CommandStats(t)["evalsha"] - before
	}
	require.Less(t, asked["an owner"], 3*asked["nobody"], asked)
	require.NoError(t, h.Release())
	f.heal()
}

// Of the sessions of a RedLock one may be closed, also while somebody waits.
func TestAWaiterOfARedLockOutlivesOneOfItsSessions(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	for i := range 3 {
		mine, theirs := f.far(nil), f.far(nil)
		h := lock(t, t.Context(), redLock(theirs, orders, reentrant, patient))
		got := goLock(t.Context(), redLock(mine, orders, reentrant, patient).Lock)
		await(t, "a subscription", func() bool { return len(f.servers[0].Strs(t, "PUBSUB", "CHANNELS")) > 0 })
		require.NoError(t, mine[i].Close())
		select {
		case r := <-got:
			assert.Fail(t, "nobody has released it", "without session %d: %v", i, r.err)
			require.NoError(t, h.Release())
		case <-time.After(500 * time.Millisecond): // in which it asks again
			require.NoError(t, h.Release())
			r := within(t, 5*time.Second, got, "the lock")
			require.NoError(t, r.err)
			require.NoError(t, r.hold.Release())
		}
		for _, s := range mine {
			_ = s.Close() // nobody listens when the next one begins
		}
		await(t, "nobody who listens", func() bool { return len(f.servers[0].Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

// A hold is never trusted for longer than a server that has restarted is doubted: somebody else could have it then.
func TestAnExtendedRedLockIsNotAnothersAfterARestart(t *testing.T) {
	t.Parallel()
	const length = time.Second
	opts := &holdfast.Options{Lease: length}
	f := newFleet(t, 3)
	f.seasoned(length)
	mine, theirs := redLock(f.near(opts), orders, reentrant, careful), redLock(f.far(opts), orders, reentrant, careful)
	f.cut(2) // it has the two others
	h := lock(t, t.Context(), mine)
	require.ErrorContains(t, h.Extend(t.Context(), length+1), "lease is 1.000000001s, must be at most 1s")
	require.NoError(t, h.Extend(t.Context(), length))
	f.cut(1) // of which one has forgotten it, and it cannot know
	f.servers[1].Restart()
	next := lock(t, t.Context(), theirs)
	mineErr, until := h.Err(), h.Deadline()
	theirErr := next.Err()
	require.NoError(t, theirErr)
	assert.ErrorIs(t, mineErr, holdfast.ErrLost, "both have it, the first one for %v more", time.Until(until))
	f.heal()
	require.NoError(t, next.Release())
	_ = h.Release()
}

// A server that has taken the place of another one may have been up for a while, and has not been there for as long.
func TestAServerInThePlaceOfAnotherIsDoubtedForALease(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	f := newFleet(t, 3)
	l := redLock(f.near(&holdfast.Options{Lease: length}), orders, reentrant, careful)
	f.seasoned(length)
	require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers now
	next := redistest.Start(t)
	f.empty()
	f.cut(2)
	await(t, "a server that has been up for less than a lease", func() bool { return uptime(t, next) == 2 })
	changed := time.Now()
	f.proxies[1].SetServer(next.Addr())
	f.proxies[1].CutAll()
	h := lock(t, t.Context(), l)
	assert.Greater(t, time.Since(changed), length, "those who held it on the other one may trust it still")
	f.heal()
	require.NoError(t, h.Release())
}

// Two servers that do not answer keep nobody from the lock, however many want it: who has some of the others does not
// hold on to them for as long as the silent ones might answer. It goes on nearly as fast as with all of them, which others
// have at the same time, so that it does not matter how busy the machine is.
func TestManyContendForARedLockWhileTwoServersArePaused(t *testing.T) {
	t.Parallel()
	const turns, times = 100, 7
	for _, clients := range []int{4, 16} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			whole, maimed := newFleet(t, 5), newFleet(t, 5)
			locks := map[*fleet][]*multilock.RedLock{}
			for _, f := range []*fleet{whole, maimed} {
				for range clients {
					sessions := f.far(&holdfast.Options{Lease: 30 * time.Second})
					locks[f] = append(locks[f], redLock(sessions, orders, reentrant, &multilock.RedLockOptions{TrustRestarted: true}))
				}
			}
			defer maimed.strike(paused, 3, 4)()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			had := map[*fleet]*atomic.Int64{whole: new(atomic.Int64), maimed: new(atomic.Int64)}
			var all sync.WaitGroup
			for f, n := range had {
				for _, l := range locks[f] {
					all.Go(func() {
						for ctx.Err() == nil {
							h, err := l.Lock(ctx)
							if err != nil {
								assert.Error(t, ctx.Err(), err)
								return
							}
							n.Add(1)
							if had[maimed].Load() >= turns || had[whole].Load() >= times*turns {
								cancel()
							}
							pass(time.Now().Add(5 * time.Millisecond))
							_ = h.Release()
							pass(time.Now().Add(5 * time.Millisecond)) // or one client would have all its turns in a row
						}
					})
				}
			}
			all.Wait()
			t.Log(had[maimed].Load(), "turns, with all servers", had[whole].Load())
			require.GreaterOrEqual(t, had[maimed].Load(), int64(turns))
		})
	}
}

// A server that was silent for a while is waited for again, however slow it is and though somebody else has one of the
// others: without it there is no majority.
func TestASilentServerOfARedLockIsWaitedForAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5)
	l := redLock(f.near(&holdfast.Options{Lease: 30 * time.Second}), orders, reentrant, patient)
	require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	f.empty()
	f.servers[0].Do(t, "HSET", orders, "gone:1", "1")
	f.servers[0].Do(t, "PEXPIRE", orders, "60000")
	f.servers[3].Stop()
	heal := silent.begin(f, 4)
	_, err := l.TryLockFor(t.Context(), time.Second)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	got := goLock(t.Context(), l.Lock)
	f.each(scriptRuns, proxy.Delay(100*time.Millisecond), proxy.EveryTime, 4)
	heal()
	gets(t, got)
	f.servers[0].Do(t, "DEL", orders)
	f.servers[3].Restart()
	f.empty()
}

// Calls that share an owner do not take the lock from each other: one of them has it.
func TestOneOfTwoCallsOfAnOwnerHasAPlainRedLock(t *testing.T) {
	t.Parallel()
	const rounds = 200
	f := newFleet(t, 5)
	l := redLock(f.far(nil), orders, plain, patient)
	for _, srv := range f.servers[3:] {
		srv.Stop()
	}
	had := map[int]int{} // rounds, by how many calls had it
	for range rounds {
		ctx := holdfast.NewOwner(t.Context())
		var holds []*holdfast.Hold
		for _, call := range []<-chan result{goLock(ctx, l.Lock), goLock(ctx, l.Lock)} {
			r := within(t, 10*time.Second, call, "an answer")
			if r.err == nil {
				holds = append(holds, r.hold)
				continue
			}
			require.ErrorIs(t, r.err, holdfast.ErrAlreadyHeld)
		}
		for _, h := range holds {
			require.NoError(t, h.Release())
		}
		had[len(holds)]++
	}
	require.Zero(t, had[0], "%v: neither had it", had)
}

// A server that is free while others are not tells of what is given back to it: who waits must not take that for a
// release, again and again.
func TestAWaiterOfARedLockIsNotWokenByItself(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	mine, theirs := f.far(nil), f.far(nil)
	var locks []holdfast.Locker
	for _, s := range theirs {
		locks = append(locks, rlock.New(s, orders, &rlock.Options{FixedLease: time.Minute}))
	}
	h := lock(t, t.Context(), multilock.NewRedLock(locks, patient))
	await(t, "all servers", func() bool { return left(t, f.servers) == 3 })
	f.servers[0].Do(t, "DEL", orders)
	ctx, cancel := context.WithCancel(t.Context())
	got := goLock(ctx, redLock(mine, orders, reentrant, patient).Lock)
	await(t, "a subscription", func() bool { return len(f.servers[0].Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	f.servers[1].ResetStats(t)
	pass(time.Now().Add(2 * time.Second))
	require.Less(t, f.servers[1].CommandStats(t)["evalsha"], int64(130))
	cancel()
	require.ErrorIs(t, within(t, 5*time.Second, got, "the end of the wait").err, context.Canceled)
	require.NoError(t, h.Release())
}

// Who is alone gives way to nobody, also after others of its process have waited.
func TestARedLockGivesNobodyWay(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	l := redLock(f.far(nil), orders, reentrant, patient)
	cycles := func() time.Duration {
		began := time.Now()
		for range 100 {
			require.NoError(t, lock(t, t.Context(), l).Release())
		}
		return time.Since(began)
	}
	cycles()
	alone := cycles()
	h := lock(t, t.Context(), l)
	got := goLock(t.Context(), l.Lock)
	await(t, "a subscription", func() bool { return len(f.servers[0].Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	require.NoError(t, h.Release())
	r := within(t, 5*time.Second, got, "the one who waited")
	require.NoError(t, r.err)
	require.NoError(t, r.hold.Release())
	require.Less(t, cycles(), 4*alone)
}
