package fleet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// handsOver is a worker that hands a lock to and fro between two sessions, and says for how long it believes in each
// token. The second session is behind an address of its own.
func handsOver(args []string) {
	who, err := strconv.Atoi(args[2])
	kit.Must(err)
	sessions := []*holdfast.Session{
		kit.OpenWorker(args[0], kit.WorkerLease), kit.OpenWorker(args[1], kit.WorkerLease),
	}
	ctx := context.Background()
	for i := 0; ; {
		hold, err := rlock.New(sessions[i], kit.Orders, &rlock.Options{Fenced: true}).Lock(ctx)
		kit.Must(err)
		token := hold.Token()
		kit.Say(term{Who: who, Term: token, Begun: true, At: worker.Now()})
		for {
			at := worker.Now()
			if hold.Err() != nil {
				kit.Say(term{Who: who, Term: token, Ended: true, At: at})
				break
			}
			kit.Say(term{Who: who, Term: token, At: at})
			if next, err := hold.HandTo(ctx, sessions[1-i]); err == nil {
				hold, i = next, 1-i
			}
		}
	}
}

// While a hold is being handed over, before or after the server has heard of it, the process is stopped, or the session
// that is to have it is cut off, for as long as the lease. If the process is stopped, another one has the lock then,
// and neither session believes in it. If only the new session is cut off, the hold stays where it was.
func TestAHandOverThatStandsStill(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]proxy.Action{"unheard": proxy.Stall, "unanswered": proxy.HoldReply} {
		for _, fate := range []string{"stopped", "cut off"} {
			t.Run(name+", "+fate, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				h := &history{begun: make(chan term, 100)}
				var all []*worker.Worker
				var proxies []*proxy.Proxy
				for who := range 2 {
					p := proxy.Start(t, srv.Addr())
					proxies = append(proxies, p)
					all = append(all, worker.Start(t, worker.Hear(t, h.add), "hands over", srv.Addr(), p.Addr(), strconv.Itoa(who)))
				}
				has := kit.Within(t, kit.LongestWait, h.begun, "a holder").Who
				still := kit.Stillness()
				for range 4 {
					// In the middle of a hand-over; or of a renewal, if that is first.
					var rule *proxy.Rule
					for caught := false; !caught; {
						rule = proxies[has].On(kit.ScriptNamed("lock_renew"), on, proxy.First)
						select {
						case <-rule.Fired():
							caught = true
						case next := <-h.begun: // only where the machine, too, stood still for that long
							require.NotZero(t, still())
							rule.Remove()
							has = next.Who
						case <-time.After(kit.LongestWait):
							t.Fatal("the holder makes no call")
						}
					}
					victim := has
					if fate == "stopped" {
						all[victim].Pause()
						has = kit.Within(t, patience, h.begun, "the other one").Who
						require.NotEqual(t, victim, has)
						all[victim].Resume()
						rule.Release()
					} else {
						proxies[victim].Silence()
						kit.SleepUntil(time.Now().Add(kit.WorkerLease))
						proxies[victim].ResumeAll()
						rule.Release()
					}
					rule.Remove()
				}
				for _, w := range all {
					w.Kill()
				}
				t.Logf("%d tokens", h.check(t))
			})
		}
	}
}

// A late copy of an acquisition that stands does so for the session that has sent it, where nobody looks for it once
// another session has the hold. So the hand-over waits until no copy can be executed.
func TestAHandOverWaitsForLateCopiesOfTheAcquisition(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	// A call on a silent connection is repeated after a third of the session's lease, and may be executed for a third of
	// the permit's.
	from := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	to, others := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	permits := func(s *holdfast.Session) *semaphore.Expirable {
		return semaphore.NewExpirable(s, kit.Orders, &semaphore.ExpirableOptions{FixedLease: 18 * time.Second})
	}
	_, err := permits(others).TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	take := func(s *holdfast.Session) *holdfast.Hold {
		h, err := permits(s).Acquire(t.Context())
		require.NoError(t, err)
		return h
	}
	inLine := func() int64 { return srv.Int(t, "LLEN", wire.Line(kit.Orders)) }

	before := take(others) // whoever has stood in the line listens for a while, and stands at once the next time
	stood := kit.GoLock(t.Context(), permits(from).Acquire)
	kit.Await(t, "a waiter in the line", func() bool { return inLine() == 1 })
	require.NoError(t, before.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, stood, "the waiter").Release())

	late := proxied.On(kit.ScriptNamed("semaphore_acquire_expirable"), proxy.Stall, proxy.First)
	given, err := take(from).HandTo(t.Context(), to)
	require.NoError(t, err)
	require.NoError(t, given.Release())
	other := take(others)
	late.Release()
	late.WaitAnswered(t, 1)
	require.Zero(t, inLine())
	require.NoError(t, other.Release())
}

// A replica takes over while a hold is handed to and fro. If that has everything, the hold stays, and nobody else sees
// the lock free; if it has nothing, the hold is lost to both, and somebody else gets it.
func TestHandOversUnderSentinelFailover(t *testing.T) {
	t.Parallel()
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgets %v", forgets), func(t *testing.T) {
			t.Parallel()
			set := redistest.StartSentinels(t)
			open := func() *holdfast.Session {
				// The sentinels need 2 s to take a master for dead.
				return kit.OpenWith(t, kit.BySentinel(set), &holdfast.Options{Lease: 20 * time.Second})
			}
			sessions, rival := []*holdfast.Session{open(), open()}, rlock.New(open(), kit.Orders, nil)
			hold := kit.Lock(t, t.Context(), rlock.New(sessions[0], kit.Orders, &rlock.Options{Fenced: true}))
			id, token := hold.ID(), hold.Token()
			over := make(chan struct{})
			handed := make(chan int) // how many hand-overs succeeded after the failover
			go func() {
				n := 0
				for i := 0; hold.Err() == nil && n < 20; {
					after := kit.Closed(over)
					if next, err := hold.HandTo(context.Background(), sessions[1-i]); err == nil {
						hold, i = next, 1-i
						if after {
							n++
						}
					}
				}
				handed <- n
			}()
			waiting := kit.GoLock(t.Context(), rival.Lock)
			kit.Await(t, "a rival in the line", func() bool {
				return set.Master().Int(t, "LLEN", "holdfast_line:{"+kit.Orders+"}") == 1
			})
			set.Master().AwaitReplica(t)
			if forgets {
				set.Replica().Forget(t)
			}
			set.Failover(t)
			close(over)
			if forgets {
				kit.Within(t, patience, handed, "its loss")
				require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
				require.NoError(t, kit.Granted(t, patience, waiting, "the rival").Release())
				return
			}
			require.Equal(t, 20, kit.Within(t, patience, handed, "more hand-overs"))
			require.NoError(t, hold.Err())
			require.Equal(t, id, hold.ID())
			require.Equal(t, token, hold.Token())
			select {
			case got := <-waiting:
				require.Fail(t, "the rival has it", "%v", got.Err)
			default:
			}
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Granted(t, patience, waiting, "the rival").Release())
		})
	}
}

// A session on a client of the caller's does not know when that gives a silent connection up.
func TestAHandOverToASilentServerIsBounded(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.Addr()}, DisableCache: true, Dialer: net.Dialer{Timeout: time.Second},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b, err := holdfast.NewSession(client, &holdfast.Options{Lease: kit.Lease, Anonymous: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(b, "warm", nil)).Release())
	a := kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
	p.Silence()
	took := kit.Stopwatch()
	_, err = hold.HandTo(context.Background(), b)
	assert.ErrorIs(t, err, holdfast.ErrNoReply)
	assert.Equal(t, 1, strings.Count(err.Error(), holdfast.ErrNoReply.Error()), err)
	assert.Less(t, took(), kit.Lease/3+time.Second)
	p.ResumeAll()
}

// A hold that comes into a session by a hand-over trusts no longer lease than the one that the session has set, whether
// or not it was told so.
func TestAHandedHoldKnowsOfItsNewSessionsUpdate(t *testing.T) {
	t.Parallel()
	for name, unknown := range map[string]bool{"known": false, "unknown": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, proxied := kit.StartProxied(t)
			from, to := kit.Open(t, srv.Addr(), nil), kit.Open(t, proxied.Addr(), nil)
			e, other := kit.NewExports(t, from, 1, time.Hour), kit.NewExports(t, to, 1, time.Hour)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, other.SetPermits(t.Context(), 1)) // so that its session knows the server's clock
			if unknown {
				proxied.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "update"), proxy.DropReply, proxy.First)
				require.ErrorIs(t, other.UpdateLease(t.Context(), h.ID(), time.Minute), holdfast.ErrUnknown)
			} else {
				require.NoError(t, other.UpdateLease(t.Context(), h.ID(), time.Minute))
			}
			given, err := h.HandTo(t.Context(), to)
			require.NoError(t, err)
			require.Less(t, time.Until(given.Deadline()), 2*time.Minute)
		})
	}
}

// A permit that is to be given back by its id, with unknown outcome, goes back in the background, also if it has been
// handed to another session meanwhile.
func TestAPermitThatIsHandedOverWhileItIsGivenBackGoesBack(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	from, to := kit.Open(t, proxied.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, from, 1, time.Hour)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	release := kit.ScriptOf(kit.KindOf("semaphore expirable"), "release")
	stalled := proxied.On(release, proxy.Stall, proxy.First)
	ended := make(chan error, 1)
	go func() { ended <- e.Release(t.Context(), h.ID()) }()
	stalled.Wait(t, 1)
	given, err := h.HandTo(t.Context(), to)
	require.NoError(t, err)
	reset := proxied.On(release, proxy.ResetBefore, proxy.EveryTime)
	proxied.CutAll()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, ended, "the release"), holdfast.ErrUnknown)
	reset.Remove()
	kit.AwaitSoon(t, 5*time.Second, "the permit back", func() bool { return len(kit.PermitIDs(t, srv)) == 0 })
	require.ErrorIs(t, given.Release(), holdfast.ErrLost)
}

// So does one that is renewed: its renewal by the new session extends what that session has made shorter.
func TestAHandedRenewedHoldKnowsOfItsNewSessionsUpdate(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	from, to := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	e, other := kit.NewExports(t, from, 1, 0), kit.NewExports(t, to, 1, 0)
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	require.NoError(t, other.UpdateLease(t.Context(), h.ID(), 5*time.Second))
	given, err := h.HandTo(t.Context(), to)
	require.NoError(t, err)
	require.Less(t, time.Until(given.Deadline()), time.Minute)
}

// A call of a session may be executed, without its knowing, after a permit that it is about has come into that session.
func TestAHandedPermitKnowsOfAnEarlierCallThatMayComeLate(t *testing.T) {
	t.Parallel()
	for name, fixed := range map[string]time.Duration{"fixed": time.Hour, "renewed": 0} {
		t.Run("update, "+name, func(t *testing.T) {
			t.Parallel()
			m := newPermitMidway(t, false, 1, fixed)
			h, err := m.ours.Acquire(t.Context())
			require.NoError(t, err)
			update := m.on("update", proxy.Stall)
			ctx, cancel := context.WithCancel(t.Context())
			updated := make(chan error, 1)
			go func() { updated <- m.e.UpdateLease(ctx, h.ID(), 4*time.Second) }()
			update.Wait(t, 1)
			cancel()
			require.ErrorIs(t, kit.Within(t, kit.LongestWait, updated, "the end of the call"), holdfast.ErrUnknown)
			kit.Await(t, "another connection", func() bool {
				return kit.ErrorOf(m.e.AvailablePermits(t.Context())) == nil
			})
			given, err := h.HandTo(t.Context(), m.to)
			require.NoError(t, err)
			require.NoError(t, given.Err())
			update.Release()
			update.WaitAnswered(t, 1)
			left, err := m.e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			require.Less(t, time.Until(given.Deadline()), left)
		})
	}
	t.Run("release", func(t *testing.T) {
		t.Parallel()
		m := newPermitMidway(t, false, 1, time.Hour)
		h, err := m.ours.Acquire(t.Context())
		require.NoError(t, err)
		reset := m.proxy.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), "release"), proxy.ResetBefore, proxy.EveryTime)
		require.ErrorIs(t, m.e.Release(t.Context(), h.ID()), holdfast.ErrUnknown)
		kit.Await(t, "another connection", func() bool {
			return kit.ErrorOf(m.e.AvailablePermits(t.Context())) == nil
		})
		given, err := h.HandTo(t.Context(), m.to)
		require.NoError(t, err)
		require.ErrorIs(t, given.Err(), holdfast.ErrLost)
		reset.Remove()
		other := semaphore.NewExpirable(m.from, "exports", nil)
		kit.AwaitSoon(t, 5*time.Second, "the permit back", func() bool {
			free, err := other.AvailablePermits(t.Context())
			return err == nil && free == 1
		})
	})
}

// The session gives a permit back that it is handed, and has the answer before the hold is there.
func TestAPermitThatGoesBackWhileItIsHandedOverIsLost(t *testing.T) {
	t.Parallel()
	const n = 50 // one race each
	m := newPermitMidway(t, false, n, time.Hour)
	kit.AwaitFor(t, 3*time.Minute, "hand-overs in time", func() (some bool) {
		holds, err := m.ours.AcquireN(t.Context(), n)
		require.NoError(t, err)
		for _, heir := range m.handOverWhatGoesBack(t, holds) {
			some = true
			require.ErrorIs(t, heir.Err(), holdfast.ErrLost)
		}
		return some
	})
}

// handOverWhatGoesBack hands permits over that the session which gets them gives back, all at once, right behind the
// calls by which they come. It leaves out those that had gone before.
func (m *permitMidway) handOverWhatGoesBack(t *testing.T, holds []*holdfast.Hold) (heirs []*holdfast.Hold) {
	t.Helper()
	n := len(holds)
	release := kit.ScriptOf(kit.KindOf("semaphore expirable"), "release")
	later := m.proxy.On(release, proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	ended := make(chan error, n)
	for _, h := range holds {
		go func() { ended <- m.e.Release(t.Context(), h.ID()) }()
	}
	for range n {
		require.ErrorIs(t, kit.Within(t, kit.LongestWait, ended, "a release"), holdfast.ErrUnknown)
	}
	later.WaitMatched(t, later.Matched()+n) // so none is under way for a while
	answer := m.on("renew", proxy.HoldReply)
	given := make(chan *holdfast.Hold, n)
	for _, h := range holds {
		go func() {
			heir, _ := h.HandTo(context.Background(), m.to)
			given <- heir
		}()
	}
	answer.WaitMatched(t, n)
	answer.Wait(t, 1)
	later.Remove()
	free := semaphore.NewExpirable(m.from, "exports", nil)
	kit.Await(t, "the permits back", func() bool {
		got, err := free.AvailablePermits(t.Context())
		return err == nil && got == n
	})
	answer.Release()
	for range n {
		if heir := kit.Within(t, kit.LongestWait, given, "a hand-over"); heir != nil {
			heirs = append(heirs, heir)
		}
	}
	answer.Remove()
	return heirs
}

// A hand-over that failed may have made the lease longer. When the hold is lost where it has stayed, the lock does not
// stay taken for that.
func TestAHandOverThatFailsLeavesNoLongerLease(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	a := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 3 * time.Second, MaxHold: 3 * time.Second})
	b := kit.Open(t, p.Addr(), &holdfast.Options{Lease: time.Minute})
	hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
	kit.SleepUntil(time.Now().Add(3100 * time.Millisecond)) // nobody renews it any more
	rule := p.On(kit.ScriptNamed("lock_renew"), proxy.DropReplySilently, proxy.First)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := hold.HandTo(ctx, b)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, rule.Count())
	require.NoError(t, hold.Err())
	require.Greater(t, srv.Int(t, "PTTL", kit.Orders), int64(50_000))
	kit.Await(t, "the loss", func() bool { return hold.Err() != nil })
	require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
	kit.Await(t, "the lock to be free", func() bool { return srv.Int(t, "EXISTS", kit.Orders) == 0 })
}

// The other session's server may have taken over, and not have heard of the call that made the lease longer: then the
// hold is trusted for no longer than it lasts there.
func TestAHandOverToAServerThatForgotALongerLease(t *testing.T) {
	t.Parallel()
	former := redistest.Start(t)
	next := redistest.StartReplica(t, former)
	opts := &holdfast.Options{Lease: time.Minute}
	a, holds := kit.Open(t, former.Addr(), opts), make(map[string]*holdfast.Hold)
	for _, k := range handed() {
		for name, fixed := range map[string]time.Duration{k.Name + " watched": 0, k.Name + " fixed": time.Minute} {
			holds[name] = kit.Lock(t, t.Context(), k.Make(a, name, fixed))
		}
	}
	former.AwaitReplica(t)
	next.Do(t, "REPLICAOF", "NO", "ONE")
	b := kit.Open(t, next.Addr(), opts)
	for name, hold := range holds {
		require.NoError(t, hold.Extend(t.Context(), time.Hour), name)
		given := handTo(t, t.Context(), hold, b)
		require.NoError(t, given.Err(), name)
		require.Less(t, time.Until(given.Deadline()), time.Minute, name)
		require.NoError(t, given.Release(), name)
	}
}
