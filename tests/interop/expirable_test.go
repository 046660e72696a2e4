package interop_test

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const (
	// never is how Redis has the end of a lease without end.
	never = 922337203685477
	// briefLease is the lease of permits that are to come back soon, but not before the call that took them has
	// returned.
	briefLease = 400 * time.Millisecond
)

// unknownPermit is the id of no permit.
var unknownPermit = strings.Repeat("0f", 16)

// permitsKey is where the permits are that are taken of the semaphore of that mapped name.
func permitsKey(mapped string) string {
	if strings.Contains(mapped, "{") {
		return mapped + ":timeout"
	}
	return "{" + mapped + "}:timeout"
}

// integer is a number that Java can read as a long.
var integer = regexp.MustCompile(`^\d+$`)

// scores are the permits that are taken, by id, and when their leases are over.
func (f *fleet) scores(t *testing.T, mapped string) map[string]int64 {
	t.Helper()
	scores := map[string]int64{}
	key := permitsKey(mapped)
	for pair := range slices.Chunk(f.at(t, key).Strs(t, "ZRANGE", key, "0", "-1", "WITHSCORES"), 2) {
		require.Regexp(t, integer, pair[1])
		scores[hex.EncodeToString([]byte(pair[0]))] = must(strconv.ParseInt(pair[1], 10, 64))(t)
	}
	return scores
}

// book is what permits must be taken, and between which times the lease of each ends, in ms.
type book map[string][2]int64

// lend notes permits that were given a lease by a call that began at that time and has just returned.
func (b book) lend(began time.Time, lease time.Duration, ids ...string) {
	ends := [2]int64{never, never}
	if lease != semaphore.Forever {
		ends = [2]int64{began.Add(lease).UnixMilli(), time.Now().Add(lease).UnixMilli()}
	}
	for _, id := range ids {
		b[id] = ends
	}
}

func (b book) strike(ids ...string) {
	for _, id := range ids {
		delete(b, id)
	}
}

// require wants exactly the permits of the book to be taken.
func (b book) require(t *testing.T, f *fleet, mapped, what string) {
	t.Helper()
	scores := f.scores(t, mapped)
	require.Len(t, scores, len(b), what)
	for id, ends := range b {
		require.GreaterOrEqual(t, scores[id], ends[0], what)
		require.LessOrEqual(t, scores[id], ends[1], what)
	}
}

// requirePermits wants everybody to count so many permits that are free, and if they have leases so many that are
// taken.
func requirePermits(t *testing.T, free, taken int, what string, users ...permits) {
	t.Helper()
	for _, u := range users {
		require.Equal(t, free, u.free(t), what)
		if e, ok := u.(expirable); ok {
			require.Equal(t, taken, e.taken(t), what)
			require.Equal(t, free+taken, e.all(t), what)
		}
	}
}

// The states that a semaphore of permits with leases goes through in Redis are those of Redisson, byte for byte, and so
// are the messages, whichever languages use it; both count alike in every one of them.
func TestExpirableGoldenStates(t *testing.T) {
	t.Parallel()
	requireStates(t, alone(t), expirables, expirableSteps)
}

func expirableSteps(t *testing.T, f *fleet, name string, first, second language) steps {
	a, b := first.expirable(t, f, name), second.expirable(t, f, name)
	taken := book{}
	var ids []string // all there have been
	keep := func(began time.Time, lease time.Duration, got []string) int {
		taken.lend(began, lease, got...)
		ids = append(ids, got...)
		return len(got)
	}
	acquire := func(e expirable, n int, lease time.Duration) bool {
		return keep(time.Now(), lease, e.acquire(t, n, lease)) == n
	}
	try := func(e expirable, n int, lease time.Duration) bool {
		return keep(time.Now(), lease, e.tryAcquire(t, n, lease, 0)) == n
	}
	release := func(e expirable, ids ...string) bool {
		taken.strike(ids...)
		e.release(t, ids...)
		return true
	}
	update := func(e expirable, id string, lease time.Duration) bool {
		began := time.Now()
		done := e.updateLease(t, id, lease)
		taken.lend(began, lease, id)
		return done
	}
	// runOut has the leases of permits run out, of which nobody takes notice.
	runOut := func(e expirable, n int) bool {
		got := e.acquire(t, n, briefLease)
		ids = append(ids, got...)
		time.Sleep(briefLease + 5*time.Millisecond)
		return len(f.scores(t, name)) == len(taken)+n
	}
	beside := func() map[string]redistest.Value {
		var members []string // the bytes of the ids themselves
		for id := range taken {
			members = append(members, string(must(hex.DecodeString(id))(t)))
		}
		if members == nil {
			return map[string]redistest.Value{}
		}
		slices.Sort(members)
		return map[string]redistest.Value{"{" + name + "}:timeout": {Type: "zset", Content: members}}
	}
	return steps{
		channel: prefixed("redisson_sc", name),
		beside:  beside,
		count: func(t *testing.T, n int, what string) {
			taken.require(t, f, name, what)
			requirePermits(t, n, len(taken), what, a, b)
		},
		all: []step{
			{"try what is not there", func() bool { return !try(a, 1, 0) && !try(b, 2, time.Minute) }, gone, ""},
			{"release of it", func() bool { return !a.tryRelease(t, unknownPermit) }, gone, ""},
			{"lease of it", func() bool { return a.remaining(t, unknownPermit) == 0 }, gone, ""},
			{"set", func() bool { return a.trySet(t, 6) }, "6", "6"},
			{"set again", func() bool { return !b.trySet(t, 7) }, "6", ""},
			{"acquire for ever", func() bool { return acquire(a, 1, semaphore.Forever) }, "5", ""},
			{"acquire with a lease", func() bool { return acquire(b, 1, time.Minute) }, "4", ""},
			{"acquire several", func() bool { return acquire(b, 2, time.Hour) }, "2", ""},
			{"try for too many", func() bool { return !try(a, 3, semaphore.Forever) }, "2", ""},
			{"try", func() bool { return try(a, 1, time.Minute) }, "1", ""},
			{"acquire", func() bool { // with what lease, is the language's own affair
				return keep(time.Now(), b.usual(), b.acquire(t, 1, 0)) == 1
			}, "0", ""},
			{"try what is taken", func() bool { return !try(b, 1, 0) && !try(a, 1, time.Minute) }, "0", ""},
			{"update a lease without end", func() bool { return update(b, ids[0], time.Hour) }, "0", ""},
			{"update a lease", func() bool { return update(a, ids[1], semaphore.Forever) }, "0", ""},
			{"shorten a lease", func() bool { return update(b, ids[2], time.Minute) }, "0", ""},
			{"release", func() bool { return release(b, ids[0]) }, "1", "1"},
			{"release again", func() bool { return !a.tryRelease(t, ids[0]) && !b.tryRelease(t, ids[0]) }, "1", ""},
			{"update what is released", func() bool { return !b.updateLease(t, ids[0], time.Hour) }, "1", ""},
			{"release several", func() bool { return release(a, ids[1], ids[2]) }, "3", "2"},
			{"release one that is not taken", func() bool { return !a.tryRelease(t, ids[3], ids[2]) }, "3", ""},
			{"try and release", func() bool { taken.strike(ids[3]); return b.tryRelease(t, ids[3]) }, "4", "4"},
			{"make larger", func() bool { a.set(t, 8); return true }, "6", "8"},
			{"leave as it is", func() bool { b.set(t, 8); return true }, "6", ""},
			{"make smaller", func() bool { b.set(t, 1); return true }, "-1", "1"},
			{"try what is missing", func() bool { return !try(a, 1, 0) }, "-1", ""},
			{"release what was missing", func() bool { return release(a, ids[4]) }, "0", "0"},
			{"add", func() bool { a.add(t, 3); return true }, "3", "3"},
			{"take away", func() bool { b.add(t, -2); return true }, "1", ""},
			{"add none", func() bool { a.add(t, 0); return true }, "1", ""},
			{"count what has run out", func() bool { return runOut(a, 1) && b.free(t) == 1 }, "1", "1"},
			{"release what has run out", func() bool { return runOut(b, 1) && !a.tryRelease(t, ids[7]) }, "1", "1"},
			{"release that again", func() bool { return !b.tryRelease(t, ids[7]) }, "1", ""},
			{"take what has run out", func() bool { return runOut(a, 1) && try(b, 1, time.Minute) }, "0", "1"},
			{"add to nothing", func() bool { b.add(t, 2); return true }, "2", "2"},
			{"take several that have run out", func() bool { return runOut(b, 2) && try(a, 2, time.Hour) }, "0", "2"},
			{"delete", func() bool { clear(taken); return b.remove(t) }, gone, ""},
			{"delete again", func() bool { return !a.remove(t) }, gone, ""},
			{"release what is gone", func() bool { return !b.tryRelease(t, ids[5]) }, gone, ""},
			{"set what is gone", func() bool { b.set(t, 2); return true }, "2", "2"},
			{"delete what was set", func() bool { return a.remove(t) }, gone, ""},
			{"add to what is gone", func() bool { a.add(t, 3); return true }, "3", "3"},
			{"delete what was added", func() bool { return b.remove(t) }, gone, ""},
			{"take away from what is gone", func() bool { b.add(t, -1); return true }, "-1", ""},
			{"delete what is missing", func() bool { return a.remove(t) }, gone, ""},
			{"set to nothing", func() bool { return a.trySet(t, 0) }, "0", "0"},
			{"set what has nothing", func() bool { return !b.trySet(t, 1) }, "0", ""},
		},
	}
}

// A permit of one side is to the other what it is to the one who took it: asked for, given another lease, given back.
// That happens once.
func TestExpirableIDsCrossOver(t *testing.T) {
	t.Parallel()
	requireIDsCrossOver(t, alone(t))
}

func requireIDsCrossOver(t *testing.T, s *site) {
	t.Helper()
	id := regexp.MustCompile("^[0-9a-f]{32}$")
	for _, taker := range languages {
		for what, lease := range map[string]time.Duration{"usual": 0, "some": time.Minute, "for ever": semaphore.Forever} {
			t.Run(taker.name+" takes it, lease "+what, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, readings, expirableRow, taker)
				name := unique("p")
				a, b := taker.expirable(t, f, name), taker.other().expirable(t, f, name)
				require.True(t, a.trySet(t, 2))
				permit := a.acquire(t, 1, lease)[0]
				require.Regexp(t, id, permit)
				if lease == 0 {
					lease = a.usual()
				}
				requireLease := func(lease time.Duration) {
					t.Helper()
					for _, e := range []expirable{a, b} {
						left := e.remaining(t, permit)
						require.LessOrEqual(t, left, lease)
						require.Greater(t, left, lease-min(lease/2, 10*time.Second))
					}
				}
				requireLease(lease)
				for _, lease := range []time.Duration{2 * time.Hour, semaphore.Forever, time.Minute} {
					for _, e := range []expirable{b, a} {
						require.True(t, e.updateLease(t, permit, lease))
						requireLease(lease)
					}
				}
				requirePermits(t, 1, 1, "taken", a, b)
				require.True(t, b.tryRelease(t, permit))
				requireNotTaken(t, permit, a, b)
				requirePermits(t, 2, 0, "given back", a, b)

				several := a.acquire(t, 2, lease)
				require.False(t, b.tryRelease(t, several[0], unknownPermit))
				requirePermits(t, 0, 2, "all or none", a, b)
				b.release(t, several...)
				requireNotTaken(t, several[1], b, a)
				require.False(t, a.tryRelease(t, several...))
				requirePermits(t, 2, 0, "given back together", a, b)
				requireNotTaken(t, unknownPermit, a, b)
				require.Empty(t, f.scores(t, name))
			})
		}
	}
}

// requireNotTaken wants everybody to be refused what needs a permit that is taken.
func requireNotTaken(t *testing.T, permit string, users ...expirable) {
	t.Helper()
	for _, e := range users {
		require.False(t, e.tryRelease(t, permit))
		require.False(t, e.updateLease(t, permit, time.Minute))
		require.Zero(t, e.remaining(t, permit))
		if e, ok := e.(*javaExpirable); ok {
			requireNoPermit(t, e.object.Try(t, "release", permit).Err)
			requireNoPermit(t, e.object.Try(t, "getLeaseTime", permit).Err)
		}
	}
}

// A permit whose lease is over comes back once, whoever asks for it first, and whatever he asks.
func TestExpirableLeaseIsOver(t *testing.T) {
	t.Parallel()
	asked := map[string]func(t *testing.T, e expirable, permit string){
		"release":   func(t *testing.T, e expirable, permit string) { require.False(t, e.tryRelease(t, permit)) },
		"remaining": func(t *testing.T, e expirable, permit string) { require.Zero(t, e.remaining(t, permit)) },
		"update": func(t *testing.T, e expirable, permit string) {
			require.False(t, e.updateLease(t, permit, time.Minute))
		},
		"count": func(t *testing.T, e expirable, _ string) { require.Equal(t, 1, e.free(t)) },
	}
	for _, taker := range languages {
		f := newFleet(t, fleetOptions{})
		for what, ask := range asked {
			for _, asker := range languages {
				t.Run(what+" by "+asker.name+" of "+taker.name+"'s", func(t *testing.T) {
					name := t.Name()
					e, a, b := taker.expirable(t, f, name), asker.expirable(t, f, name), asker.other().expirable(t, f, name)
					require.True(t, e.trySet(t, 2))
					e.acquire(t, 1, time.Minute)
					permit := e.acquire(t, 1, briefLease)[0]
					time.Sleep(briefLease + 5*time.Millisecond)
					ask(t, a, permit)
					ask(t, b, permit)
					requireNotTaken(t, permit, a, b)
					requirePermits(t, 1, 1, what, a, b)
				})
			}
		}
		t.Run("one of several of "+taker.name+"'s", func(t *testing.T) {
			for _, asker := range languages {
				name := t.Name() + " by " + asker.name
				e, a, b := taker.expirable(t, f, name), asker.expirable(t, f, name), asker.other().expirable(t, f, name)
				require.True(t, e.trySet(t, 2))
				lasting, brief := e.acquire(t, 1, time.Minute)[0], e.acquire(t, 1, briefLease)[0]
				time.Sleep(briefLease + 5*time.Millisecond)
				require.False(t, a.tryRelease(t, lasting, brief))
				require.False(t, b.tryRelease(t, brief, lasting))
				requirePermits(t, 1, 1, "all or none", a, b)
				b.release(t, lasting)
				requirePermits(t, 2, 0, "what was left", a, b)
			}
		})
	}
}

// An expiry of the semaphore is one of the permits that are taken as well, and stays whatever Go does. Redisson's own
// addPermits ends it.
func TestExpirableExpiry(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	for _, l := range languages {
		t.Run("used by "+l.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			e, j := l.expirable(t, f, "s"), java.expirable(t, f, "s").(*javaExpirable)
			require.True(t, j.trySet(t, 5))
			require.True(t, j.object.Do(t, "expire", ttl).Bool())
			requireTTL(t, f, "s", ttl)
			ids := e.acquire(t, 2, 0)
			requireTTLs := func() {
				t.Helper()
				requireTTL(t, f, "s", ttl)
				requireTTL(t, f, permitsKey("s"), ttl)
			}
			requireTTLs()
			e.release(t, ids[0])
			requireTTLs()
			e.acquire(t, 1, time.Hour)
			requireTTLs()
			require.True(t, e.updateLease(t, ids[1], time.Hour))
			requireTTLs()
			e.set(t, 7)
			requireTTLs()
			e.add(t, 2)
			if l.name == golang.name {
				requireTTLs()
			} else {
				require.NotContains(t, f.server().TTLs(t), "s")
			}
			requirePermits(t, 7, 2, "used", e, j)
		})
	}
}
