package locks

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A taken is one lock or several that a call takes, and the attempts of that call.
type taken struct {
	lock    func(s *holdfast.Session, opts *rlock.Options) holdfast.Locker
	attempt proxy.Match
}

func oneAndTwo() map[string]taken {
	return map[string]taken{
		"one lock": {
			func(s *holdfast.Session, opts *rlock.Options) holdfast.Locker { return rlock.New(s, "one", opts) },
			kit.ScriptOf(kit.KindOf("rlock"), "acquire"),
		},
		"two locks": {
			func(s *holdfast.Session, opts *rlock.Options) holdfast.Locker {
				return multilock.New(rlock.New(s, "one", opts), rlock.New(s, "two", opts))
			},
			kit.ScriptNamed("rlock_acquire_all"),
		},
	}
}

// While a slot moves, locks of other slots are acknowledged as ever, and those of the slot by whichever node has them.
func TestASlotThatMovesKeepsNobodyFromBeingAcknowledged(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2)
	for _, n := range c.Nodes {
		c.AddReplica(t, n)
	}
	s := kit.OpenCluster(t, c, acksOptions(1, acksPatience))
	from := c.Nodes[0]
	var names []string // of slots of the first node
	for i := 0; len(names) < 4; i++ {
		if name := fmt.Sprint("orders:", i); c.NodeOf(t, name) == from {
			names = append(names, name)
		}
	}
	moving, others := names[0], names[1:]
	l := rlock.New(s, moving, &rlock.Options{FixedLease: time.Minute})
	before := kit.Lock(t, t.Context(), l)
	move := c.OpenSlot(t, moving, c.Nodes[1])

	began := time.Now()
	require.NoError(t, before.Extend(t.Context(), 2*time.Minute), "it is still where nothing new can be written")
	fresh := kit.GoLock(t.Context(), rlock.New(s, "{"+moving+"}:fresh", nil).Lock)
	waiting := []<-chan kit.Result{fresh}
	for _, name := range others {
		waiting = append(waiting, kit.GoLock(t.Context(), rlock.New(s, name, nil).Lock))
	}
	for _, waits := range waiting {
		r := kit.Within(t, acksPatience, waits, "a lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	}
	require.Less(t, time.Since(began), acksPatience, "no look has waited for the move to be over")
	move.Take(t, moving)
	require.NoError(t, before.Extend(t.Context(), 3*time.Minute), "it is there already")
	require.NoError(t, before.Release())
	move.Finish(t)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
}

// Locks that one call has taken may be on two nodes while their slot moves. They are acknowledged when they are on one.
func TestLocksThatMoveOneByOneAreAcknowledged(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2)
	replicas := make(map[*redistest.Server]*redistest.Server)
	for _, n := range c.Nodes {
		replicas[n] = c.AddReplica(t, n)
	}
	s := kit.OpenCluster(t, c, acksOptions(1, acksPatience))
	one, two := "{orders}one", "{orders}two"
	from := c.NodeOf(t, one)
	to := c.Nodes[slices.IndexFunc(c.Nodes, func(n *redistest.Server) bool { return n != from })]
	replicas[from].Pause()
	got := kit.GoLock(t.Context(), multilock.New(rlock.New(s, one, nil), rlock.New(s, two, nil)).Lock)
	awaitBlocked(t, from)
	move := c.OpenSlot(t, one, to)
	move.Take(t, one)
	to.ResetStats(t)
	for line := range strings.Lines(from.Str(t, "CLIENT", "LIST")) {
		if id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " "); strings.Contains(line, " cmd=wait ") {
			from.Do(t, "CLIENT", "UNBLOCK", id, "ERROR")
		}
	}
	replicas[from].Resume()
	kit.Await(t, "both nodes to be asked, more than once", func() bool { return to.CommandStats(t)["asking"] > 8 })
	require.Empty(t, got)
	move.Finish(t)
	require.NoError(t, kit.Granted(t, acksPatience, got, "both").Release())
}

// A multilock that takes its members one by one waits for the replicas of each as long as a single lock does.
func TestAMultilockWaitsForReplicasOfEachMember(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	p := proxy.Start(t, master.Addr())
	m := kit.KindOf("multilock").Make(kit.Open(t, p.Addr(), acksOptions(1, acksPatience)), "orders", 0)
	slow := p.On(proxy.Command("WAIT"), proxy.HoldReply, proxy.Second)
	got := kit.GoLock(t.Context(), m.Lock)
	slow.Wait(t, 1)
	kit.SleepUntil(time.Now().Add(2 * time.Second)) // longer than it waits for one while it holds the other
	slow.Release()
	require.NoError(t, kit.Granted(t, acksPatience, got, "both").Release())
	awaitNothing(t, master)
}

// The time of a TryLockFor is for replicas, too.
func TestTryLockForWaitsNoLongerForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "before", nil)) // the connections stand
	require.NoError(t, hold.Release())
	hold, err := rlock.New(s, "ages", nil).TryLockFor(t.Context(), math.MaxInt64-1)
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	replica.Pause()
	both := kit.KindOf("multilock together").Make(s, "orders", 0)
	for _, l := range []interface {
		TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
	}{rlock.New(s, "orders", nil), both} {
		took := kit.Stopwatch()
		_, err := l.TryLockFor(t.Context(), 2*time.Second) // long enough to be granted it
		require.Less(t, took(), acksPatience/2)
		got, wanted, why := notAcknowledged(t, err)
		require.Equal(t, []int{0, 1}, []int{got, wanted})
		require.ErrorContains(t, why, "no answer in time")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		awaitNothing(t, master)
	}
}

// What is lost while replicas are waited for was not acquired.
func TestAHoldThatIsLostWhileReplicasAreWaitedForIsNone(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	l := rlock.New(kit.Open(t, master.Addr(), acksOptions(1, acksPatience)), "orders", nil)
	replica.Pause()
	got := kit.GoLock(t.Context(), l.Lock)
	awaitBlocked(t, master)
	require.True(t, valueOf(l.ForceUnlock(t.Context())))
	replica.Resume()
	r := kit.Within(t, acksPatience, got, "the end of the call")
	require.ErrorIs(t, r.Err, holdfast.ErrLost)
	require.Nil(t, r.Hold)
}

// It is given back at once, though a round has made its lease longer shortly before.
func TestWhatIsLostWhileReplicasAreWaitedForIsGivenBack(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	for name, tt := range oneAndTwo() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			kit.LoadScripts(t, master)
			redistest.StartReplica(t, master)
			p := proxy.Start(t, master.Addr())
			opts := acksOptions(1, lease/3)
			opts.Lease = lease
			l := tt.lock(kit.Open(t, p.Addr(), opts), nil)
			byName, renewals := proxy.Command("EVALSHA"), kit.ScriptNamed("lock_renew") // a round sends it in full
			p.On(func(command []string) bool { return byName(command) && renewals(command) },
				proxy.Answer("-ERR not now"), proxy.EveryTime)
			p.On(proxy.Command("WAIT"), proxy.DropReplySilently, proxy.EveryTime) // so there are two rounds
			granted := p.On(tt.attempt, proxy.HoldReply, proxy.Second)            // the first asks for the server's clock
			got := kit.GoLock(t.Context(), l.Lock)
			granted.Wait(t, 1)
			kit.SleepUntil(time.Now().Add(lease / 10)) // part of the lease is over, so a round renews it
			granted.Release()
			require.ErrorIs(t, kit.Within(t, 2*lease, got, "the outcome").Err, holdfast.ErrNotAcknowledged)
			kit.AwaitFor(t, lease/3, "all to be given back", func() bool { return master.Int(t, "EXISTS", "one", "two") == 0 })
		})
	}
}

// Replicas are waited for as long as all that was taken is trusted, and no longer.
func TestReplicasAreWaitedForAsLongAsAllLocksAreTrusted(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master).Pause()
	s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	m := multilock.New(rlock.New(s, "one", nil), rlock.New(s, "two", &rlock.Options{FixedLease: 2 * time.Second}))
	took := kit.Stopwatch()
	_, err := m.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	require.Less(t, took(), acksPatience/2)
	awaitNothing(t, master)
}

// What a release has granted for 9.5 s is trusted for longer as soon as it has been renewed.
func TestReplicasAreWaitedForWhileAGrantOfAReleaseIsRenewed(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, master.Addr(), nil), "orders", nil))
	theirs := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	next := kit.GoLock(t.Context(), rlock.New(theirs, "orders", nil).Lock)
	awaitInLine(t, master)
	stood := time.Now()
	replica.Pause()
	require.NoError(t, hold.Release())
	kit.SleepUntil(stood.Add(10 * time.Second))
	replica.Resume()
	require.NoError(t, kit.Granted(t, acksPatience, next, "the lock, which the replica has").Release())
}

// A lease that a later call makes longer counts when replicas have that.
func TestALongerLeaseCountsWhenReplicasHaveIt(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, master *redistest.Server) {
		replica := redistest.StartReplica(t, master)
		s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
		l := k.Make(s, "orders", time.Minute)
		hold := kit.Lock(t, t.Context(), l)
		require.NoError(t, hold.Extend(t.Context(), 2*time.Minute))
		before := hold.Deadline()
		replica.Pause()
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, hold.Extend(short, 10*time.Minute), context.DeadlineExceeded)
		require.Equal(t, before, hold.Deadline(), "no replica has the longer lease")
		require.NoError(t, hold.Err())
		replica.Resume()
		require.NoError(t, hold.Extend(t.Context(), 10*time.Minute))
		require.Greater(t, hold.Deadline(), before)
		require.NoError(t, hold.Release())
	})
}

// So does that of a nested hold with a lease of its own.
func TestALongerLeaseOfANestedHoldCountsWhenReplicasHaveIt(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	outer := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	ctx := outer.Context(t.Context())
	long := rlock.New(s, "orders", &rlock.Options{FixedLease: time.Hour})
	nested := kit.Lock(t, ctx, long)
	require.NoError(t, nested.Release())
	replica.Pause()
	short := kit.Lock(t, ctx, rlock.New(s, "orders", &rlock.Options{FixedLease: 5 * time.Second}))
	require.NoError(t, short.Release(), "replicas have a longer lease")
	_, err := long.TryLockFor(ctx, 2*time.Second) // long enough for the server to execute it
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	require.NoError(t, outer.Err())
}

// A server that has the lock, and not the longer lease, does not acknowledge this.
func TestAServerThatHasNotTheLongerLeaseAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	other := redistest.StartReplica(t, master)
	redistest.StartReplica(t, master)
	p := proxy.Start(t, master.Addr())
	s := kit.Open(t, p.Addr(), acksOptions(1, acksPatience))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", &rlock.Options{FixedLease: time.Minute}))
	before := hold.Deadline()
	other.Do(t, "REPLICAOF", "NO", "ONE")
	redistest.StartReplica(t, other)
	lost := p.On(proxy.Command("WAIT"), proxy.ResetBefore, proxy.First)
	p.SetServer(other.Addr())
	err := hold.Extend(t.Context(), time.Hour)
	<-lost.Fired()
	_, _, why := notAcknowledged(t, err)
	require.ErrorContains(t, why, "does not have it any more")
	require.Equal(t, before, hold.Deadline())
	require.NoError(t, hold.Err())
}

// Nor does one that has executed an earlier attempt alone, whose lease ends sooner than that of the one that was
// answered.
func TestAServerThatHasAnEarlierAttemptAloneAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range oneAndTwo() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			kit.LoadScripts(t, master)
			other := redistest.StartReplica(t, master)
			p := proxy.Start(t, master.Addr())
			s := kit.Open(t, p.Addr(), acksOptions(1, acksPatience))
			l := tt.lock(s, &rlock.Options{FixedLease: time.Minute})
			require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // so that the server's clock is known
			lost := p.On(tt.attempt, proxy.DropReply, proxy.First)
			p.RefuseNew(true)
			got := kit.GoLock(t.Context(), l.Lock)
			lost.Wait(t, 1)
			kit.Await(t, "the replica to have it", func() bool { return other.Int(t, "EXISTS", "one") == 1 })
			other.Do(t, "REPLICAOF", "NO", "ONE")
			redistest.StartReplica(t, other)
			kit.Await(t, "a shorter lease", func() bool { return other.Int(t, "PTTL", "one") < 59_000 })
			lost.Remove()
			granted := p.On(tt.attempt, proxy.HoldReply, proxy.First)
			p.RefuseNew(false)
			granted.Wait(t, 1)
			p.SetServer(other.Addr())
			cut := p.On(proxy.Command("WAIT"), proxy.ResetBefore, proxy.First)
			granted.Release()
			<-cut.Fired()
			_, _, why := notAcknowledged(t, kit.Within(t, acksPatience, got, "the outcome").Err)
			require.ErrorContains(t, why, "does not have it any more")
		})
	}
}

// The old master may live on while its address leads to another one: the connection on which it is asked is given up.
func TestAConnectionToTheOldMasterIsGivenUp(t *testing.T) {
	t.Parallel()
	master, other := redistest.Start(t), redistest.Start(t)
	redistest.StartReplica(t, master)
	redistest.StartReplica(t, other)
	p := proxy.Start(t, master.Addr())
	s := kit.Open(t, p.Addr(), acksOptions(1, acksPatience))
	asks := p.On(proxy.Command("WAIT"), proxy.Pass, proxy.EveryTime)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "before", nil))
	require.NoError(t, hold.Release())
	p.SetServer(other.Addr())
	for _, conn := range p.Conns() {
		if conn != asks.Conns()[0] {
			conn.Cut()
		}
	}
	hold = kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	require.Equal(t, int64(1), other.Int(t, "EXISTS", "orders"))
	require.NoError(t, hold.Release())
}

// takeover makes a replica that has the lock the master to which p leads, and returns what makes others its replicas.
func takeover(t *testing.T, p *proxy.Proxy, next *redistest.Server) (demote func(other *redistest.Server)) {
	t.Helper()
	kit.Await(t, "the lock at the replica", func() bool { return next.Int(t, "EXISTS", "orders") == 1 })
	next.Do(t, "REPLICAOF", "NO", "ONE")
	p.SetServer(next.Addr())
	port := next.Strs(t, "CONFIG", "GET", "port")[1]
	return func(other *redistest.Server) { other.Do(t, "REPLICAOF", "127.0.0.1", port) }
}

// A master that is demoted lets those go who wait for its replicas, with an error. The server that has taken over is
// asked then.
func TestAMasterThatIsDemotedCostsAnotherRound(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	next, late := redistest.StartReplica(t, master), redistest.StartReplica(t, master)
	next.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	p := proxy.Start(t, master.Addr())
	late.Pause()
	waits := kit.GoLock(t.Context(), rlock.New(kit.Open(t, p.Addr(), acksOptions(2, acksPatience)), "orders", nil).Lock)
	awaitBlocked(t, master)
	demote := takeover(t, p, next)
	demote(master) // it lets the session go
	late.Resume()
	demote(late)
	hold := kit.Granted(t, acksPatience, waits, "the lock, which the next master has")
	require.NoError(t, hold.Release())
}

// One that is demoted just before it is to wait refuses that in words of its own.
func TestAMasterThatIsDemotedBeforeItWaitsCostsAnotherRound(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	next, other := redistest.StartReplica(t, master), redistest.StartReplica(t, master)
	next.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	p := proxy.Start(t, master.Addr())
	s := kit.Open(t, p.Addr(), acksOptions(1, acksPatience))
	waits := p.On(proxy.Command("WAIT"), proxy.Stall, proxy.First)
	got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
	<-waits.Fired()
	demote := takeover(t, p, next)
	demote(master)
	demote(other)
	waits.Release()
	hold := kit.Granted(t, acksPatience, got, "the lock, which the next master has")
	require.NoError(t, hold.Release())
}

// A round renews what a release has granted. A server that refuses that because it was demoted, or has too few
// replicas, has not the last word either.
func TestAServerThatDoesNotRenewAGrantOfAReleaseCostsAnotherRound(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]func(
		t *testing.T, p *proxy.Proxy, looks *proxy.Rule, master, next, other *redistest.Server,
	){
		"demoted": func(t *testing.T, p *proxy.Proxy, looks *proxy.Rule, master, next, other *redistest.Server) {
			demote := takeover(t, p, next)
			demote(master)
			demote(other)
			looks.Release()
		},
		"too few replicas": func(t *testing.T, _ *proxy.Proxy, looks *proxy.Rule, master, _, _ *redistest.Server) {
			master.Do(t, "CONFIG", "SET", "min-replicas-to-write", "3")
			looks.Release()
			looks.WaitMatched(t, 2)
			master.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			kit.LoadScripts(t, master)
			next, other := redistest.StartReplica(t, master), redistest.StartReplica(t, master)
			next.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
			p := proxy.Start(t, master.Addr())
			hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, master.Addr(), nil), "orders", nil))
			theirs := kit.Open(t, p.Addr(), acksOptions(1, acksPatience))
			got := kit.GoLock(t.Context(), rlock.New(theirs, "orders", nil).Lock)
			awaitInLine(t, master)
			looks := p.On(proxy.Command("EVAL"), proxy.Stall, proxy.First)
			require.NoError(t, hold.Release())
			<-looks.Fired()
			refused(t, p, looks, master, next, other)
			require.NoError(t, kit.Granted(t, acksPatience, got, "the lock").Release())
		})
	}
}

// What is not acknowledged was never held, to observers either.
func TestAnObserverSeesNoHoldThatIsNotAcknowledged(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, master *redistest.Server) {
		o := &lookout{}
		opts := acksOptions(1, 10*time.Millisecond)
		opts.Observer = o.observer()
		s := kit.Open(t, master.Addr(), opts)
		_, err := k.Make(s, "orders", 0).Lock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
		awaitNothing(t, master)
		require.NoError(t, s.Close())
		require.Zero(t, o.sum("hold"))
		require.Positive(t, o.sum("attempt well"))
		require.Equal(t, 1, o.counts(k.Title())["acquired badly"])
	})
}

// A look at who has what leaves a key alone whose end an operator has taken away.
func TestALookGivesNoLeaseToAKeyWithoutAnEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute}) // a renewal would give it one
	for name, l := range map[string]holdfast.Locker{
		"lock_renew": rlock.New(s, "rlock", nil), "rwlock_renew_read": rwlock.New(s, "rwlock", nil).Read(),
		"setlock_renew": kit.KindOf("setlock").Make(s, "setlock", 0),
	} {
		hold := kit.Lock(t, t.Context(), l)
		keys := []string{l.Name()}
		if name == "rwlock_renew_read" {
			keys = append(keys, "{rwlock}:"+hold.ID()+":rwlock_timeout:1")
		}
		srv.Do(t, "PERSIST", l.Name())
		look := append([]string{"EVAL", lua.Source(name), strconv.Itoa(len(keys))}, keys...)
		reply, _ := srv.Do(t, append(look, "1", hold.ID())...).([]any)
		require.Positive(t, reply[1], name)
		require.Equal(t, int64(-1), srv.Int(t, "PTTL", l.Name()), name)
		require.NoError(t, hold.Release())
	}
}

// The connection on which replicas are waited for may be made before the one for calls. The session hears of the end of
// the one for calls all the same, and asks for what it holds.
func TestTheConnectionForReplicasIsNotTakenForTheOneForCalls(t *testing.T) {
	t.Parallel()
	master, next := redistest.Start(t), redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	p := proxy.Start(t, master.Addr())
	opt := at(p.Addr())
	var refuses atomic.Bool // those for calls
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if refuses.Load() && !bytes.Contains(debug.Stack(), []byte("internal/acks")) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	s := kit.OpenWith(t, opt, acksOptions(1, acksPatience))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "held", &rlock.Options{FixedLease: time.Minute}))
	replica.Pause()
	got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
	awaitBlocked(t, master)

	asks := p.On(proxy.Command("WAIT"), proxy.Pass, proxy.EveryTime)
	refuses.Store(true)
	p.CutAll()
	asks.WaitMatched(t, 1)
	refuses.Store(false)
	replica.Resume()
	require.NoError(t, kit.Granted(t, acksPatience, got, "the lock").Release())
	kit.SleepUntil(time.Now().Add(500 * time.Millisecond)) // it has asked because of those that were cut
	require.NoError(t, hold.Err())

	p.SetServer(next.Addr())
	for _, conn := range p.Conns() {
		if !slices.Contains(asks.Conns(), conn) {
			conn.Cut()
		}
	}
	requireLostSoon(t, map[string]*holdfast.Hold{"fixed": hold})
}
