package several

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Waiters ask now and then. If the server is down that would publish the releases, they lose no more time than that,
// even in one process.
func TestWaitersOfARedLockTakeTurnsWithoutTheFirstServer(t *testing.T) {
	t.Parallel()
	const waiters = 3
	f := kit.NewFleet(t, 3)
	sessions := f.Far(&holdfast.Options{Lease: 30 * time.Second})
	// One that answers late on a busy machine is waited for; the one that is gone refuses at once.
	l := kit.RedLock(sessions, kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 5 * time.Second})
	f.Servers[0].Stop() // before anything is taken: every hold then has, and gives back, the other two
	h := kit.Lock(t, t.Context(), l)
	turns := make(chan kit.Result, waiters)
	for range waiters {
		go func() {
			h, err := l.Lock(t.Context())
			turns <- kit.Result{Hold: h, Err: err}
		}()
	}
	for range waiters {
		took := kit.Stopwatch()
		require.NoError(t, h.Release())
		r := kit.Within(t, 10*time.Second, turns, "the next one's turn")
		assert.Less(t, took(), 2*time.Second) // a quarter of a second is promised
		require.NoError(t, r.Err)
		h = r.Hold
	}
	require.NoError(t, h.Release())
}

// A waiter with an owner, which other calls might share, asks as rarely as any other.
func TestAWaiterOfARedLockWithAnOwnerAsksNowAndThen(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	holder, waiter := f.Near(nil), f.Far(nil)
	f.Cut(2) // it is then free for a waiter
	h := kit.Lock(t, t.Context(), kit.RedLock(holder, kit.Orders,
		func(s *holdfast.Session, name string) holdfast.Locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: time.Minute})
		}, kit.Patient))
	asked := map[string]float64{} // per second
	for who, ctx := range map[string]context.Context{
		"nobody":   t.Context(),
		"an owner": holdfast.NewOwner(t.Context()),
	} {
		before, took := f.Servers[0].CommandStats(t)["evalsha"], kit.Stopwatch()
		_, err := kit.RedLock(waiter, kit.Orders, kit.ReentrantMember, kit.Patient).TryLockFor(ctx, 2*time.Second)
		if !errors.Is(err, holdfast.ErrUnknown) { // as when both of the others had no time to answer
			require.ErrorIs(t, err, holdfast.ErrBusy)
		}
		asked[who] = float64(f.Servers[0].CommandStats(t)["evalsha"]-before) / took().Seconds()
	}
	require.Less(t, asked["an owner"], 3*asked["nobody"], asked)
	require.NoError(t, h.Release())
	f.Heal()
}

// That most servers refuse does not hide that it is not known what another one has done.
func TestARedLockThatMostRefuseTellsOfASilentServer(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: 30 * time.Second}), kit.Orders, kit.ReentrantMember, kit.Patient)
	require.NoError(t, f.Everywhere(l.Lock).Release())
	f.Empty()
	for _, srv := range f.Servers[:3] {
		srv.Do(t, "SET", kit.Orders, "text")
	}
	silent := f.Proxies[4].On(kit.AnyScript, proxy.HoldReply, proxy.EveryTime)
	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	silent.Remove()
	silent.Release()
}

// One of a RedLock's sessions may be closed, even while somebody waits.
func TestAWaiterOfARedLockOutlivesOneOfItsSessions(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	for i := range 3 {
		mine, theirs := f.Far(nil), f.Far(nil)
		h := kit.Lock(t, t.Context(), kit.RedLock(theirs, kit.Orders, kit.ReentrantMember, kit.Patient))
		got := kit.GoLock(t.Context(), kit.RedLock(mine, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
		kit.Await(t, "a subscription", func() bool { return len(f.Servers[0].Strs(t, "PUBSUB", "CHANNELS")) > 0 })
		require.NoError(t, mine[i].Close())
		select {
		case r := <-got:
			assert.Fail(t, "the lock was granted before its release", "without session %d: %v", i, r.Err)
			require.NoError(t, h.Release())
		case <-time.After(500 * time.Millisecond): // it asks again in this time
			require.NoError(t, h.Release())
			r := kit.Within(t, 5*time.Second, got, "the lock")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Release())
		}
		for _, s := range mine {
			_ = s.Close() // nobody listens when the next round begins
		}
		kit.Await(t, "nobody who listens", func() bool { return len(f.Servers[0].Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

// A hold is never trusted for longer than a restarted server is in doubt: after that, somebody else could have the
// lock.
func TestAnExtendedRedLockIsNotAnothersAfterARestart(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Second
	opts := &holdfast.Options{Lease: length}
	f := kit.NewFleet(t, 3)
	f.Seasoned(length)
	mine, theirs := kit.RedLock(f.Near(opts), kit.Orders, kit.ReentrantMember, kit.Careful),
		kit.RedLock(f.Far(opts), kit.Orders, kit.ReentrantMember, kit.Careful)
	f.Cut(2) // the hold has the two others
	h := kit.Lock(t, t.Context(), mine)
	require.ErrorContains(t, h.Extend(t.Context(), length+1), "lease is 3.000000001s, must be at most 3s")
	require.NoError(t, h.Extend(t.Context(), length))
	f.Cut(1) // one of the two has forgotten it, and the holder cannot know that
	f.Servers[1].Restart()
	next := kit.Lock(t, t.Context(), theirs)
	mineErr, until := h.Err(), h.Deadline()
	theirErr := next.Err()
	require.NoError(t, theirErr)
	assert.ErrorIs(t, mineErr, holdfast.ErrLost, "both have it, the first one for %v more", time.Until(until))
	f.Heal()
	require.NoError(t, next.Release())
	_ = h.Release()
}

// A server that has taken the place of another one counts only from then on, even if it has been up for a while.
func TestAServerInThePlaceOfAnotherIsDoubtedForALease(t *testing.T) {
	t.Parallel()
	const length = 4 * time.Second
	f := kit.NewFleet(t, 3)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: length}), kit.Orders, kit.ReentrantMember, kit.Careful)
	f.Seasoned(length)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the sessions know the servers
	next := redistest.Start(t)
	f.Empty()
	f.Cut(2)
	kit.Await(t, "a server that has been up for less than a lease", func() bool { return kit.Uptime(t, next) >= 2 })
	changed := time.Now()
	f.Proxies[1].SetServer(next.Addr())
	f.Proxies[1].CutAll()
	h := kit.Lock(t, t.Context(), l)
	assert.Greater(t, time.Since(changed), length, "holders on the former server may still trust it")
	f.Heal()
	require.NoError(t, h.Release())
}

// Two servers that do not answer keep nobody from the lock, however many want it: a caller that has some of the
// others does not keep them for as long as the silent ones might answer. The throughput is nearly that with all
// servers, which other callers use at the same time, so that it does not matter how busy the machine is.
func TestManyContendForARedLockWhileTwoServersArePaused(t *testing.T) {
	t.Parallel()
	const times = 7
	for clients, turns := range map[int]int64{4: 100, 16: int64(kit.Stressed(30, 100))} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			whole, maimed := kit.NewFleet(t, 5), kit.NewFleet(t, 5)
			locks := map[*kit.Fleet][]*multilock.RedLock{}
			for _, f := range []*kit.Fleet{whole, maimed} {
				for range clients {
					sessions := f.Far(&holdfast.Options{Lease: 30 * time.Second})
					locks[f] = append(locks[f], kit.RedLock(sessions, kit.Orders, kit.ReentrantMember,
						&multilock.RedLockOptions{TrustRestarted: true}))
				}
			}
			defer maimed.Strike(kit.Paused, 3, 4)()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			had := map[*kit.Fleet]*atomic.Int64{whole: new(atomic.Int64), maimed: new(atomic.Int64)}
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
							kit.SleepUntil(time.Now().Add(5 * time.Millisecond))
							_ = h.Release()
							// otherwise one client would have all its turns in a row
							kit.SleepUntil(time.Now().Add(5 * time.Millisecond))
						}
					})
				}
			}
			all.Wait()
			got, most := had[maimed].Load(), had[whole].Load() // fewer than that on a machine that is slow
			t.Log(got, "turns, with all servers", most)
			require.Positive(t, most)
			require.GreaterOrEqual(t, times*got, min(times*turns, most))
		})
	}
}

// A server that was silent for a while is waited for again, however slow it is, even if somebody else has one of the
// others: without it there is no majority.
func TestASilentServerOfARedLockIsWaitedForAgain(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: 30 * time.Second}), kit.Orders, kit.ReentrantMember, kit.Patient)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the sessions know the servers' clocks
	f.Empty()
	f.Servers[0].Do(t, "HSET", kit.Orders, "gone:1", "1")
	f.Servers[0].Do(t, "PEXPIRE", kit.Orders, "60000")
	f.Servers[3].Stop()
	heal := kit.Silent.Begin(f, 4)
	kit.Await(t, "a call that does not wait for the silent server", func() bool {
		_, err := l.TryLock(t.Context())
		return errors.Is(err, holdfast.ErrBusy)
	})
	got := kit.GoLock(t.Context(), l.Lock)
	f.OnEach(kit.AnyScript, proxy.Delay(100*time.Millisecond), proxy.EveryTime, 4)
	heal()
	kit.GrantAndRelease(t, got)
	f.Servers[0].Do(t, "DEL", kit.Orders)
	f.Servers[3].Restart()
	f.Empty()
}

// A holder asks a server that is back, but is busy with somebody else's attempt, again soon: attempts are short, and it
// may need that server within a lease.
func TestAHolderOfARedLockAsksABusyServerAgainSoon(t *testing.T) {
	t.Parallel()
	const soon = 2 * time.Second // a third of the lease is 10 s
	f := kit.NewFleet(t, 5)
	near := f.Near(&holdfast.Options{Lease: 30 * time.Second})
	loads := proxy.Answer("-LOADING it is not back yet")
	loading := f.Proxies[0].On(kit.AnyScript, loads, proxy.EveryTime)
	f.OnEach(kit.AnyScript, loads, proxy.EveryTime, 1) // all the time
	h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
	kit.AwaitFor(t, time.Minute, "the server to be asked rarely", func() bool { return loading.Matched() >= 5 })

	f.Servers[0].Do(t, "HSET", kit.Orders, "somebody:1", "1")
	f.Servers[0].Do(t, "PEXPIRE", kit.Orders, "60000")
	asked := f.Proxies[0].On(kit.AnyScript, proxy.Pass, proxy.EveryTime)
	loading.Remove()
	kit.AwaitFor(t, time.Minute, "a busy server", func() bool { return asked.Answered() > 0 })
	f.Servers[0].Do(t, "DEL", kit.Orders)
	kit.AwaitSoon(t, soon, "the lock on all servers but one", func() bool {
		return slices.Equal(f.Counts(near), []int{1, 0, 1, 1, 1})
	})
	require.NoError(t, h.Release())
}

// However often a server has forgotten the lock, its holder asks for it again as soon as the first time.
func TestAHolderOfARedLockAsksSoonWheneverItIsForgotten(t *testing.T) {
	t.Parallel()
	const soon = 3 * time.Second // a third of the lease is 4 s
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: 12 * time.Second})
	h := f.Everywhere(kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
	for range 5 {
		f.Servers[0].Do(t, "DEL", kit.Orders)
		asked := f.Proxies[0].On(kit.AnyScript, proxy.Pass, proxy.EveryTime)
		kit.AwaitFor(t, time.Minute, "a renewal", func() bool { return asked.Answered() > 0 })
		kit.AwaitSoon(t, soon, "the lock on all servers", func() bool {
			return slices.Equal(f.Counts(near), []int{1, 1, 1})
		})
		asked.Remove()
	}
	require.NoError(t, h.Release())
}

// Calls that share an owner do not keep the lock from each other: one of them gets it.
func TestOneOfTwoCallsOfAnOwnerHasAPlainRedLock(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	// A machine that stands still for a second must not make a release unknown.
	slow := &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 5 * time.Second}
	l := kit.RedLock(f.Far(&holdfast.Options{Lease: time.Minute}), kit.Orders, kit.PlainMember, slow)
	for _, srv := range f.Servers[3:] {
		srv.Stop()
	}
	had := map[int]int{} // rounds, by how many calls got it
	for range kit.Stressed(60, 200) {
		ctx := holdfast.NewOwner(t.Context())
		var holds []*holdfast.Hold
		for _, call := range []<-chan kit.Result{kit.GoLock(ctx, l.Lock), kit.GoLock(ctx, l.Lock)} {
			r := kit.Within(t, 10*time.Second, call, "an answer")
			if r.Err == nil {
				holds = append(holds, r.Hold)
				continue
			}
			require.ErrorIs(t, r.Err, holdfast.ErrAlreadyHeld)
		}
		for _, h := range holds {
			require.NoError(t, h.Release())
		}
		had[len(holds)]++
	}
	require.Zero(t, had[0], "%v: neither had it", had)
}

// A server that is free while others are not publishes what is given back to it. A waiter must not take that for a
// release again and again.
func TestAWaiterOfARedLockIsNotWokenByItself(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	mine, theirs := f.Far(nil), f.Far(nil)
	var locks []holdfast.Locker
	for _, s := range theirs {
		locks = append(locks, rlock.New(s, kit.Orders, &rlock.Options{FixedLease: time.Minute}))
	}
	h := kit.Lock(t, t.Context(), multilock.NewRedLock(locks, kit.Patient))
	kit.Await(t, "all servers", func() bool { return kit.KeysLeft(t, f.Servers) == 3 })
	f.Servers[0].Do(t, "DEL", kit.Orders)
	ctx, cancel := context.WithCancel(t.Context())
	got := kit.GoLock(ctx, kit.RedLock(mine, kit.Orders, kit.ReentrantMember, kit.Patient).Lock)
	kit.Await(t, "a subscription", func() bool { return len(f.Servers[0].Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	f.Servers[1].ResetStats(t)
	kit.SleepUntil(time.Now().Add(2 * time.Second))
	require.Less(t, f.Servers[1].CommandStats(t)["evalsha"], int64(130))
	cancel()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the end of the wait").Err, context.Canceled)
	require.NoError(t, h.Release())
}

// A waiter lets others go first before it asks. If it gives up meanwhile, it does not ask, and no attempt is observed
// that no server has seen.
func TestAWaiterOfARedLockThatHasGivenUpAsksNoMore(t *testing.T) {
	t.Parallel()
	const waiters, slow = 24, 30 * time.Millisecond
	f := kit.NewFleet(t, 3)
	var unsent atomic.Int64
	near := f.Near(&holdfast.Options{Lease: kit.Lease, Observer: &holdfast.Observer{
		Attempt: func(of holdfast.Subject, a holdfast.Attempt) {
			if of.Kind == "redlock" && kit.ClassOf(a.Err) == "canceled" { // else it is unknown what servers have done
				unsent.Add(1)
			}
		},
	}})
	f.OnEach(kit.AnyScript, proxy.Delay(slow), proxy.EveryTime, 0, 1, 2) // others go first for up to five times as long
	ctx, cancel := context.WithCancel(t.Context())
	var all []<-chan kit.Result
	for i := range waiters {
		name := fmt.Sprint(kit.Orders, i)
		for _, srv := range f.Servers {
			srv.Do(t, "HSET", name, "somebody:1", "1")
			srv.Do(t, "PEXPIRE", name, "60000")
		}
		all = append(all, kit.GoLock(ctx, kit.RedLock(near, name, kit.ReentrantMember, kit.Patient).Lock))
	}
	kit.Await(t, "waiters", func() bool { return len(f.Servers[0].Strs(t, "PUBSUB", "CHANNELS")) >= waiters })
	kit.SleepUntil(time.Now().Add(10 * slow)) // now each is at another point
	cancel()
	for _, got := range all {
		require.ErrorIs(t, kit.Within(t, 10*time.Second, got, "the end of the wait").Err, context.Canceled)
	}
	require.Zero(t, unsent.Load())
}

// A single client gives way to nobody, even after others of its process have waited.
func TestARedLockGivesNobodyWay(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	sessions := f.Far(&holdfast.Options{Lease: 30 * time.Second}) // a release waits for answers for a third of it
	l := kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient)
	alone := kit.RedLock(sessions, "nobody waits", kit.ReentrantMember, kit.Patient)
	cycle := func(l *multilock.RedLock) time.Duration {
		began := time.Now()
		require.NoError(t, kit.Lock(t, t.Context(), l).Release())
		return time.Since(began)
	}
	cycle(alone)
	h := kit.Lock(t, t.Context(), l)
	got := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "a subscription", func() bool { return len(f.Servers[0].Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	require.NoError(t, h.Release())
	r := kit.Within(t, 5*time.Second, got, "the one who waited")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	var beside, without []time.Duration // in turns: the machine is busy at times
	for range 100 {
		beside, without = append(beside, cycle(l)), append(without, cycle(alone))
	}
	slices.Sort(beside)
	slices.Sort(without)
	require.Less(t, beside[50], 4*without[50]) // the medians: whoever gives way does so each time
}

// A call that was not sent, because its owner has the lock, says nothing of the servers: they are not silent.
func TestARedLockDoesNotTakeServersForSilentThatItHasNotAsked(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 3)
	l := kit.RedLock(kit.OpenAll(t, servers, nil), "plain", kit.PlainMember, kit.Patient)
	h := kit.Lock(t, t.Context(), l)
	kit.Await(t, "all servers", func() bool { return kit.KeysLeft(t, servers) == 3 })
	_, err := l.TryLock(h.Context(t.Context()))
	require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
	kit.SleepUntil(time.Now().Add(kit.Patient.ServerTimeout + 100*time.Millisecond)) // by then it is silent
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NotErrorIs(t, err, holdfast.ErrUnknown)
	require.NoError(t, h.Release())
}

// Nor does such a call say that a server answers again that is silent.
func TestARedLockStillTakesAServerForSilentThatItHasNotAsked(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: 30 * time.Second})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	plain := kit.RedLock(near, "plain", kit.PlainMember, kit.Patient)
	h := f.Everywhere(plain.Lock)
	f.Servers[0].Do(t, "HSET", kit.Orders, "gone:1", "1")
	heal := kit.Silent.Begin(f, 2)
	kit.Await(t, "a call that does not wait for the silent server", func() bool {
		took := kit.Stopwatch()
		_, err := l.TryLock(t.Context())
		return errors.Is(err, holdfast.ErrBusy) && took() < kit.Patient.ServerTimeout/2
	})
	_, err := plain.TryLock(h.Context(t.Context()))
	require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
	took := kit.Stopwatch()
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.Less(t, took(), kit.Patient.ServerTimeout/2)
	heal()
	require.NoError(t, h.Release())
}

// A nested attempt that fails because one server is silent, while another has forgotten the lock, does not say that the
// outer hold is lost: it is held.
func TestANestedAttemptDoesNotCallARedLockLostThatIsHeld(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 3)
	l := kit.RedLock(kit.OpenAll(t, servers, nil), "re", kit.ReentrantMember, kit.Patient)
	h := kit.Lock(t, t.Context(), l)
	kit.Await(t, "all servers", func() bool { return kit.KeysLeft(t, servers) == 3 })
	servers[0].Do(t, "DEL", "re")
	servers[1].Pause()
	defer servers[1].Resume()
	_, err := l.TryLock(h.Context(t.Context()))
	require.NoError(t, h.Err())
	require.Error(t, err)
	require.NotErrorIs(t, err, holdfast.ErrLost)
}

// A server that refuses has answered: when it grants again, it is waited for.
func TestARedLockDoesNotTakeServersForSilentThatRefuse(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 3)
	l := kit.RedLock(kit.OpenAll(t, servers, nil), "refused", kit.PlainMember, kit.Patient)
	other := kit.Lock(t, t.Context(), kit.PlainMember(kit.Open(t, servers[0].Addr(), nil), "refused"))
	full := func(limit string) {
		for _, srv := range servers[1:] {
			srv.Do(t, "CONFIG", "SET", "maxmemory", limit)
		}
	}
	full("1")
	_, err := l.TryLock(t.Context())
	require.ErrorContains(t, err, "OOM")
	kit.SleepUntil(time.Now().Add(kit.Patient.ServerTimeout + 100*time.Millisecond)) // by then it is silent
	full("0")
	h, err := l.TryLock(t.Context())
	require.NoError(t, err, "two of three servers are free, and answer at once")
	require.NoError(t, h.Release())
	require.NoError(t, other.Release())
}

// A server that is asked again does not count if it turns out to be one that has the lock already.
func TestAServerThatIsLateIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 2)
	alike := proxy.Start(t, f.Servers[0].Addr())
	sessions := append(f.Near(nil), kit.Open(t, alike.Addr(), nil))
	loading := alike.On(kit.AnyScript, proxy.Answer("-LOADING it is not there yet"), proxy.EveryTime)
	h := kit.Lock(t, t.Context(), multilock.NewRedLock([]holdfast.Locker{
		kit.ReentrantMember(sessions[0], "a"), kit.ReentrantMember(sessions[1], "b"), kit.ReentrantMember(sessions[2], "c"),
	}, kit.Patient))
	given := alike.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.Pass, proxy.EveryTime)
	loading.Remove()
	given.WaitAnswered(t, 1)
	f.Servers[1].Stop()
	kit.Await(t, "the loss, as one of two servers is left", func() bool { return h.Err() != nil })
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	f.Servers[1].Restart()
}
