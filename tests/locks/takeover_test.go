package locks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// soonAfter is how soon holders learn that another server has taken over without their locks: long before a renewal
// would tell them, and late enough for a machine that is busy. It takes some 50 ms.
const soonAfter = 10 * time.Second

// takeoverHolds are holds of a session with leases of a minute, of each kind, watched and with a fixed lease.
func takeoverHolds(t *testing.T, s *holdfast.Session, prefix string) map[string]*holdfast.Hold {
	t.Helper()
	holds := make(map[string]*holdfast.Hold)
	for _, k := range kit.OnOneServer() {
		if k.Several {
			continue
		}
		for name, fixed := range map[string]time.Duration{k.Name + " watched": 0, k.Name + " fixed": time.Minute} {
			holds[name] = kit.Lock(t, t.Context(), k.Make(s, prefix+name, fixed))
		}
	}
	return holds
}

// requireLostSoon waits until all holds are lost.
func requireLostSoon(t *testing.T, holds map[string]*holdfast.Hold) {
	t.Helper()
	began := time.Now()
	for name, hold := range holds {
		kit.AwaitFor(t, soonAfter, "the loss of "+name, func() bool { return hold.Err() != nil })
		require.ErrorIs(t, hold.Err(), holdfast.ErrLost, name)
	}
	t.Log("told within", time.Since(began))
}

func TestHoldersLearnOfASentinelFailoverThatForgetsThem(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	opt := kit.BySentinel(set)
	s := kit.OpenWith(t, opt, &holdfast.Options{Lease: time.Minute})
	client, err := rueidis.NewClient(opt) // of a caller that Holdfast has not set up
	require.NoError(t, err)
	t.Cleanup(client.Close)
	theirs, err := holdfast.NewSession(client, &holdfast.Options{Lease: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { _ = theirs.Close() })
	heard := kit.Lock(t, t.Context(), rlock.New(s, "heard", nil)) // so that it listens
	waits := kit.GoLock(t.Context(), rlock.New(theirs, "heard", nil).Lock)
	kit.Await(t, "a waiter", func() bool { return len(set.Master().Strs(t, "PUBSUB", "CHANNELS", "*heard*")) > 0 })

	holds := takeoverHolds(t, s, "")
	for name, hold := range takeoverHolds(t, theirs, "theirs ") {
		holds["theirs "+name] = hold
	}
	holds["heard"] = heard
	set.Master().AwaitReplica(t) // else it may hear of a lock after that
	set.Replica().Forget(t)
	set.Failover(t)
	requireLostSoon(t, holds)
	r := kit.Within(t, kit.LongestWait, waits, "the lock")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Err())
	require.NoError(t, r.Hold.Release())
}

func TestHoldersLearnOfAClusterFailoverThatForgetsThem(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	master := c.Nodes[0]
	replica := c.AddReplica(t, master)
	s := kit.OpenCluster(t, c, &holdfast.Options{Lease: time.Minute})
	tag := ""
	for tag = "x"; c.NodeOf(t, "{"+tag+"}") != master; tag += "x" {
	}
	holds := takeoverHolds(t, s, "{"+tag+"}")
	other := ""
	for other = "y"; c.NodeOf(t, other) == master; other += "y" {
	}
	stays := kit.Lock(t, t.Context(), rlock.New(s, other, &rlock.Options{FixedLease: time.Minute}))
	master.AwaitReplica(t) // else it may hear of a lock after that
	replica.Forget(t)
	master.Stop()
	kit.AwaitFor(t, time.Minute, "the replica to take over", func() bool {
		return strings.Contains(replica.Str(t, "INFO", "replication"), "role:master")
	})
	requireLostSoon(t, holds)
	require.NoError(t, stays.Err())
	require.NoError(t, stays.Release())
}

// A node that is down, and has no replica, keeps nobody from learning what has become of another one's locks.
func TestHoldersLearnOfAFailoverWhileAnotherNodeIsDown(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	master, down := c.Nodes[0], c.Nodes[1]
	replica := c.AddReplica(t, master)
	s := kit.OpenCluster(t, c, &holdfast.Options{Lease: time.Minute})
	hold := func(node *redistest.Server) *holdfast.Hold {
		return kit.Lock(t, t.Context(), rlock.New(s, namesOn(t, c, node, 1)[0], &rlock.Options{FixedLease: time.Minute}))
	}
	stays, lost := hold(down), hold(master)
	master.AwaitReplica(t) // else it may hear of a lock after that
	replica.Forget(t)
	down.Stop()
	kit.SleepUntil(time.Now().Add(3 * time.Second)) // it is asked again and again
	master.Stop()
	replica.Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
	requireLostSoon(t, map[string]*holdfast.Hold{"fixed": lost})
	require.NoError(t, stays.Err())
}

// Nor does a name that the user has no right to any more, for which a server refuses to answer for others with it.
func TestHoldersLearnOfALossBesideARefusalWhileAnotherNodeIsDown(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	well, down := c.Nodes[0], c.Nodes[1]
	for _, node := range c.Nodes {
		node.Grant(t, "app", "~*", "&*", "+@all")
	}
	s := kit.OpenWith(t, rueidis.ClientOption{
		InitAddress: c.Addrs(), Username: "app", Password: redistest.Password,
	}, &holdfast.Options{Lease: time.Minute})
	hold := func(name string) *holdfast.Hold {
		return kit.Lock(t, t.Context(), rlock.New(s, name, &rlock.Options{FixedLease: time.Minute}))
	}
	tag := "{" + namesOn(t, c, well, 1)[0] + "}"
	stays, lost, refused := hold(namesOn(t, c, down, 1)[0]), hold(tag+"lost"), hold(tag+"refused")
	well.Do(t, "ACL", "SETUSER", "app", "resetkeys", "~"+tag+"lost")
	well.Do(t, "DEL", tag+"lost")
	down.Stop()
	requireLostSoon(t, map[string]*holdfast.Hold{"fixed": lost})
	require.NoError(t, errors.Join(stays.Err(), refused.Err()))
}

// Behind one address, too, and what the next server has is kept.
func TestHoldersLearnThatTheirAddressLeadsElsewhere(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	other := redistest.StartReplica(t, master)
	p := proxy.Start(t, master.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: time.Minute})
	kept := takeoverHolds(t, s, "kept ")
	master.AwaitReplica(t)
	other.Do(t, "REPLICAOF", "NO", "ONE")
	lost := takeoverHolds(t, s, "lost ")
	p.SetServer(other.Addr())
	p.CutAll()
	requireLostSoon(t, lost)
	for name, hold := range kept {
		require.NoError(t, hold.Err(), name)
		require.NoError(t, hold.Release(), name)
	}
}

// A release at the former server may grant a lock when the session has asked the next one for all that it held.
func TestAGrantThatIsToldAfterAnotherServerHasTakenOver(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		queue string
		of    func(s *holdfast.Session) *holdfast.Mutex
	}{
		"rlock": {lineKey, func(s *holdfast.Session) *holdfast.Mutex { return &rlock.New(s, "orders", nil).Mutex }},
		"fairlock": {"redisson_lock_queue:{orders}", func(s *holdfast.Session) *holdfast.Mutex {
			return &fairlock.New(s, "orders", nil).Mutex
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			former, next := redistest.Start(t), redistest.Start(t)
			p := proxy.Start(t, former.Addr())
			s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
			calls := p.On(proxy.Command("EVALSHA"), proxy.Pass, proxy.EveryTime)
			before := kit.Lock(t, t.Context(), k.of(kit.Open(t, former.Addr(), nil)))
			got := kit.GoLock(t.Context(), k.of(s).Lock)
			kit.Await(t, "a waiter in the line", func() bool { return former.Int(t, "LLEN", k.queue) == 1 })
			kit.SleepUntil(time.Now().Add(1500 * time.Millisecond)) // it has looked again

			subscribe := p.On(proxy.Command("SUBSCRIBE"), proxy.Stall, proxy.EveryTime) // the former server is heard meanwhile
			p.SetServer(next.Addr())
			for _, c := range calls.Conns() {
				c.Cut()
			}
			_, err := k.of(s).Locked(t.Context())
			require.NoError(t, err)
			subscribe.Wait(t, 1)
			renews := kit.ScriptNamed("lock_renew")
			p.On(func(command []string) bool { return renews(command) && slices.Contains(command, "30000") },
				proxy.Answer(kit.LoadingReply), proxy.EveryTime) // no renewal tells
			kit.AwaitHandOn(t, former)
			require.NoError(t, before.Release())
			r := kit.Within(t, kit.LongestWait, got, "the grant")
			require.NoError(t, r.Err)
			kit.Lock(t, t.Context(), k.of(kit.Open(t, next.Addr(), nil))) // somebody else has it there
			kit.AwaitFor(t, time.Until(r.Hold.Deadline())/2, "the loss", func() bool { return r.Hold.Err() != nil })
			require.ErrorIs(t, r.Hold.Err(), holdfast.ErrLost)
		})
	}
}

// A session of NewSession knows by its subscriptions alone, also when they have broken just before: whether they stand
// again, or not yet.
func TestHoldersLearnOfASecondInterruption(t *testing.T) {
	t.Parallel()
	for name, stand := range map[string]bool{"after they stand": true, "before they stand": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			former, next := redistest.Start(t), redistest.Start(t)
			p := proxy.Start(t, former.Addr())
			s, err := holdfast.NewSession(kit.NewClient(t, p.Addr()),
				&holdfast.Options{Lease: time.Minute, Anonymous: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			hold := kit.Lock(t, t.Context(), rlock.New(s, "held", &rlock.Options{FixedLease: time.Minute}))
			before := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, former.Addr(), nil), "orders", nil))
			subscribe := p.On(proxy.Command("SUBSCRIBE"), proxy.Pass, proxy.EveryTime)
			got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
			awaitInLine(t, former)
			kit.SleepUntil(time.Now().Add(1500 * time.Millisecond)) // it has looked again

			checks := p.On(kit.ScriptNamed("lock_renew").With("held"), proxy.Pass, proxy.EveryTime)
			looks := p.On(kit.ScriptNamed("rlock_stand"), proxy.Pass, proxy.EveryTime)
			conns := subscribe.Conns()
			subscribe.Remove()
			again := proxy.Stall
			if stand {
				again = proxy.Pass
			}
			subscribes := p.On(proxy.Command("SUBSCRIBE"), again, proxy.First)
			for _, c := range conns {
				c.Cut()
			}
			checks.WaitAnswered(t, 1)
			subscribes.Wait(t, 1)
			if stand {
				looks.WaitAnswered(t, 1) // it has subscribed anew
			}
			require.NoError(t, hold.Err())
			p.SetServer(next.Addr())
			p.CutAll()
			requireLostSoon(t, map[string]*holdfast.Hold{"held": hold})
			r := kit.Within(t, kit.LongestWait, got, "the lock")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Release())
			require.NoError(t, before.Release())
		})
	}
}

// A server that takes over may have heard of a lock, and not of the call that made its lease longer: then the lock is
// trusted for no longer than it lasts there.
func TestHoldersLearnOfAFailoverThatForgetsALongerLease(t *testing.T) {
	t.Parallel()
	former := redistest.Start(t)
	next := redistest.StartReplica(t, former)
	p := proxy.Start(t, former.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: time.Minute})
	holds := takeoverHolds(t, s, "")
	former.AwaitReplica(t)
	next.Do(t, "REPLICAOF", "NO", "ONE")
	for name, hold := range holds {
		require.NoError(t, hold.Extend(t.Context(), time.Hour), name)
	}
	p.SetServer(next.Addr())
	p.CutAll()
	for name, hold := range holds {
		if !strings.HasPrefix(name, "rwlock read") { // of which a key may be on another node
			kit.AwaitFor(t, soonAfter, "the shorter lease of "+name, func() bool {
				return time.Until(hold.Deadline()) < time.Minute
			})
		}
		require.NoError(t, hold.Err(), name)
		require.NoError(t, hold.Release(), name)
	}
}

// A lateClient has the answer to one call of a script, and passes it on later.
type lateClient struct {
	rueidis.Client
	script      proxy.Match
	there, goOn chan struct{} // closed when the answer is there; when it may be passed on
	called      atomic.Bool
}

func (c *lateClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	late := c.script(command.Commands()) && c.called.CompareAndSwap(false, true)
	result := c.Client.Do(ctx, command)
	if late {
		close(c.there)
		<-c.goOn
	}
	return result
}

// The call may be answered before another server takes over, and go on when that has been asked for all that is held.
func TestHoldersLearnOfAFailoverBesideACallForALongerLease(t *testing.T) {
	t.Parallel()
	for script, extend := range map[string]func(ctx context.Context, e *semaphore.Expirable, h *holdfast.Hold) error{
		"semaphore_renew_expirable": func(ctx context.Context, _ *semaphore.Expirable, h *holdfast.Hold) error {
			return h.Extend(ctx, time.Hour)
		},
		"semaphore_update_expirable": func(ctx context.Context, e *semaphore.Expirable, h *holdfast.Hold) error {
			return e.UpdateLease(ctx, h.ID(), time.Hour)
		},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			former := redistest.Start(t)
			next := redistest.StartReplica(t, former)
			kit.LoadScripts(t, former)
			kit.LoadScripts(t, next)
			p := proxy.Start(t, former.Addr())
			client := &lateClient{
				Client: kit.NewClient(t, p.Addr()), script: kit.ScriptNamed(script),
				there: make(chan struct{}), goOn: make(chan struct{}),
			}
			s, err := holdfast.NewSession(client, &holdfast.Options{Lease: time.Minute, Anonymous: true})
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			e := kit.NewExports(t, s, 1, time.Minute)
			hold, err := e.Acquire(t.Context())
			require.NoError(t, err)
			former.AwaitReplica(t)
			next.Do(t, "REPLICAOF", "NO", "ONE")
			before := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, former.Addr(), nil), "orders", nil))
			got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock) // so that it listens
			awaitInLine(t, former)

			extended := make(chan error, 1)
			go func() { extended <- extend(t.Context(), e, hold) }()
			kit.Within(t, kit.LongestWait, client.there, "the answer")
			checks := p.On(kit.ScriptNamed("semaphore_renew_expirable"), proxy.Pass, proxy.EveryTime)
			looks := p.On(kit.ScriptNamed("rlock_stand"), proxy.Pass, proxy.EveryTime)
			p.SetServer(next.Addr())
			p.CutAll()
			checks.WaitAnswered(t, 1)
			looks.WaitAnswered(t, 1) // it has subscribed anew
			close(client.goOn)
			require.NoError(t, kit.Within(t, kit.LongestWait, extended, "the longer lease"))
			kit.AwaitFor(t, soonAfter, "the shorter lease", func() bool { return time.Until(hold.Deadline()) < time.Minute })
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the lock").Release())
			require.NoError(t, before.Release())
		})
	}
}

// While nothing changes, nothing is sent.
func TestNobodyIsAskedWhileNothingChanges(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: time.Hour, Anonymous: true})
	for _, name := range []string{"a", "b", "c"} {
		kit.Lock(t, t.Context(), rlock.New(s, name, &rlock.Options{FixedLease: time.Hour}))
	}
	looks := p.On(proxy.Command("EVALSHA", "EVAL"), proxy.Pass, proxy.EveryTime)
	require.Never(t, func() bool { return looks.Matched() > 0 }, 500*time.Millisecond, 100*time.Millisecond)
	p.CutAll()
	kit.Await(t, "a look", func() bool { return looks.Answered() > 0 })
	require.LessOrEqual(t, looks.Matched(), 3, "three names in one call: once by its name, once in full, once more")
}

// A server that lets nobody log in, or refuses to be asked, has not answered: it is asked now and then until it does,
// and not as fast as it can refuse.
func TestAServerThatRefusesToBeAskedIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct{ refuse, allow []string }{
		"the password": {[]string{"resetpass", ">another"}, []string{">" + redistest.Password}},
		"the rights":   {[]string{"-eval", "-evalsha"}, []string{"+eval", "+evalsha"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			srv.Grant(t, "app", "~*", "&*", "+@all")
			s := kit.OpenWith(t, rueidis.ClientOption{
				InitAddress: []string{p.Addr()}, Username: "app", Password: redistest.Password,
			}, nil)
			hold := kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: time.Hour}))
			user := func(rights []string) { srv.Do(t, append([]string{"ACL", "SETUSER", "app"}, rights...)...) }
			user(change.refuse)
			srv.Do(t, "DEL", "x") // as another server that takes over
			tries := p.On(proxy.Command("HELLO", "EVALSHA", "EVAL"), proxy.Pass, proxy.EveryTime)
			p.CutAll()
			kit.Await(t, "a refusal", func() bool { return tries.Answered() > 0 })
			kit.SleepUntil(time.Now().Add(2 * time.Second))
			require.Less(t, tries.Matched(), 60)
			require.NoError(t, hold.Err())
			user(change.allow)
			requireLostSoon(t, map[string]*holdfast.Hold{"x": hold})
		})
	}
}
