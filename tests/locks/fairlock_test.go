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
	"sync/atomic"
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

// These are the queue of the fair lock "orders" in Redisson's layout, and the deadlines of its waiters.
const (
	ordersQueue = "redisson_lock_queue:{" + kit.Orders + "}"
	ordersDue   = "redisson_lock_timeout:{" + kit.Orders + "}"
	ordersOurs  = "holdfast_fair_queue:{" + kit.Orders + "}"
	ordersAlive = "holdfast_fair_alive:{" + kit.Orders + "}"
)

// waiterLease is short, so that dead waiters are soon removed. patientLease outlasts a machine that stands still for
// two seconds, for tests in which nobody may lose its place.
const waiterLease, patientLease = time.Second, 3500 * time.Millisecond

func newFair(s *holdfast.Session) *fairlock.Mutex {
	return fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: waiterLease})
}

func newPatient(s *holdfast.Session) *fairlock.Mutex {
	return fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: patientLease})
}

// queued waits until the queue has n waiters, and returns them in order.
func queued(t testing.TB, srv *redistest.Server, n int) (owners []string) {
	t.Helper()
	kit.Await(t, fmt.Sprintf("a queue of %d", n), func() bool {
		owners = srv.Strs(t, "LRANGE", ordersQueue, "0", "-1")
		return len(owners) == n
	})
	return owners
}

// inLine lets waiters enter the queue one after the other, each in a goroutine.
func inLine(t testing.TB, srv *redistest.Server, ctx context.Context,
	takes ...func(context.Context) (*holdfast.Hold, error),
) (waits []<-chan kit.Result) {
	t.Helper()
	before := len(srv.Strs(t, "LRANGE", ordersQueue, "0", "-1"))
	for i, take := range takes {
		waits = append(waits, kit.GoLock(ctx, take))
		queued(t, srv, before+i+1)
	}
	return waits
}

// nobodyWaits checks that nothing of the queue is left.
func nobodyWaits(t testing.TB, srv *redistest.Server) {
	t.Helper()
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// passesOn checks that the lock passes from each waiter to the next, and that nothing of the queue is left.
func passesOn(t testing.TB, srv *redistest.Server, waits []<-chan kit.Result) {
	t.Helper()
	for _, wait := range waits {
		require.NoError(t, kit.Granted(t, kit.Told, wait, "the next one").Release())
	}
	nobodyWaits(t, srv)
}

// queuer lets many goroutines wait for a fair lock; each notes when it was its turn. It is taken for dead when it has
// stood still for as long as its last argument says.
func queuer(args []string) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{args[0]}, DisableCache: true})
	kit.Must(err)
	n, err := strconv.Atoi(args[1])
	kit.Must(err)
	alive, err := time.ParseDuration(args[2])
	kit.Must(err)
	s := kit.OpenWorker(args[0], alive)
	l := fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: alive})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			h, err := l.Lock(context.Background())
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
		workers = append(workers, worker.Start(t, func(string) {}, "queuer", srv.Addr(), strconv.Itoa(each),
			kit.Lease.String()))
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

// Several sessions wait, give up, try and force at random. Whoever is granted the lock was first in the queue, or the
// queue was empty; and whoever is in the list is in the sorted set, once.
func TestGrantsFollowTheQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m := kit.StartMonitor(t, srv)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var had atomic.Int64
	began := time.Now()
	for range 4 {
		l := newFair(kit.Open(t, srv.Addr(), nil))
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil && (time.Since(began) < 4*time.Second || had.Load() < 400) {
					if wander(ctx, t, l) {
						had.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	var queue []string
	// the last one that left the queue from its front, as the one that is granted the lock does just before
	var first string
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
				require.Empty(t, queue, "granted although another one was first")
			}
		}
	}
	require.Greater(t, grants, 200)
	require.Greater(t, waited, 100)
	nobodyWaits(t, srv)
}

// wander does one random thing with the lock, and reports whether it held it.
func wander(ctx context.Context, t testing.TB, l *fairlock.Mutex) (had bool) {
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
	if had = err == nil && h != nil; had {
		time.Sleep(rand.N(3 * time.Millisecond))
		err = h.Release()
	}
	for _, expected := range []error{
		holdfast.ErrBusy, holdfast.ErrLost, holdfast.ErrUnknown,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, expected) {
			return had
		}
	}
	assert.NoError(t, err)
	return had
}

func TestTryLockOvertakesNobody(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := fairlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, &fairlock.Options{WaiterLease: time.Minute})
	holder := kit.Lock(t, t.Context(), l)
	first := inLine(t, srv, t.Context(), l.Lock)[0]
	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.Len(t, queued(t, srv, 1), 1, "a TryLock does not queue")

	srv.Do(t, "DEL", kit.Orders) // the lock is free, and promised to the waiter
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	r := kit.Within(t, kit.Told, first, "who was told by the attempt of another")
	require.NoError(t, r.Err)
	require.ErrorIs(t, holder.Release(), holdfast.ErrLost)
	require.NoError(t, r.Hold.Release())
	nobodyWaits(t, srv)
}

func TestReentryIsNeverQueued(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newPatient(kit.Open(t, srv.Addr(), nil))
	outer := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, l.Lock)
	for _, take := range []func(context.Context) (*holdfast.Hold, error){l.Lock, l.TryLock} {
		inner := kit.Within(t, kit.Told, kit.GoLock(outer.Context(t.Context()), take), "the re-entry")
		require.NoError(t, inner.Err)
		require.Equal(t, outer.ID(), inner.Hold.ID())
		require.NoError(t, inner.Hold.Release())
	}
	queued(t, srv, 2)
	require.NoError(t, outer.Release())
	passesOn(t, srv, waits)
}

// Two calls of one owner wait, each with its own place. The first one that is granted the lock lets the other one in,
// which then does not need its place any more.
func TestCallsOfOneOwnerLetEachOtherIn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newPatient(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	mine := inLine(t, srv, holdfast.NewOwner(t.Context()), l.Lock, l.Lock)
	stranger := inLine(t, srv, t.Context(), l.Lock)[0]
	require.NoError(t, holder.Release())
	first, second := kit.Within(t, kit.Told, mine[0], "the first"), kit.Within(t, kit.Told, mine[1], "the second")
	require.NoError(t, errors.Join(first.Err, second.Err))
	require.Equal(t, first.Hold.ID(), second.Hold.ID())
	queued(t, srv, 1)
	require.NoError(t, first.Hold.Release())
	require.NoError(t, second.Hold.Release())
	require.NoError(t, kit.Granted(t, kit.Told, stranger, "the next one").Release())
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
		r := kit.Within(t, kit.Told, wait, "the next one")
		require.NoError(t, r.Err)
		require.Equal(t, ids[i], r.Hold.ID())
		require.NoError(t, r.Hold.Release())
	}
	nobodyWaits(t, srv)
}

// An acquisition that the server refuses is not granted, whichever key it refuses.
func TestARefusedTurnIsNotHeld(t *testing.T) {
	t.Parallel()
	for _, key := range []string{ordersDue, ordersOurs, ordersAlive} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			l := newFair(kit.Open(t, srv.Addr(), nil))
			holder := kit.Lock(t, t.Context(), l)
			next := inLine(t, srv, t.Context(), l.Lock)[0]
			// This happens at once, or the waiter may look in between.
			srv.Do(t, "EVAL",
				"redis.call('DEL', KEYS[1], KEYS[2]) return redis.call('SET', KEYS[2], 'of another kind')",
				"2", kit.Orders, key)
			require.ErrorContains(t, kit.Within(t, 5*time.Second, next, "the refusal").Err, "WRONGTYPE")
			require.EqualValues(t, 0, srv.Int(t, "EXISTS", kit.Orders))
			require.ErrorIs(t, holder.Release(), holdfast.ErrLost)
		})
	}
}

func TestWaitersLookSeldom(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newPatient(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, l.Lock, l.Lock, l.Lock)
	srv.ResetStats(t)
	began := time.Now()
	kit.SleepUntil(began.Add(4 * time.Second))
	looks := srv.CommandStats(t)["evalsha"]
	looking := time.Since(began)
	most := int64(len(waits))*int64(looking/(patientLease/3)+1) + int64(2*looking/kit.WorkerLease)
	require.LessOrEqual(t, looks, most)
	require.GreaterOrEqual(t, looks, int64(len(waits))*int64(looking/patientLease),
		"they look too rarely, and would be taken for dead")
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
		{
			fairlock.Options{WaiterLease: time.Second - 1},
			`fairlock "orders": lock: Options.WaiterLease is 999.999999ms, must be 0 or from 1s to 1h`,
		},
		{
			fairlock.Options{WaiterLease: -1},
			`fairlock "orders": lock: Options.WaiterLease is -1ns, must be 0 or from 1s to 1h`,
		},
		{
			fairlock.Options{WaiterLease: time.Hour + 1},
			`fairlock "orders": lock: Options.WaiterLease is 1h0m0.000000001s, must be 0 or from 1s to 1h`,
		},
		{fairlock.Options{JavaWait: -1}, `fairlock "orders": lock: Options.JavaWait is -1ns, must be from 0 to 24h`},
		{
			fairlock.Options{JavaWait: 25 * time.Hour},
			`fairlock "orders": lock: Options.JavaWait is 25h0m0s, must be from 0 to 24h`,
		},
		{fairlock.Options{FixedLease: -1}, `fairlock "orders": lock: Options.FixedLease is -1ns, must be 0 or at least 10ms`},
	} {
		_, err := fairlock.New(s, kit.Orders, &c.opts).Lock(t.Context())
		require.EqualError(t, err, c.want)
		_, err = fairlock.New(s, kit.Orders, &c.opts).Waiters(t.Context())
		require.Error(t, err)
	}
	require.Zero(t, srv.CommandStats(t)["evalsha"])
}
