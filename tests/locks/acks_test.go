package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// acksPatience is for how long replicas are waited for that must have it: as long as it takes a busy machine.
const acksPatience = 20 * time.Second

// acksOptions are those of a session that asks so many replicas, patiently or not.
func acksOptions(n holdfast.Acks, timeout time.Duration) *holdfast.Options {
	return &holdfast.Options{Lease: time.Minute, Acks: n, AcksTimeout: timeout}
}

// notAcknowledged are the numbers of such an error.
func notAcknowledged(t *testing.T, err error) (got, wanted int, why error) {
	t.Helper()
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	e, ok := errors.AsType[*holdfast.NotAcknowledgedError](err)
	require.True(t, ok, "%v", err)
	return e.Got, e.Wanted, e.Err
}

// tooFew has a call fail because too few replicas have what it took, and returns its error. The answer of a busy master
// can be late, also the one to how many replicas there are, which is no answer; then the call is made again.
func tooFew(t *testing.T, take func(context.Context) (*holdfast.Hold, error)) (err error) {
	t.Helper()
	var late error
	kit.Await(t, "an answer in time", func() bool {
		_, err = take(t.Context())
		if late != nil && errors.Is(err, holdfast.ErrBusy) { // what came late is still being given back
			return false
		}
		if _, _, late = notAcknowledged(t, err); late != nil {
			require.Contains(t, []string{"no answer in time", "there are more replicas than were asked"}, late.Error())
		}
		return late == nil
	})
	return err
}

// awaitNothing waits until nothing of any lock is left on a server but what has no end.
func awaitNothing(t *testing.T, srv *redistest.Server) {
	t.Helper()
	kit.Await(t, "what was granted to be given back", func() bool {
		for key, value := range srv.Keyspace(t) {
			if value.Expires && !strings.HasPrefix(key, "holdfast_line") {
				return false
			}
		}
		return true
	})
}

// awaitBlocked waits until one client waits for replicas.
func awaitBlocked(t *testing.T, srv *redistest.Server) {
	t.Helper()
	kit.Await(t, "WAIT", func() bool { return strings.Contains(srv.Str(t, "INFO", "clients"), "blocked_clients:1") })
}

// A session has connections to wait for replicas and to hear messages, however few the client was to have.
func TestASessionHasAllTheConnectionsThatItNeeds(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	client := rueidis.ClientOption{InitAddress: []string{master.Addr()}, BlockingPoolSize: 1}
	s := kit.OpenWith(t, client, acksOptions(1, acksPatience))
	taken := kit.Lock(t, t.Context(), rlock.New(s, "taken", nil))
	waits := kit.GoLock(t.Context(), rlock.New(s, "taken", nil).Lock)
	kit.Await(t, "a subscription", func() bool { return len(master.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), acksPatience/2) // nobody ends its wait for a connection sooner
	defer cancel()
	require.NoError(t, kit.Lock(t, ctx, rlock.New(s, "free", nil)).Release())
	require.NoError(t, taken.Release())
	require.NoError(t, kit.Granted(t, acksPatience, waits, "the other").Release())
}

// An acquisition of any kind counts when the replica has it, and else it is given back.
func TestAnAcquisitionCountsWhenReplicasHaveIt(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, master *redistest.Server) {
		replica := redistest.StartReplica(t, master)
		patient := kit.Open(t, master.Addr(), acksOptions(holdfast.AcksAll, acksPatience))
		hold := kit.Lock(t, t.Context(), k.Make(patient, k.Name, 0))
		require.NotEmpty(t, replica.Keyspace(t))
		require.NoError(t, hold.Release())
		hold = kit.Lock(t, t.Context(), k.Make(patient, k.Name, time.Minute)) // with a fixed lease
		require.NoError(t, hold.Release())

		hasty := kit.Open(t, master.Addr(), acksOptions(1, 50*time.Millisecond))
		replica.Pause()
		for _, l := range []kit.Locker{k.Make(hasty, k.Name, 0), k.Make(hasty, k.Name, time.Minute)} {
			for _, take := range []func(context.Context) (*holdfast.Hold, error){l.Lock, l.TryLock} {
				got, wanted, why := notAcknowledged(t, tooFew(t, take))
				require.Equal(t, []any{0, 1, nil}, []any{got, wanted, why})
				awaitNothing(t, master)
				kit.Await(t, "a permit, whose key has no end, to be given back", func() bool {
					locked, err := l.Locked(t.Context())
					return err == nil && !locked
				})
			}
		}
		replica.Resume()
		hold = kit.Lock(t, t.Context(), k.Make(patient, k.Name, 0))
		require.NoError(t, hold.Release())
	})
}

// Several permits that one call has taken come back together.
func TestPermitsThatTooFewReplicasHaveComeBack(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master).Pause()
	p := semaphore.NewExpirable(kit.Open(t, master.Addr(), acksOptions(1, 50*time.Millisecond)), "exports", nil)
	_, err := p.TrySetPermits(t.Context(), 3)
	require.NoError(t, err)
	_ = tooFew(t, func(ctx context.Context) (*holdfast.Hold, error) {
		holds, err := p.TryAcquireN(ctx, 3)
		require.Empty(t, holds)
		return nil, err
	})
	kit.Await(t, "all permits", func() bool {
		free, err := p.AvailablePermits(t.Context())
		return err == nil && free == 3
	})
}

// So many, most and all are counted of those that the server has.
func TestHowManyReplicasMustHaveIt(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replicas := []*redistest.Server{redistest.StartReplica(t, master), redistest.StartReplica(t, master)}
	for _, c := range []struct {
		acks    holdfast.Acks
		wanted  int
		stopped int // so many that it fails
	}{
		{1, 1, 2}, {2, 2, 1}, {holdfast.AcksMost, 2, 1}, {holdfast.AcksAll, 2, 1}, {3, 3, 0},
	} {
		name := fmt.Sprintf("acks %d", c.acks)
		if c.wanted <= len(replicas) {
			patient := kit.Open(t, master.Addr(), acksOptions(c.acks, acksPatience))
			hold := kit.Lock(t, t.Context(), rlock.New(patient, name, nil))
			for _, r := range replicas[:c.stopped-1] { // one more would do
				r.Pause()
			}
			other := kit.Lock(t, t.Context(), rlock.New(patient, name+" again", nil))
			require.NoError(t, hold.Release())
			require.NoError(t, other.Release())
		}
		hasty := kit.Open(t, master.Addr(), acksOptions(c.acks, 50*time.Millisecond))
		for _, r := range replicas[:c.stopped] {
			r.Pause()
		}
		kit.Await(t, name+": the answers of those that go on, which a busy machine delays", func() bool {
			got, wanted, why := notAcknowledged(t, tooFew(t, rlock.New(hasty, name, nil).Lock))
			require.NoError(t, why, name)
			require.LessOrEqual(t, got, len(replicas)-c.stopped, name)
			return got == len(replicas)-c.stopped && wanted == c.wanted
		})
		for _, r := range replicas {
			r.Resume()
		}
	}
}

// A server without replicas fails whoever asks for any.
func TestAServerWithoutReplicasAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, n := range []holdfast.Acks{1, holdfast.AcksMost, holdfast.AcksAll} {
		s := kit.Open(t, srv.Addr(), acksOptions(n, 10*time.Millisecond))
		err := tooFew(t, rlock.New(s, "orders", nil).Lock)
		got, wanted, why := notAcknowledged(t, err)
		require.Equal(t, []any{0, 1, nil}, []any{got, wanted, why})
		require.ErrorContains(t, err, `rlock "orders": lock: holdfast: not acknowledged: 0 of 1 replicas have it`)
		awaitNothing(t, srv)
	}
}

// While replicas are waited for, other calls of the session go on; and a call whose ctx ends gives back.
func TestNobodyIsHeldUpWhileReplicasAreWaitedFor(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	replica.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := kit.GoLock(ctx, rlock.New(s, "orders", nil).Lock)
	awaitBlocked(t, master)
	held, err := rlock.New(s, "orders", nil).Locked(t.Context())
	require.NoError(t, err)
	require.True(t, held)
	_, err = rlock.New(s, "orders", nil).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.Empty(t, waits)

	cancel()
	r := kit.Within(t, 5*time.Second, waits, "the call whose ctx ended")
	require.ErrorIs(t, r.Err, context.Canceled)
	require.NotErrorIs(t, r.Err, holdfast.ErrNotAcknowledged)
	awaitNothing(t, master)

	waits = kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
	kit.Await(t, "the next grant", func() bool { return len(master.Keyspace(t)) > 0 })
	require.NoError(t, s.Close())
	r = kit.Within(t, 5*time.Second, waits, "the call whose session was closed")
	require.ErrorIs(t, r.Err, holdfast.ErrClosed)
	awaitNothing(t, master)
}

// Acquisitions that come together wait together.
func TestOneRoundIsForAllThatWereGrantedBefore(t *testing.T) {
	t.Parallel()
	const n = 200
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), acksOptions(holdfast.AcksAll, acksPatience))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "before", nil))
	require.NoError(t, hold.Release())
	replica.Pause()
	master.ResetStats(t)
	first := kit.GoLock(t.Context(), rlock.New(s, "first", nil).Lock)
	awaitBlocked(t, master)
	var waiting []<-chan kit.Result
	for i := range n {
		waiting = append(waiting, kit.GoLock(t.Context(), rlock.New(s, fmt.Sprint("orders:", i), nil).Lock))
	}
	kit.Await(t, "all grants", func() bool { return len(master.Strs(t, "KEYS", "orders:*")) == n })
	replica.Resume()
	for _, waits := range append(waiting, first) {
		r := kit.Within(t, acksPatience, waits, "a lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	}
	stats := master.CommandStats(t)
	require.GreaterOrEqual(t, stats["wait"], int64(2))
	require.LessOrEqual(t, stats["wait"], int64(10), "a few that were granted when a round began wait for the next")
	require.Equal(t, stats["wait"], stats["set"], "each round writes once")
	require.LessOrEqual(t, stats["info"], stats["wait"]+2) // awaitBlocked's are not all left out
}

// What is nested, or handed over inside the session, has been acknowledged before.
func TestWhatWasAcknowledgedIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	l := rlock.New(s, "orders", nil)
	hold := kit.Lock(t, t.Context(), l)
	replica.Pause()
	master.ResetStats(t)
	nested := kit.Lock(t, hold.Context(t.Context()), l)
	require.NoError(t, nested.Release())
	next := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "a waiter", func() bool { return len(master.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	require.NoError(t, hold.Release())
	r := kit.Within(t, 10*time.Second, next, "the lock that was handed over")
	require.NoError(t, r.Err)
	require.Zero(t, master.CommandStats(t)["wait"])
	require.NoError(t, r.Hold.Release())
}

// A lock that a release of another session has granted is acknowledged like any other.
func TestAGrantOfAReleaseIsAcknowledged(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	mine := rlock.New(kit.Open(t, master.Addr(), nil), "orders", nil)
	theirs := rlock.New(kit.Open(t, master.Addr(), acksOptions(1, 50*time.Millisecond)), "orders", nil)
	hold := kit.Lock(t, t.Context(), mine)
	next := kit.GoLock(t.Context(), theirs.Lock)
	awaitInLine(t, master)
	replica.Pause()
	require.NoError(t, hold.Release())
	r := kit.Within(t, 10*time.Second, next, "the outcome")
	got, wanted, _ := notAcknowledged(t, r.Err)
	require.Equal(t, []int{0, 1}, []int{got, wanted})
	hold = kit.Lock(t, t.Context(), mine)
	require.NoError(t, hold.Release())
}

// What replicas acknowledge of such a lock is the lease of the session, not the short one of a release: a failover that
// takes longer than that must not end it.
func TestAGrantOfAReleaseIsAcknowledgedForAWholeLease(t *testing.T) {
	t.Parallel()
	for _, k := range linedKinds {
		if !k.granted {
			continue
		}
		for _, length := range []time.Duration{time.Hour, 15 * time.Second} { // a grant has 9.5 s
			t.Run(k.name+" "+length.String(), func(t *testing.T) {
				t.Parallel()
				q := newQueue(t, k)
				replica := redistest.StartReplica(t, q.srv)
				granted := make(chan bool, 1)
				opts := acksOptions(1, min(acksPatience, length/3))
				opts.Lease = length
				opts.Observer = &holdfast.Observer{Acquire: func(context.Context, holdfast.Subject) func(holdfast.Acquired) {
					return func(a holdfast.Acquired) { granted <- a.Granted }
				}}
				s := kit.Open(t, q.srv.Addr(), opts)
				next := q.waits(t, s, kit.Orders, func() *redistest.Server { return q.srv }, 1)
				settled()
				kit.AwaitHandOn(t, q.srv)
				q.passesOn(acksPatience, next, "the waiter")
				require.True(t, <-granted)
				require.Greater(t, replica.Int(t, "PTTL", kit.Orders), (length - 2*time.Second).Milliseconds())
				require.NoError(t, q.give())
			})
		}
	}
}

// A session that asks no replica sends nothing more.
func TestWhoAsksNoReplicaPaysNothing(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), nil)
	master.ResetStats(t)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	require.NoError(t, hold.Release())
	stats := master.CommandStats(t)
	require.Zero(t, stats["wait"]+stats["set"]+stats["info"], "%v", stats)
	require.EqualValues(t, 2, stats["eval"], "the scripts, in full")
}

// A reply of WAIT that is lost tells nothing, so there is another round.
func TestALostReplyOfWaitCostsAnotherRound(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{
		"lost with its connection": proxy.DropReply, "lost silently": proxy.DropReplySilently, "cut": proxy.ResetBefore,
		"loading": proxy.Answer("-LOADING Redis is loading the dataset in memory"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			redistest.StartReplica(t, master)
			p := proxy.Start(t, master.Addr())
			s := kit.Open(t, p.Addr(), acksOptions(1, 2500*time.Millisecond)) // as long for the other round
			for _, command := range []string{"WAIT", "SET", "EVAL"} {
				lost := p.On(proxy.Command(command), action, proxy.First)
				hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
				require.NoError(t, hold.Release())
				require.Equal(t, 1, lost.Count(), command)
				lost.Remove()
			}
		})
	}
}

// A server that has taken over without the lock does not acknowledge it, however many replicas it has.
func TestAServerThatHasNotTheLockAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	master, other := redistest.Start(t), redistest.Start(t)
	redistest.StartReplica(t, master)
	redistest.StartReplica(t, other)
	p := proxy.Start(t, master.Addr())
	s := kit.Open(t, p.Addr(), acksOptions(1, acksPatience))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "before", nil))
	require.NoError(t, hold.Release())
	lost := p.On(proxy.Command("WAIT"), proxy.ResetBefore, proxy.First)
	p.SetServer(other.Addr())
	_, err := rlock.New(s, "orders", nil).Lock(t.Context())
	<-lost.Fired()
	_, _, why := notAcknowledged(t, err)
	require.ErrorContains(t, why, "does not have it")
}

func TestWrongAcksAreRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	opt := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
	for words, opts := range map[string]*holdfast.Options{
		"Options.Acks is -3, must be a number of replicas, AcksMost or AcksAll": {Acks: -3},
		"Options.AcksTimeout is 1µs, must be at least 1ms":                      {Acks: 1, AcksTimeout: time.Microsecond},
		"Options.AcksTimeout is 11s, must be at least 1ms and at most a third":  {Acks: 1, AcksTimeout: 11 * time.Second},
	} {
		_, err := holdfast.Open(opt, opts)
		require.ErrorContains(t, err, words)
	}
}

// In a cluster each master has rounds of its own, and slots move.
func TestReplicasOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	for _, n := range c.Nodes[:2] {
		c.AddReplica(t, n)
	}
	s := kit.OpenCluster(t, c, acksOptions(holdfast.AcksAll, acksPatience))
	names := make(map[*redistest.Server]string)
	for i := 0; len(names) < len(c.Nodes); i++ {
		name := fmt.Sprint("orders:", i)
		names[c.NodeOf(t, name)] = name
	}
	take := func(name string) {
		t.Helper()
		hold := kit.Lock(t, t.Context(), rlock.New(s, name, nil))
		require.NoError(t, hold.Release())
	}
	for i, n := range c.Nodes {
		if i < 2 {
			take(names[n])
			continue
		}
		hasty := kit.OpenCluster(t, c, acksOptions(1, 50*time.Millisecond))
		got, wanted, why := notAcknowledged(t, tooFew(t, rlock.New(hasty, names[n], nil).Lock))
		require.Equal(t, []any{0, 1, nil}, []any{got, wanted, why})
		awaitNothing(t, n)
	}
	c.MoveSlot(t, names[c.Nodes[2]], c.Nodes[0])
	take(names[c.Nodes[2]])
	c.MoveSlot(t, names[c.Nodes[2]], c.Nodes[1])
	take(names[c.Nodes[2]])
	for _, k := range kit.OnOneServer() {
		if !k.Several {
			hold := kit.Lock(t, t.Context(), k.Make(s, "{"+names[c.Nodes[0]]+"}"+k.Name, 0))
			require.NoError(t, hold.Release())
		}
	}
}

// Behind Sentinel, the replica that takes over knows each lock that was acknowledged.
func TestASentinelFailoverKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	s := kit.OpenWith(t, kit.BySentinel(set), acksOptions(1, acksPatience))
	hold := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
	set.Failover(t)
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release(), "the new master has it")
	waits := kit.GoLock(t.Context(), rlock.New(s, "held", nil).Lock) // there is no replica any more
	awaitBlocked(t, set.Master())
	redistest.StartReplica(t, set.Master())
	r := kit.Within(t, acksPatience, waits, "the lock, when there is a replica again")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
}

// On disk: a server that cannot wait for that is refused when the session opens.
func TestAcksOnDisk(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	opts := &holdfast.Options{Lease: time.Minute, AcksOnDisk: true, AcksTimeout: acksPatience}
	opt := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
	if _, err := srv.Try("WAITAOF", "0", "0", "0"); err != nil {
		_, err := holdfast.Open(opt, opts)
		require.ErrorContains(t, err, "Options.AcksOnDisk needs WAITAOF: ")
		return
	}
	s := kit.OpenWith(t, opt, opts)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	srv.Restart()
	require.Equal(t, int64(1), srv.Int(t, "EXISTS", "orders"))
	require.NoError(t, hold.Release())

	srv.Do(t, "CONFIG", "SET", "appendonly", "no")
	_, err := holdfast.Open(opt, opts)
	require.ErrorContains(t, err, "Options.AcksOnDisk needs WAITAOF: ")
	_, err = rlock.New(s, "orders", nil).Lock(t.Context())
	_, _, why := notAcknowledged(t, err)
	require.ErrorContains(t, why, "appendonly")
}

// What replicas have acknowledged of a lease ends when the lease is made shorter: a later call that makes it longer
// again is acknowledged like the first.
func TestALeaseThatWasMadeShorterIsAcknowledgedAnew(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(t *testing.T, s *holdfast.Session, master, replica *redistest.Server) error{
		"an update, and Extend": func(t *testing.T, s *holdfast.Session, _, replica *redistest.Server) error {
			e := kit.NewExports(t, s, 1, 10*time.Minute)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 20*time.Second))
			replica.Pause()
			return h.Extend(t.Context(), 5*time.Minute)
		},
		"an update during Extend, and Extend": func(
			t *testing.T, s *holdfast.Session, master, replica *redistest.Server,
		) error {
			e := kit.NewExports(t, s, 1, 10*time.Minute)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			replica.Pause()
			extended := make(chan error, 1)
			go func() { extended <- h.Extend(t.Context(), 20*time.Minute) }()
			awaitBlocked(t, master)
			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 20*time.Second))
			replica.Resume()
			require.Error(t, kit.Within(t, acksPatience, extended, "the first Extend"))
			require.Less(t, time.Until(h.Deadline()), time.Minute)
			replica.Pause()
			return h.Extend(t.Context(), 5*time.Minute)
		},
		"a trim, and a nested hold": func(t *testing.T, s *holdfast.Session, master, replica *redistest.Server) error {
			outer := afterTrim(t, s, master)
			replica.Pause()
			_, err := rlock.New(s, kit.Orders, &rlock.Options{FixedLease: 5 * time.Minute}).TryLock(outer.Context(t.Context()))
			return err
		},
		"a trim, and Extend": func(t *testing.T, s *holdfast.Session, master, replica *redistest.Server) error {
			outer := afterTrim(t, s, master)
			replica.Pause()
			return outer.Extend(t.Context(), 5*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			replica := redistest.StartReplica(t, master)
			defer replica.Resume()
			s := kit.Open(t, master.Addr(), acksOptions(1, 2*time.Second))
			require.ErrorIs(t, play(t, s, master, replica), holdfast.ErrNotAcknowledged)
		})
	}
}

// afterTrim returns a renewed hold whose lease has been trimmed to a minute, because a nested one of ten minutes was
// released.
func afterTrim(t *testing.T, s *holdfast.Session, master *redistest.Server) (outer *holdfast.Hold) {
	t.Helper()
	outer = kit.Lock(t, t.Context(), rlock.New(s, kit.Orders, nil))
	long := rlock.New(s, kit.Orders, &rlock.Options{FixedLease: 10 * time.Minute})
	nested := kit.Lock(t, outer.Context(t.Context()), long)
	require.NoError(t, nested.Release())
	kit.Await(t, "the trim", func() bool { return master.Int(t, "PTTL", kit.Orders) <= time.Minute.Milliseconds() })
	return outer
}

// A renewed hold that is nested in one with a short lease has a longer one than replicas have acknowledged.
func TestARenewedHoldInAShortOneIsAcknowledged(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	defer replica.Resume()
	s := kit.Open(t, master.Addr(), acksOptions(1, 2*time.Second))
	short := rlock.New(s, kit.Orders, &rlock.Options{FixedLease: 20 * time.Second})
	outer := kit.Lock(t, t.Context(), short)
	ctx := outer.Context(t.Context())
	replica.Pause()
	_, err := rlock.New(s, kit.Orders, nil).TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	require.NoError(t, outer.Err())
	replica.Resume()
	nested := kit.Lock(t, ctx, rlock.New(s, kit.Orders, nil))
	replica.Pause() // from now on nested holds are not asked for again
	again := kit.Lock(t, context.WithoutCancel(nested.Context(t.Context())), rlock.New(s, kit.Orders, nil))
	require.NoError(t, again.Release())
}

// What waits for replicas has not been acknowledged, and stands for no other hold.
func TestARenewedHoldBesideOneThatWaitsForReplicasIsAcknowledged(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	s := kit.Open(t, master.Addr(), acksOptions(1, acksPatience))
	outer := kit.Lock(t, t.Context(), rlock.New(s, kit.Orders, &rlock.Options{FixedLease: 20 * time.Second}))
	ctx := outer.Context(t.Context())
	replica.Pause()
	first := kit.GoLock(ctx, rlock.New(s, kit.Orders, nil).TryLock)
	awaitBlocked(t, master)
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := rlock.New(s, kit.Orders, nil).Lock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	replica.Resume()
	require.NoError(t, kit.Granted(t, acksPatience, first, "the first").Release())
	require.NoError(t, outer.Release())
}
