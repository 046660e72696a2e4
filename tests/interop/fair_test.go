package interop_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// One queue is served in the order in which its waiters entered it, whatever languages they are of, and whoever of
// them gives up.
func TestFairQueueIsServedInOrder(t *testing.T) {
	t.Parallel()
	const each = 20 // waiters of each language who stay
	alternate := slices.Repeat([]entrant{{golang, true}, {java, true}}, each)
	leave := slices.Repeat([]entrant{
		{golang, false},
		{java, false},
		{golang, true},
		{golang, true},
		{java, false},
		{java, true},
		{golang, false},
		{java, true},
	}, each/2)
	for _, k := range fairKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Run("all stay", func(t *testing.T) { requireOrder(t, k, alternate) })
			t.Run("some leave", func(t *testing.T) { requireOrder(t, k, leave) })
		})
	}
}

// entrant is who enters a queue next, and whether it stays there until it has the lock.
type entrant struct {
	language language
	stays    bool
}

// requireOrder has waiters enter a queue one by one, and wants those who stay to have the lock in that order.
func requireOrder(t *testing.T, k kind, entrants []entrant) {
	t.Helper()
	const name = "x"
	f := newFleet(t, fleetOptions{})
	holder := golang.owner(t, f, k, name)
	holder.lock(t)

	var (
		mu      sync.Mutex
		granted []string // in the order of the grants
		times   []time.Time
		entered []string // in the order of the queue
		staying sync.WaitGroup
		leaving []*attempt
	)
	for _, e := range entrants {
		o := e.language.owner(t, f, k, name)
		if !e.stays {
			a, _ := f.enter(t, name, func() *attempt { return o.startFor(3 * time.Second) }) // first it must be seen
			leaving = append(leaving, a)
			continue
		}
		a, id := f.enter(t, name, o.start)
		entered = append(entered, id)
		staying.Go(func() {
			if <-a.done; a.err != nil {
				return // it is missing in granted
			}
			mu.Lock()
			granted, times = append(granted, id), append(times, time.Now())
			mu.Unlock()
			o.unlock(t)
		})
	}
	for _, a := range leaving {
		<-a.done
		require.ErrorIs(t, a.err, errGaveUp)
	}
	kit.Await(t, "those who left are out of the queue", func() bool { return len(f.queue(t, name)) == len(entered) })
	require.Equal(t, entered, f.queue(t, name))
	requireListed(t, f, name, entered)

	mu.Lock()
	require.Empty(t, granted)
	times = append(times, time.Now())
	mu.Unlock()
	still := kit.Stillness()
	holder.unlock(t)
	served := make(chan struct{})
	go func() { defer close(served); staying.Wait() }()
	select {
	case <-served:
	case <-time.After(30 * time.Second):
		t.Fatalf("not all served within 30 s, still waiting: %v", f.queue(t, name))
	}
	stood := still()
	require.Equal(t, entered, granted)
	require.Empty(t, state(t, f.server()))
	require.NotRegexp(t, "dropped from the queue|taken for dead", f.log.String())

	var gaps []time.Duration
	for i := range granted {
		gaps = append(gaps, times[i+1].Sub(times[i]))
	}
	slices.Sort(gaps)
	t.Logf("from grant to grant: median %v, longest %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
	require.Less(t, gaps[len(gaps)-1]-stood, promptly, "a waiter was not told that it is its turn")
}

// requireListed wants Go to list these waiters, all alive: its own for their WaiterLease at most.
func requireListed(t *testing.T, f *fleet, name string, owners []string) {
	t.Helper()
	var listed []string
	for _, w := range must(fairlock.New(f.session, name, nil).Waiters(t.Context()))(t) {
		listed = append(listed, w.ID)
		require.Positive(t, w.Alive)
		if !strings.HasPrefix(w.ID, f.client.ID()) {
			require.LessOrEqual(t, w.Alive, 15*time.Second)
		}
	}
	require.Equal(t, owners, listed)
}

// While the next one in the queue is too slow to take what is its, nobody of the other language takes it instead.
func TestFairWaiterKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range cells(fairKinds...) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			slow := c.first.loner(t, f, c.kind, "x")
			holder, other := c.second.owner(t, f, c.kind, "x"), c.second.owner(t, f, c.kind, "x")
			holder.lock(t)
			a := f.wait(t, slow, "x")
			queue := f.queue(t, "x")
			slow.Pause()
			holder.unlock(t)
			require.False(t, other.locked(t))

			require.False(t, other.tryLock(t, 0))
			require.False(t, holder.tryLock(t, 100*time.Millisecond))
			kit.Await(t, "who gave up has left the queue", func() bool { return len(f.queue(t, "x")) == 1 })
			behind, id := f.enter(t, "x", other.start)
			require.Equal(t, append(queue, id), f.queue(t, "x"))
			require.Equal(t, queue[0], must(fairlock.New(f.session, "x", nil).Waiters(t.Context()))(t)[0].ID)
			require.Zero(t, f.server().Int(t, "EXISTS", "x"))

			slow.Resume()
			a.await(t, promptly)
			requireWaiting(t, behind)
			require.Equal(t, "1", f.server().Str(t, "HGET", "x", queue[0]))
			slow.unlock(t)
			behind.await(t, promptly)
			other.unlock(t)
		})
	}
}

// A waiter that is killed when it is next costs the other side no more than the wait that it was given, if somebody in
// Go waits too: its WaiterLease if it was Go's, else JavaWait. A release of Go's passes over a dead one of Go's at
// once, if the server has noticed.
func TestFairDeadWaiterDelaysTheOtherSide(t *testing.T) {
	t.Parallel()
	for _, dead := range languages {
		for _, held := range languages {
			t.Run("dead "+dead.name+", held by "+held.name, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, fleetOptions{javaWait: briefWait})
				holder, victim := held.owner(t, f, mortal, "x"), dead.loner(t, f, mortal, "x")
				first, second := dead.other().owner(t, f, mortal, "x"), golang.owner(t, f, mortal, "x")
				holder.lock(t)
				f.wait(t, victim, "x")
				a, _ := f.enter(t, "x", first.start)
				b, _ := f.enter(t, "x", second.start)
				id := f.queue(t, "x")[0]
				victim.Kill()
				killed := serverTime(t, f)
				earliest, latest := killed, killed.Add(briefWait)
				switch {
				case dead.name == golang.name && held.name == golang.name:
				case dead.name == golang.name:
					earliest = score(t, f, "holdfast_fair_alive:{x}", id)
				default:
					earliest = earliest.Add(briefWait).Truncate(time.Millisecond) // scripts count whole ones
					latest = latest.Add(briefWait * 11 / 30)                      // until somebody of Go looks again
				}
				still := kit.Stillness()
				holder.unlock(t)

				a.await(t, time.Until(latest)+promptly)
				stood := still()
				t.Logf("%v after the kill", a.granted.Sub(killed))
				require.False(t, a.granted.Before(earliest), "the dead waiter lost its place too early")
				require.LessOrEqual(t, a.granted.Sub(latest)-stood, time.Second)
				requireWaiting(t, b)
				first.unlock(t)
				b.await(t, promptly)
				second.unlock(t)
				for key, left := range state(t, f.server()) { // a dead one of Go's is known for a while, to Go alone
					require.True(t, dead.name == golang.name && left.Expires && strings.HasPrefix(key, "holdfast_fair_"), key)
				}
			})
		}
	}
}

// A Go waiter keeps its place in front of a Java waiter however long the lock is held, though Java drops whoever is
// due, itself too, each time it looks.
func TestFairGoWaiterOutlivesALongHold(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: watchedLease, javaWait: briefWait})
	k := fairKind("brief fair", interop.Fair, fairlock.Options{WaiterLease: watchedLease, JavaWait: briefWait})
	var waits sync.WaitGroup // all at once: they take their time
	for _, holds := range languages {
		holder, first := holds.owner(t, f, k, holds.name), golang.owner(t, f, k, holds.name)
		other := java.owner(t, f, k, holds.name)
		holder.lock(t)
		a, id := f.enter(t, holds.name, first.start)
		waits.Go(func() {
			assert.False(t, other.tryLock(t, 2*watchedLease+promptly))
			assert.Equal(t, []string{id}, f.queue(t, holds.name))
			holder.unlock(t)
			a.await(t, promptly)
			assert.Equal(t, id, first.id())
			first.unlock(t)
		})
	}
	waits.Wait()
	require.NotRegexp(t, "dropped from the queue|taken for dead", f.log.String())
}

const (
	fairQueue = "redisson_lock_queue:{fl}"
	fairDue   = "redisson_lock_timeout:{fl}"
	fairOurs  = "holdfast_fair_queue:{fl}"
	fairAlive = "holdfast_fair_alive:{fl}"
)

// The states that a fair lock goes through in Redis are those of Redisson, byte for byte, whoever holds and whoever
// waits. While somebody of Go waits there are two keys more, which expire.
func TestFairGoldenStates(t *testing.T) {
	t.Parallel()
	for _, k := range fairKinds {
		for _, holds := range languages {
			for _, waits := range languages {
				t.Run(fmt.Sprintf("%s, %s holds, %s waits", k.name, holds.name, waits.name), func(t *testing.T) {
					requireGoldenStates(t, k, holds, waits)
				})
			}
		}
	}
}

func requireGoldenStates(t *testing.T, k kind, holds, waits language) {
	t.Helper()
	f := newFleet(t, fleetOptions{})
	messages := f.server().Messages(t, "*")
	holder, w := holds.owner(t, f, k, "fl"), waits.loner(t, f, k, "fl")
	holder.lock(t)
	u1 := holder.id()
	require.Equal(t, map[string]redistest.Value{"fl": held("1")}, state(t, f.server(), u1))
	if !k.nonReentrant {
		holder.lock(t)
		require.Equal(t, map[string]redistest.Value{"fl": held("2")}, state(t, f.server(), u1))
		holder.unlock(t)
		require.Equal(t, map[string]redistest.Value{"fl": held("1")}, state(t, f.server(), u1))
	}
	requireTTL(t, f, "fl", 30*time.Second)
	require.Empty(t, messages.Drain(t))

	a := f.wait(t, w, "fl")
	u2 := f.queue(t, "fl")[0]
	if waits.name == golang.name {
		kit.Await(t, "that a release may hand it the lock", func() bool {
			return strings.Contains(f.server().Str(t, "ZSCORE", fairAlive, u2), ".")
		})
	}
	w.Pause() // so that what the holder leaves can be seen
	waiting := map[string]redistest.Value{
		"fl":      held("1"),
		fairQueue: {Type: "list", Content: []string{"u2:1"}},
		fairDue:   {Type: "zset", Content: []string{"u2:1"}},
	}
	if waits.name == golang.name {
		waiting[fairOurs] = redistest.Value{Type: "list", Content: []string{"u2:1"}, Expires: true}
		waiting[fairAlive] = redistest.Value{Type: "zset", Content: []string{"u2:1"}, Expires: true}
		requireTTL(t, f, fairOurs, 24*time.Hour)
		requireTTL(t, f, fairAlive, 24*time.Hour)
	}
	require.Equal(t, waiting, state(t, f.server(), u1, u2))
	require.Empty(t, messages.Drain(t))
	end := leaseEnd(t, f, "fl")
	due := end // of Go's first waiter, who outlives the lease
	if waits.name == java.name {
		due = end.Add(javaWait)
	}
	requireScore(t, f, fairDue, u2, due)
	if !k.nonReentrant { // who is in does not queue
		waiting["fl"] = held("2")
		holder.lock(t)
		require.Equal(t, waiting, state(t, f.server(), u1, u2))
		waiting["fl"] = held("1")
		holder.unlock(t)
		require.Equal(t, waiting, state(t, f.server(), u1, u2))
		require.Empty(t, messages.Drain(t))
	}

	released := serverTime(t, f)
	holder.unlock(t)
	taken := map[string]redistest.Value{"fl": {Type: "hash", Content: map[string]string{"u2:1": "1"}, Expires: true}}
	lease := 30 * time.Second
	told := redistest.Message{Channel: "redisson_lock__channel:{fl}:" + u2, Payload: "0"}
	delete(waiting, "fl")
	if holds.name == golang.name && waits.name == golang.name { // among its own, Go hands the lock on
		waiting, lease = taken, 9500*time.Millisecond
		session, _, _ := strings.Cut(u2, ":")
		told = redistest.Message{Channel: "holdfast_fair:{fl}:" + session, Payload: u2 + " 0"}
	}
	require.Equal(t, waiting, state(t, f.server(), u1, u2))
	require.Equal(t, []redistest.Message{told}, messages.Drain(t))
	switch {
	case lease < 30*time.Second:
		requireTTL(t, f, "fl", lease)
	case holds.name == java.name: // leaves scores alone
		requireScore(t, f, fairDue, u2, due)
	case waits.name == java.name: // Go takes away what the waiter has no more use for
		requireScore(t, f, fairDue, u2, released.Add(javaWait))
	default:
		requireScore(t, f, fairDue, u2, score(t, f, fairAlive, u2))
	}

	w.Resume()
	a.await(t, promptly)
	require.Equal(t, taken, state(t, f.server(), u1, u2))
	if lease == 30*time.Second { // else it is renewed soon
		requireTTL(t, f, "fl", lease)
	}
	require.Empty(t, messages.Drain(t))
	w.unlock(t)
	require.Empty(t, state(t, f.server()))
	require.Empty(t, messages.Drain(t))
}

// In a mixed queue a Java waiter's score is at least what Redisson alone would have given it, and Go's is ahead by as
// much as the Java waiters in front of it will take off.
func TestFairScoresOfMixedQueue(t *testing.T) {
	t.Parallel()
	const name = "fl"
	for _, holds := range languages {
		t.Run(holds.name+" holds", func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			holder := holds.owner(t, f, fair, name)
			holder.lock(t)
			end := leaseEnd(t, f, name)
			var owners []owner
			var attempts []*attempt
			for _, l := range []language{java, golang, java, golang} {
				owners = append(owners, l.owner(t, f, fair, name))
				attempts = append(attempts, f.wait(t, owners[len(owners)-1], name))
			}
			queue := f.queue(t, name)
			requireListed(t, f, name, queue)
			for i, javaWaits := range []time.Duration{1, 1, 2, 2} {
				due := score(t, f, fairDue, queue[i])
				require.False(t, due.Before(end.Add(javaWaits*javaWait-time.Second)), "waiter %d", i)
				require.WithinDuration(t, end.Add(javaWaits*javaWait), due, 5*time.Second, "waiter %d", i)
			}
			require.Equal(t, []string{queue[1], queue[3]}, f.server().Strs(t, "LRANGE", fairOurs, "0", "-1"))
			require.ElementsMatch(t, queue,
				slices.Collect(maps.Keys(f.server().Keyspace(t)[fairDue].Content.(map[string]float64))))

			holder.unlock(t)
			for i, a := range attempts {
				a.await(t, promptly)
				require.Equal(t, queue[i], owners[i].id())
				require.Equal(t, queue[i+1:], f.queue(t, name))
				owners[i].unlock(t)
			}
			require.Empty(t, state(t, f.server()))
		})
	}
}

// javaWait is Redisson's fairLockWaitTimeout, and what Go takes it to be.
const javaWait = 5 * time.Minute

// serverTime is the clock of the server, to whose millisecond all of these times are.
func serverTime(t *testing.T, f *fleet) time.Time {
	t.Helper()
	now := f.server().Strs(t, "TIME")
	seconds, micros := must(strconv.ParseInt(now[0], 10, 64))(t), must(strconv.ParseInt(now[1], 10, 64))(t)
	return time.Unix(seconds, micros*1000)
}

// leaseEnd is when a key expires.
func leaseEnd(t *testing.T, f *fleet, key string) time.Time {
	t.Helper()
	return serverTime(t, f).Add(time.Duration(f.server().Int(t, "PTTL", key)) * time.Millisecond)
}

// score is the time that a sorted set has of a member.
func score(t *testing.T, f *fleet, key, member string) time.Time {
	t.Helper()
	whole, _, _ := strings.Cut(f.server().Str(t, "ZSCORE", key, member), ".") // behind the point is what a waiter asks for
	return time.UnixMilli(must(strconv.ParseInt(whole, 10, 64))(t))
}

// requireScore wants the time to be that of a member, but for what passes between two commands.
func requireScore(t *testing.T, f *fleet, key, member string, want time.Time) {
	t.Helper()
	require.WithinDuration(t, want, score(t, f, key, member), time.Second)
}
