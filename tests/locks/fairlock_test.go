package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The queue of the fair lock "orders", as Redisson names it, and the deadlines of those who stand in it.
const (
	ordersQueue = "redisson_lock_queue:{" + kit.Orders + "}"
	ordersDue   = "redisson_lock_timeout:{" + kit.Orders + "}"
)

// waiterLease is short, so that the dead are soon buried.
const waiterLease = time.Second

func newFair(s *holdfast.Session) *fairlock.Mutex {
	return fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: waiterLease})
}

// queued waits until so many stand in the queue, and returns them in order.
func queued(t testing.TB, srv *redistest.Server, n int) (owners []string) {
	t.Helper()
	kit.Await(t, fmt.Sprintf("a queue of %d", n), func() bool {
		owners = srv.Strs(t, "LRANGE", ordersQueue, "0", "-1")
		return len(owners) == n
	})
	return owners
}

// inLine has waiters enter the queue one after the other, each in a goroutine.
func inLine(t testing.TB, srv *redistest.Server, ctx context.Context, takes ...func(context.Context) (*holdfast.Hold, error)) (waits []<-chan kit.Result) {
	t.Helper()
	before := len(srv.Strs(t, "LRANGE", ordersQueue, "0", "-1"))
	for i, take := range takes {
		waits = append(waits, kit.GoLock(ctx, take))
		queued(t, srv, before+i+1)
	}
	return waits
}

// nobodyWaits checks that the queue has left nothing.
func nobodyWaits(t testing.TB, srv *redistest.Server) {
	t.Helper()
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// passesOn checks that the lock goes from one of the waiters to the next, and that the queue has left nothing.
func passesOn(t testing.TB, srv *redistest.Server, waits []<-chan kit.Result) {
	t.Helper()
	for _, wait := range waits {
		require.NoError(t, kit.Granted(t, time.Second, wait, "the next one").Release())
	}
	nobodyWaits(t, srv)
}

// queuer has many goroutines wait for a fair lock; each writes down when it was its turn.
func queuer(args []string) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{args[0]}, DisableCache: true})
	kit.Must(err)
	s := kit.OpenWorker(args[0], kit.WorkerLease)
	n, err := strconv.Atoi(args[1])
	kit.Must(err)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			h, err := newFair(s).Lock(context.Background())
			kit.Must(err)
			kit.Must(client.Do(context.Background(), client.B().Rpush().Key("turns").Element(h.ID()).Build()).Error())
			kit.Must(h.Release())
		})
	}
	wg.Wait()
	kit.Must(s.Close())
	client.Close()
}

func TestTwoHundredWaitersOfEightProcessesAreServedInOrder(t *testing.T) {
	t.Parallel()
	const processes, each = 8, 25
	srv := redistest.Start(t)
	holder := kit.Lock(t, t.Context(), newFair(kit.Open(t, srv.Addr(), nil)))
	var workers []*worker.Worker
	for range processes {
		workers = append(workers, worker.Start(t, func(string) {}, "queuer", srv.Addr(), strconv.Itoa(each)))
	}
	entered := queued(t, srv, processes*each)
	require.NoError(t, holder.Release())
	for _, w := range workers {
		kit.Within(t, time.Minute, w.Ended(), "the end of a process")
	}
	require.Equal(t, entered, srv.Strs(t, "LRANGE", "turns", "0", "-1"))
	srv.Do(t, "DEL", "turns")
	nobodyWaits(t, srv)
}

// Several sessions wait, give up, try and force at random. Whoever is granted the lock was first in the queue then, or
// nobody stood in it; and whoever is in the list is in the sorted set, once.
func TestGrantsFollowTheQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m := kit.StartMonitor(t, srv)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		l := newFair(kit.Open(t, srv.Addr(), nil))
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					wander(ctx, t, l)
				}
			})
		}
	}
	wg.Wait()
	var queue []string
	var first string // the last one that left the queue from its front, as whoever is granted the lock does just before
	grants, waited := 0, 0
	for _, s := range m.Until(t) {
		switch command := strings.ToUpper(s.Args[0]); {
		case len(s.Args) < 3 || s.Args[1] != ordersQueue && s.Args[1] != kit.Orders:
		case command == "RPUSH":
			require.NotContains(t, queue, s.Args[2])
			queue = append(queue, s.Args[2])
		case command == "LREM":
			if len(queue) > 0 && queue[0] == s.Args[3] {
				first = queue[0]
			}
			queue = slices.DeleteFunc(queue, func(owner string) bool { return owner == s.Args[3] })
		case command == "HSET" && s.Args[1] == kit.Orders && s.Args[3] == "1":
			grants++
			if s.Args[2] == first {
				waited++
			} else {
				require.Empty(t, queue, "granted to one who is not the first")
			}
		}
	}
	require.Greater(t, grants, 200)
	require.Greater(t, waited, 100)
	nobodyWaits(t, srv)
}

// wander does one thing with the lock.
func wander(ctx context.Context, t testing.TB, l *fairlock.Mutex) {
	var h *holdfast.Hold
	var err error
	switch rand.N(8) {
	case 0:
		h, err = l.TryLock(ctx)
	case 1:
		h, err = l.TryLockFor(ctx, rand.N(30*time.Millisecond))
	case 2:
		short, cancel := context.WithTimeout(ctx, rand.N(30*time.Millisecond))
		h, err = l.Lock(short)
		cancel()
	case 3:
		if rand.N(10) == 0 {
			_, err = l.ForceUnlock(ctx)
		}
	default:
		h, err = l.Lock(ctx)
	}
	if err == nil && h != nil {
		time.Sleep(rand.N(3 * time.Millisecond))
		err = h.Release()
	}
	for _, expected := range []error{holdfast.ErrBusy, holdfast.ErrLost, holdfast.ErrUnknown, context.DeadlineExceeded} {
		if errors.Is(err, expected) {
			return
		}
	}
	assert.NoError(t, err)
}

func TestALiveWaiterKeepsItsPlaceHoweverLongTheHolderHolds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, newFair(kit.Open(t, srv.Addr(), nil)).Lock, l.Lock)
	entered := queued(t, srv, len(waits))
	for end := time.Now().Add(4 * waiterLease); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		require.Equal(t, entered, srv.Strs(t, "LRANGE", ordersQueue, "0", "-1"))
		for _, owner := range entered {
			due, err := strconv.ParseFloat(srv.Str(t, "ZSCORE", ordersDue, owner), 64)
			require.NoError(t, err)
			require.Greater(t, due, float64(time.Now().UnixMilli()), "any client may drop it")
		}
	}
	for i, wait := range waits {
		require.NoError(t, holder.Release())
		holder = kit.Granted(t, time.Second, wait, "the next one")
		require.Equal(t, entered[i], holder.ID())
	}
	require.NoError(t, holder.Release())
	nobodyWaits(t, srv)
}

// A waiter of a killed process, first in the queue, costs those behind it its lease at most.
func TestADeadWaiterCostsNoMoreThanItsLease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	w := worker.Start(t, func(string) {}, "queuer", srv.Addr(), "3")
	queued(t, srv, 3)
	waits := inLine(t, srv, t.Context(), l.Lock)
	w.Kill()
	killed := time.Now()
	require.NoError(t, holder.Release())
	r := kit.Within(t, 5*time.Second, waits[0], "the one behind the dead")
	require.NoError(t, r.Err)
	require.Less(t, time.Since(killed), waiterLease+waiterLease/2, "the lease, and until the next look")
	require.NoError(t, r.Hold.Release())
	nobodyWaits(t, srv)
}

// Whoever is stopped for longer than its lease is dead to the others; when it goes on it queues up anew, at the end.
func TestAStoppedWaiterQueuesUpAnew(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	w := worker.Start(t, func(string) {}, "queuer", srv.Addr(), "1")
	stopped := queued(t, srv, 1)[0]
	waits := inLine(t, srv, t.Context(), l.Lock)
	w.Pause()
	kit.Await(t, "its burial", func() bool { return !slices.Contains(srv.Strs(t, "LRANGE", ordersQueue, "0", "-1"), stopped) })
	w.Resume()
	require.Equal(t, stopped, queued(t, srv, 2)[1])
	require.NoError(t, holder.Release())
	require.NoError(t, kit.Granted(t, time.Second, waits[0], "the one that was behind").Release())
	kit.Within(t, 5*time.Second, w.Ended(), "the turn of the one that was stopped")
	require.Equal(t, []string{stopped}, srv.Strs(t, "LRANGE", "turns", "0", "-1"))
	srv.Do(t, "DEL", "turns")
	nobodyWaits(t, srv)
}

func TestAWaiterThatGivesUpLeavesTheQueueAtOnce(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(t *testing.T, srv *redistest.Server, s *holdfast.Session) (wait <-chan kit.Result, end func(), want error){
		"its ctx ends": func(t *testing.T, _ *redistest.Server, s *holdfast.Session) (<-chan kit.Result, func(), error) {
			ctx, cancel := context.WithCancel(t.Context())
			return kit.GoLock(ctx, newFair(s).Lock), cancel, context.Canceled
		},
		"its time is over": func(t *testing.T, _ *redistest.Server, s *holdfast.Session) (<-chan kit.Result, func(), error) {
			return kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
				return newFair(s).TryLockFor(ctx, 300*time.Millisecond)
			}), func() {}, holdfast.ErrBusy
		},
		"its session is closed": func(t *testing.T, _ *redistest.Server, s *holdfast.Session) (<-chan kit.Result, func(), error) {
			return kit.GoLock(t.Context(), newFair(s).Lock), func() { _ = s.Close() }, holdfast.ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			l := newFair(kit.Open(t, srv.Addr(), nil))
			holder := kit.Lock(t, t.Context(), l)
			wait, end, want := giveUp(t, srv, kit.Open(t, srv.Addr(), nil))
			leaver := queued(t, srv, 1)[0]
			behind := inLine(t, srv, t.Context(), l.Lock)[0]
			end()
			require.ErrorIs(t, kit.Within(t, 5*time.Second, wait, "the end of the wait").Err, want)
			left := time.Now()
			require.NotContains(t, queued(t, srv, 1), leaver)
			require.Less(t, time.Since(left), waiterLease/2, "not because it was taken for dead")
			require.NoError(t, holder.Release())
			require.NoError(t, kit.Granted(t, time.Second, behind, "the one behind").Release())
			nobodyWaits(t, srv)
		})
	}
}

// The first in the queue has been told that it is its turn, and gives up in that moment: the one behind is told.
func TestTheOneBehindIsWokenWhenTheFirstLeavesAFreeLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := fairlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, &fairlock.Options{WaiterLease: time.Minute}) // looks seldom
	holder := kit.Lock(t, t.Context(), l)
	ctx, cancel := context.WithCancel(t.Context())
	first := inLine(t, srv, ctx, l.Lock)[0]
	second := inLine(t, srv, t.Context(), l.Lock)[0]
	srv.Do(t, "DEL", kit.Orders) // free, and nobody was told
	cancel()
	require.ErrorIs(t, kit.Within(t, time.Second, first, "the end of the wait").Err, context.Canceled)
	r := kit.Within(t, time.Second, second, "the one behind")
	require.NoError(t, r.Err)
	require.ErrorIs(t, holder.Release(), holdfast.ErrLost)
	require.NoError(t, r.Hold.Release())
	nobodyWaits(t, srv)
}

func TestTryLockOvertakesNobody(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := fairlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, &fairlock.Options{WaiterLease: time.Minute})
	holder := kit.Lock(t, t.Context(), l)
	first := inLine(t, srv, t.Context(), l.Lock)[0]
	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.Len(t, queued(t, srv, 1), 1, "who only tries does not queue")

	srv.Do(t, "DEL", kit.Orders) // the lock is free, and promised to the one who waits
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	r := kit.Within(t, time.Second, first, "who was told by the attempt of another")
	require.NoError(t, r.Err)
	require.ErrorIs(t, holder.Release(), holdfast.ErrLost)
	require.NoError(t, r.Hold.Release())
	nobodyWaits(t, srv)
}

func TestReentryIsNeverQueued(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	outer := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, l.Lock)
	for _, take := range []func(context.Context) (*holdfast.Hold, error){l.Lock, l.TryLock} {
		inner := kit.Within(t, time.Second, kit.GoLock(outer.Context(t.Context()), take), "the re-entry")
		require.NoError(t, inner.Err)
		require.Equal(t, outer.ID(), inner.Hold.ID())
		require.NoError(t, inner.Hold.Release())
	}
	queued(t, srv, 2)
	require.NoError(t, outer.Release())
	passesOn(t, srv, waits)
}

// Two calls of one owner wait, each in a place of its own. The first to be granted lets the other in, which then needs
// its place no more.
func TestCallsOfOneOwnerLetEachOtherIn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	mine := inLine(t, srv, holdfast.NewOwner(t.Context()), l.Lock, l.Lock)
	stranger := inLine(t, srv, t.Context(), l.Lock)[0]
	require.NoError(t, holder.Release())
	first, second := kit.Within(t, time.Second, mine[0], "the first"), kit.Within(t, time.Second, mine[1], "the second")
	require.NoError(t, errors.Join(first.Err, second.Err))
	require.Equal(t, first.Hold.ID(), second.Hold.ID())
	queued(t, srv, 1)
	require.NoError(t, first.Hold.Release())
	require.NoError(t, second.Hold.Release())
	require.NoError(t, kit.Granted(t, time.Second, stranger, "the next one").Release())
	nobodyWaits(t, srv)
}

func TestWaitersAreListedInOrderAndForceWakesTheFirst(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := fairlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, nil)
	waiters, err := l.Waiters(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiters)

	holder := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, l.Lock, l.Lock)
	waiters, err = l.Waiters(t.Context())
	require.NoError(t, err)
	var ids []string
	for _, w := range waiters {
		ids = append(ids, w.ID)
		assert.InDelta(t, 15, w.Alive.Seconds(), 5)
	}
	require.Equal(t, queued(t, srv, 3), ids)

	was, err := l.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.ErrorIs(t, holder.Err(), holdfast.ErrLost)
	for i, wait := range waits {
		r := kit.Within(t, time.Second, wait, "the next one")
		require.NoError(t, r.Err)
		require.Equal(t, ids[i], r.Hold.ID())
		require.NoError(t, r.Hold.Release())
	}
	nobodyWaits(t, srv)
}

// Messages may be lost, and so may everything that the server knew: whoever waits gets the lock all the same.
func TestAWaiterSurvivesWhatTheServerForgets(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(t *testing.T, srv *redistest.Server){
		"the queue":     func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersQueue) },
		"the deadlines": func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersDue) },
		"our list":      func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", "holdfast_fair_queue:{"+kit.Orders+"}") },
		"our deadlines": func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", "holdfast_fair_alive:{"+kit.Orders+"}") },
		"everything":    func(t *testing.T, srv *redistest.Server) { srv.Do(t, "FLUSHALL") },
		"scripts":       func(t *testing.T, srv *redistest.Server) { srv.Do(t, "SCRIPT", "FLUSH") },
		"who listens":   func(t *testing.T, srv *redistest.Server) { srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		"all connections": func(t *testing.T, srv *redistest.Server) {
			srv.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), nil)
			l := newFair(s)
			holder := kit.Lock(t, t.Context(), l)
			waits := inLine(t, srv, t.Context(), l.Lock, newFair(kit.Open(t, srv.Addr(), nil)).Lock, l.Lock)
			forget(t, srv)
			err := holder.Release()
			served := make(chan error, len(waits))
			for _, wait := range waits {
				go func() {
					r := <-wait
					if r.Err == nil {
						r.Err = r.Hold.Release()
					}
					served <- r.Err
				}()
			}
			for range waits { // in their old order or, as the server forgot it, in another
				require.NoError(t, kit.Within(t, 10*time.Second, served, "a waiter was forgotten"))
			}
			if name != "everything" {
				require.NoError(t, err)
			}
			if name == "the queue" { // what it left of those who stood in it goes with the next who waits
				kit.SleepUntil(time.Now().Add(waiterLease))
				holder := kit.Lock(t, t.Context(), l)
				next := inLine(t, srv, t.Context(), l.Lock)[0]
				require.NoError(t, holder.Release())
				require.NoError(t, kit.Granted(t, time.Second, next, "the next one").Release())
			}
			nobodyWaits(t, srv)
		})
	}
}

func TestWhoHasGivenUpIsNotInItsOwnWay(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	for range 100 {
		holder := kit.Lock(t, t.Context(), l)
		_, err := l.TryLockFor(t.Context(), time.Millisecond)
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, holder.Release())
		h, err := l.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release())
	}
	nobodyWaits(t, srv)
}

// An acquisition that the server refuses has not been granted, whichever of the keys it refuses.
func TestARefusedTurnIsNotHeld(t *testing.T) {
	t.Parallel()
	for _, key := range []string{ordersDue, "holdfast_fair_queue:{" + kit.Orders + "}", "holdfast_fair_alive:{" + kit.Orders + "}"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			l := newFair(kit.Open(t, srv.Addr(), nil))
			holder := kit.Lock(t, t.Context(), l)
			next := inLine(t, srv, t.Context(), l.Lock)[0]
			// At once, or the waiter may look in between.
			srv.Do(t, "EVAL", "redis.call('DEL', KEYS[1], KEYS[2]) return redis.call('SET', KEYS[2], 'of another kind')", "2", kit.Orders, key)
			require.ErrorContains(t, kit.Within(t, 5*time.Second, next, "the refusal").Err, "WRONGTYPE")
			require.EqualValues(t, 0, srv.Int(t, "EXISTS", kit.Orders))
			require.ErrorIs(t, holder.Release(), holdfast.ErrLost)
		})
	}
}

func TestWaitersLookSeldom(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, l.Lock, l.Lock, l.Lock)
	srv.ResetStats(t)
	const looking = 2 * time.Second
	kit.SleepUntil(time.Now().Add(looking))
	looks := srv.CommandStats(t)["evalsha"]
	most := int64(len(waits))*int64(looking/(waiterLease/3)+1) + int64(2*looking/kit.WorkerLease)
	require.LessOrEqual(t, looks, most)
	require.GreaterOrEqual(t, looks, int64(len(waits))*int64(looking/waiterLease), "or they are taken for dead")
	require.NoError(t, holder.Release())
	passesOn(t, srv, waits)
}

func TestAFairLockRefusesOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	for _, c := range []struct {
		opts fairlock.Options
		want string
	}{
		{fairlock.Options{WaiterLease: time.Second - 1}, `fairlock "orders": lock: Options.WaiterLease is 999.999999ms, must be 0 or from 1s to 1h`},
		{fairlock.Options{WaiterLease: -1}, `fairlock "orders": lock: Options.WaiterLease is -1ns, must be 0 or from 1s to 1h`},
		{fairlock.Options{WaiterLease: time.Hour + 1}, `fairlock "orders": lock: Options.WaiterLease is 1h0m0.000000001s, must be 0 or from 1s to 1h`},
		{fairlock.Options{JavaWait: -1}, `fairlock "orders": lock: Options.JavaWait is -1ns, must be from 0 to 24h`},
		{fairlock.Options{JavaWait: 25 * time.Hour}, `fairlock "orders": lock: Options.JavaWait is 25h0m0s, must be from 0 to 24h`},
		{fairlock.Options{FixedLease: -1}, `fairlock "orders": lock: Options.FixedLease is -1ns, must be 0 or at least 10ms`},
	} {
		_, err := fairlock.New(s, kit.Orders, &c.opts).Lock(t.Context())
		require.EqualError(t, err, c.want)
		_, err = fairlock.New(s, kit.Orders, &c.opts).Waiters(t.Context())
		require.Error(t, err)
	}
	require.Zero(t, srv.CommandStats(t)["evalsha"])
}

// A waiter whose entry the server has refused half-way does not stay in the queue, where nobody would wait for it to leave.
func TestAWaiterThatWasRefusedIsNotInTheQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-zadd")
	s := kit.OpenWith(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}, Username: "app"}, nil)
	hold := kit.Lock(t, t.Context(), fairlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
	_, err := fairlock.New(s, "x", nil).Lock(t.Context())
	require.Error(t, err)
	require.Regexp(t, aclNo, err.Error())
	kit.Await(t, "an empty queue", func() bool { return srv.Int(t, "EXISTS", "redisson_lock_queue:{x}", "holdfast_fair_queue:{x}") == 0 })
	require.NoError(t, hold.Release())
	require.NoError(t, kit.Lock(t, t.Context(), fairlock.New(s, "x", nil)).Release())
}
