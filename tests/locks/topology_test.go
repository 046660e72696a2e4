package locks

import (
	"context"
	"fmt"
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
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// exclusion lets sessions × goroutines take each of the names in turn, and fails if two are inside the same one at a
// time.
func exclusion(t *testing.T, k kit.Kind, sessions []*holdfast.Session, names []string) {
	t.Helper()
	inside := make([]atomic.Int64, len(names))
	var wg sync.WaitGroup
	for _, s := range sessions {
		for range 4 {
			wg.Go(func() {
				for i, name := range names {
					err := holdfast.Do(t.Context(), k.Rival(s, name, 0).Lock, func(context.Context) error {
						assert.EqualValues(t, 1, inside[i].Add(1))
						inside[i].Add(-1)
						return nil
					})
					assert.NoError(t, err, name)
				}
			})
		}
	}
	wg.Wait()
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	opt := kit.BySentinel(set)
	opts := &holdfast.Options{Lease: 10 * time.Second}
	a, b := kit.OpenWith(t, opt, opts), kit.OpenWith(t, opt, opts)
	for _, k := range kit.OnOneServer() {
		require.NoError(t, kit.Lock(t, t.Context(), k.Make(a, "before "+k.Name, 0)).Release()) // its scripts are known
	}

	hold := kit.Lock(t, t.Context(), rlock.New(a, "held", nil))
	set.Master().AwaitReplica(t)
	got := kit.GoLock(t.Context(), rlock.New(b, "held", nil).Lock)
	kit.Await(t, "the waiter", func() bool { return len(set.Master().Strs(t, "PUBSUB", "CHANNELS", "holdfast*")) > 0 })

	set.Failover(t)
	kit.Await(t, "the waiter to listen at the new master", func() bool {
		return len(set.Master().Strs(t, "PUBSUB", "CHANNELS", "holdfast*")) > 0
	})
	assert.NoError(t, hold.Err(), "what the replica knew is still held")
	require.NoError(t, hold.Release())
	r := kit.Within(t, 5*time.Second, got, "the waiter's lock")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	for _, k := range kit.OnOneServer() {
		exclusion(t, k, []*holdfast.Session{a, b}, k.Own("after"))
	}
}

// Sentinel may name another master while the former one is well, and does not hear of it. A session that went on
// listening there would miss all messages.
func TestNobodyListensAtTheFormerMasterOfSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	opt := kit.BySentinel(set)
	former, next := set.Master(), set.Replica()
	client, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	theirs, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true}) // a client that Holdfast has not set up
	require.NoError(t, err)
	t.Cleanup(func() { _ = theirs.Close() })
	holder := kit.OpenWith(t, opt, nil)
	sessions := map[string]*holdfast.Session{"ours": kit.OpenWith(t, opt, nil), "theirs": theirs}
	for name, s := range sessions {
		kit.Lock(t, t.Context(), rlock.New(holder, name, nil))
		kit.GoLock(t.Context(), rlock.New(s, name, nil).Lock)
	}
	await := func(srv *redistest.Server) {
		for name := range sessions {
			kit.Await(t, "a listener for "+name+" at "+srv.Addr(), func() bool {
				heard, err := srv.Try("PUBSUB", "CHANNELS", "*"+name+"*") // a new master ends connections
				channels, _ := heard.([]any)
				return err == nil && len(channels) > 0
			})
		}
	}
	await(former)
	former.Do(t, "ACL", "SETUSER", "default", "-slaveof", "-replicaof") // so the sentinels cannot tell it
	set.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", set.MasterName)
	await(next)
	require.Equal(t, "master", former.Do(t, "ROLE").([]any)[0])
}

// A master that is stopped answers nothing, and Sentinel replaces it: calls that were sent to it are sent to the new
// one.
func TestACallUnderWayWhenSentinelMovesASilentMasterGoesOn(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	opt := kit.BySentinel(set)
	// Its client would give up a silent connection much later.
	s := kit.OpenWith(t, opt, &holdfast.Options{Lease: 90 * time.Second})
	held := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
	set.Master().AwaitReplica(t)
	former := set.Master()
	former.Pause()
	defer former.Resume()
	got := kit.GoLock(t.Context(), rlock.New(s, "wanted", nil).Lock)
	tried := kit.GoLock(t.Context(), rlock.New(s, "tried", nil).TryLock)
	opened := make(chan error, 1)
	go func() { opened <- latch.New(s, "gate").Wait(t.Context()) }()

	for what, c := range map[string]<-chan kit.Result{"Lock": got, "TryLock": tried} {
		r := kit.Within(t, 30*time.Second, c, what)
		require.NoError(t, r.Err, what)
		require.NoError(t, r.Hold.Release())
	}
	require.NoError(t, kit.Within(t, 5*time.Second, opened, "an unset latch"))
	require.NoError(t, held.Release())
}

// An address may come to lead to another server while the connections to the former one stay open.
func TestASessionFollowsItsAddressFromAReplicaToTheMaster(t *testing.T) {
	t.Parallel()
	first := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	second := redistest.Start(t, "--replicaof", "127.0.0.1", first.Strs(t, "CONFIG", "GET", "port")[1])
	p := proxy.Start(t, first.Addr())
	opts := &holdfast.Options{Lease: kit.Lease}
	keeper, taker, waiter := kit.Open(t, p.Addr(), opts), kit.Open(t, p.Addr(), opts), kit.Open(t, p.Addr(), opts)
	kept, wanted := kit.Lock(t, t.Context(), rlock.New(keeper, "kept", nil)),
		kit.Lock(t, t.Context(), rlock.New(taker, "wanted", nil))
	got := kit.GoLock(t.Context(), rlock.New(waiter, "wanted", nil).Lock)
	kit.Await(t, "the waiter", func() bool { return len(first.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	first.AwaitReplica(t)

	second.Do(t, "REPLICAOF", "NO", "ONE")
	p.SetServer(second.Addr())
	first.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(redistest.FreePort(t))) // it receives no more messages
	free := kit.Within(t, 5*time.Second, kit.GoLock(t.Context(), rlock.New(taker, "free", nil).Lock),
		"a lock of the new master")
	require.NoError(t, free.Err)
	require.NoError(t, free.Hold.Release())

	kit.Await(t, "a renewal at the new master", func() bool {
		return time.Until(kept.Deadline()) > opts.Lease*2/3 &&
			second.Int(t, "PTTL", "kept") > (opts.Lease*2/3).Milliseconds()
	})
	kit.SleepUntil(time.Now().Add(opts.Lease * 3 / 2)) // a session that only holds notices as well
	require.NoError(t, kept.Err())
	require.Contains(t, second.Keyspace(t), "kept")
	require.NoError(t, kept.Release())
	kit.Await(t, "the waiter to listen at the new master",
		func() bool { return len(second.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	require.NoError(t, wanted.Release())
	r := kit.Within(t, 5*time.Second, got, "the waiter's lock")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
}

// The connection for calls may end alone, as by CLIENT KILL TYPE normal, and the next one lead elsewhere. Whoever went
// on listening at the former master would hear what that replicates, but be counted by nobody.
func TestNobodyListensWhereItsAddressLedBefore(t *testing.T) {
	t.Parallel()
	former := redistest.Start(t)
	next := redistest.StartReplica(t, former)
	p := proxy.Start(t, former.Addr())
	holder, waiter := kit.Open(t, former.Addr(), nil), kit.Open(t, p.Addr(), nil)
	kit.Lock(t, t.Context(), rlock.New(holder, "x", nil))
	kit.GoLock(t.Context(), rlock.New(waiter, "x", nil).Lock)
	listened := func(srv *redistest.Server) func() bool {
		return func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS", "*x*")) > 0 }
	}
	kit.Await(t, "the waiter", listened(former))
	former.AwaitReplica(t)
	next.Do(t, "REPLICAOF", "NO", "ONE")
	p.SetServer(next.Addr())
	host, port, err := net.SplitHostPort(next.Addr())
	require.NoError(t, err)
	former.Do(t, "REPLICAOF", host, port)
	former.Do(t, "CLIENT", "KILL", "TYPE", "normal")
	kit.Await(t, "the waiter at the new master", listened(next))
}

// In this state a session of a replica goes on attempting, and connects anew once a second, however many attempt.
func TestASessionOfAReplicaConnectsAnewOnceASecond(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	srv.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(redistest.FreePort(t)))
	refused := p.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.Pass, proxy.EveryTime)
	before, began := p.Accepted(), time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // so that 3 are left of it on a busy machine
	defer cancel()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := rlock.New(s, fmt.Sprint(i), nil).Lock(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	require.Greater(t, refused.Matched(), 60)
	require.Greater(t, p.Accepted(), before)
	const connections = 2 // for commands and for messages
	require.LessOrEqual(t, p.Accepted()-before, connections*(1+int(time.Since(began)/time.Second)))
}

func TestARestartedServerForgetsAndTheHolderIsTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(a, "x", nil))
	got := kit.GoLock(t.Context(), rlock.New(b, "x", nil).Lock)
	kit.Await(t, "the waiter", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	srv.Restart()
	// a timer would take at least 3 s
	r := kit.Within(t, 3*time.Second, got, "the waiter's lock, at once after the reconnect")
	require.NoError(t, r.Err)
	<-hold.Context(t.Context()).Done() // the next renewal finds nothing
	assert.ErrorIs(t, hold.Err(), holdfast.ErrLost)
	require.NoError(t, r.Hold.Release())
}

func TestForgottenScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	for _, k := range kit.OnOneServer() {
		for range 3 {
			hold := kit.Lock(t, t.Context(), k.Make(s, k.Name, 0))
			srv.Do(t, "SCRIPT", "FLUSH")
			require.NoError(t, hold.Release())
			srv.Do(t, "SCRIPT", "FLUSH")
		}
	}
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	deadline := hold.Deadline()
	srv.Do(t, "SCRIPT", "FLUSH")
	kit.Await(t, "a renewal", func() bool { return hold.Deadline().After(deadline) })
	for i := range 3 {
		kit.Lock(t, t.Context(), rlock.New(s, fmt.Sprint("y", i), nil))
	}
	srv.Do(t, "SCRIPT", "FLUSH")
	require.NoError(t, s.Close())
	space := srv.Keyspace(t)
	for _, k := range kit.OnOneServer() {
		space = k.Free(space)
	}
	assert.Empty(t, space)
}

// While the master is away, a session asks sentinels ever more rarely, and keeps nothing of it: its client would make
// hundreds of connections a second, and as many goroutines.
func TestSentinelsAreSparedWhileTheMasterIsAway(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	p := proxy.Start(t, redistest.StartSentinel(t, "alone", master.Addr()).Addr()) // it can elect nobody
	opt := rueidis.ClientOption{InitAddress: []string{p.Addr()}, Sentinel: rueidis.SentinelOption{MasterSet: "alone"}}
	asks := p.On(proxy.Command("SENTINEL"), proxy.Pass, proxy.EveryTime)
	l := rlock.New(kit.OpenWith(t, opt, nil), "orders", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	master.Stop()
	before := asks.Matched()
	kit.AwaitFor(t, 10*time.Second, "the first questions", func() bool { return asks.Matched() > before+4 })
	connections, began := p.Accepted(), time.Now()
	kit.SleepUntil(began.Add(5 * time.Second))
	require.Less(t, p.Accepted()-connections, 100, "it would be a thousand")
	master.Restart()
	require.NoError(t, kit.Granted(t, 5*time.Second, kit.GoLock(t.Context(), l.Lock), "the lock").Release())
}

// Sentinels that have gone silent, beside a master that is well, do not delay Close.
func TestSilentSentinelsDoNotDelayClose(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	s, err := holdfast.Open(kit.BySentinel(set), nil)
	require.NoError(t, err)
	opened := time.Now()
	l := rlock.New(s, "orders", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	kit.SleepUntil(opened.Add(4700 * time.Millisecond)) // the client asks them every 5 s
	for _, sentinel := range set.Sentinels {
		sentinel.Pause()
		defer sentinel.Resume()
	}
	kit.SleepUntil(opened.Add(5300 * time.Millisecond))
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the master is well
	began := time.Now()
	err = s.Close()
	require.NoError(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
}
