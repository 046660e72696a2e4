package interop_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

const (
	// never is how Redis has the end of a lease without end.
	never = 922337203685477
	// briefLease is the lease of permits that are to come back soon, but not before the call that took them has returned.
	briefLease = 150 * time.Millisecond
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

// requirePermits wants everybody to count so many permits that are free, and taken.
func requirePermits(t *testing.T, free, taken int, what string, users ...expirable) {
	t.Helper()
	for _, e := range users {
		require.Equal(t, free, e.free(t), what)
		require.Equal(t, taken, e.taken(t), what)
		require.Equal(t, free+taken, e.all(t), what)
	}
}

// The states that a semaphore of permits with leases goes through in Redis are those of Redisson, byte for byte, and so
// are the messages, whichever languages use it; both count alike in every one of them.
func TestExpirableGoldenStates(t *testing.T) { requireExpirableStates(t, alone(t)) }

func requireExpirableStates(t *testing.T, s *site) {
	t.Helper()
	for _, first := range languages {
		for _, second := range languages {
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, readings, expirableRow, first)
				f.proves(t, inspection, expirableRow, first)
				name := unique("p")
				channel := prefixed("redisson_sc", name)
				messages := f.messages(t, channel)
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
				const gone = "gone"
				for _, step := range []struct {
					what string
					do   func() bool // what is asked; whether that is so
					free string
					said string
				}{
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
				} {
					require.True(t, step.do(), step.what)
					want := map[string]redistest.Value{}
					if step.free != gone {
						want[name] = redistest.Value{Type: "string", Content: step.free}
					}
					var members []string // the bytes of the ids themselves
					for id := range taken {
						members = append(members, string(must(hex.DecodeString(id))(t)))
					}
					if slices.Sort(members); members != nil {
						want["{"+name+"}:timeout"] = redistest.Value{Type: "zset", Content: members}
					}
					require.Equal(t, want, f.state(t, name), step.what)
					taken.require(t, f, name, step.what)
					var said []redistest.Message
					if step.said != "" {
						said = []redistest.Message{{Channel: channel, Payload: step.said}}
					}
					require.ElementsMatch(t, said, messages.Drain(t), step.what)
					free, _ := strconv.Atoi(step.free)
					requirePermits(t, free, len(taken), step.what, a, b)
				}
			})
		}
	}
}

// A permit of one side is to the other what it is to the one who took it: asked for, given another lease, given back.
// That happens once.
func TestExpirableIDsCrossOver(t *testing.T) { requireIDsCrossOver(t, alone(t)) }

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

// What one side has taken, the other cannot take as well, until it is given back.
func TestExpirableExclusion(t *testing.T) { requireExpirableExclusion(t, alone(t)) }

func requireExpirableExclusion(t *testing.T, s *site) {
	t.Helper()
	for _, first := range languages {
		t.Run(first.name+" first", func(t *testing.T) {
			f := s.fleet(fleetOptions{})
			f.proves(t, exclusion, expirableRow, first)
			name := unique("p")
			a, b := first.expirable(t, f, name), first.other().expirable(t, f, name)
			require.True(t, a.trySet(t, 3))
			two, one := a.acquire(t, 2, 0), b.acquire(t, 1, 0)
			for _, e := range []expirable{a, b} {
				require.Empty(t, e.tryAcquire(t, 1, 0, 0))
				require.Empty(t, e.tryAcquire(t, 1, time.Minute, 20*time.Millisecond))
				require.Empty(t, e.tryAcquire(t, 2, 0, 20*time.Millisecond))
			}
			a.give(t, two[0])
			require.Empty(t, b.tryAcquire(t, 2, 0, 20*time.Millisecond))
			other := b.tryAcquire(t, 1, time.Minute, 20*time.Millisecond)
			require.Len(t, other, 1)
			require.Empty(t, a.tryAcquire(t, 1, 0, 0))
			b.give(t, append(one, other...)...)
			a.give(t, two[1])
			requirePermits(t, 3, 0, "all back", a, b)
		})
	}
}

// Of a crowd of both sides there are never more inside than permits, though some never give back what they have, and
// all permits are back in the end. At no time is there one too many or too few.
func TestExpirableCrowd(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	require.True(t, golang.expirable(t, f, "s").trySet(t, crowdPermits))
	looks := 0
	requireCrowd(t, f, func(l language, worker, n int) func(round int, stay func()) {
		e := l.expirable(t, f, "s")
		return func(round int, stay func()) {
			if worker < 2 && round%8 == 7 {
				e.acquire(t, n, 3*briefLease) // and forget it
				return
			}
			ids := e.acquire(t, n, 0)
			stay()
			e.give(t, ids...)
		}
	}, func() {
		const both = `return {redis.call('GET', KEYS[1]), redis.call('ZCARD', KEYS[2])}`
		look := f.server().Do(t, "EVAL", both, "2", "s", permitsKey("s")).([]any)
		require.Equal(t, int64(crowdPermits), int64(must(strconv.Atoi(look[0].(string)))(t))+look[1].(int64))
		looks++
	}, func() int { return java.expirable(t, f, "s").free(t) })
	t.Log(looks, "looks")
	requirePermits(t, crowdPermits, 0, "the end", golang.expirable(t, f, "s"), java.expirable(t, f, "s"))
}

// expirableGift is what brings permits to who waits for two.
type expirableGift struct {
	name   string
	before int // permits, free and taken; -1: there is no semaphore
	taken  int
	give   func(t *testing.T, e expirable, ids []string)
}

var expirableGifts = []expirableGift{
	{"release", 2, 2, func(t *testing.T, e expirable, ids []string) { e.give(t, ids...) }},
	{"release of several by id", 2, 2, func(t *testing.T, e expirable, ids []string) { e.release(t, ids...) }},
	{"release of one by id", 2, 1, func(t *testing.T, e expirable, ids []string) { e.release(t, ids...) }},
	{"tryRelease", 2, 1, func(t *testing.T, e expirable, ids []string) { require.True(t, e.tryRelease(t, ids...)) }},
	{"addPermits", 0, 0, func(t *testing.T, e expirable, _ []string) { e.add(t, 2) }},
	{"addPermits to one", 1, 0, func(t *testing.T, e expirable, _ []string) { e.add(t, 1) }},
	{"addPermits to what is gone", -1, 0, func(t *testing.T, e expirable, _ []string) { e.add(t, 2) }},
	{"setPermits", 1, 1, func(t *testing.T, e expirable, _ []string) { e.set(t, 3) }},
	{"setPermits of what is gone", -1, 0, func(t *testing.T, e expirable, _ []string) { e.set(t, 2) }},
	{"trySetPermits", -1, 0, func(t *testing.T, e expirable, _ []string) { require.True(t, e.trySet(t, 2)) }},
	{"a count of what has run out", 2, 1, func(t *testing.T, e expirable, ids []string) {
		require.True(t, e.updateLease(t, ids[0], 10*time.Millisecond)) // of which nobody is told
		time.Sleep(15 * time.Millisecond)
		e.taken(t)
	}},
}

// Permits of one side wake the other by their message, however they come about.
func TestExpirableGiftsWakeTheOtherSide(t *testing.T) {
	requirePermitsWake(t, alone(t), expirableGifts...)
}

func requirePermitsWake(t *testing.T, s *site, gifts ...expirableGift) {
	t.Helper()
	for _, gift := range gifts {
		for _, giver := range languages {
			t.Run(gift.name+" by "+giver.name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, wakeUp, expirableRow, giver)
				requireAtOnce(t, func(name string) time.Duration {
					g, w := giver.expirable(t, f, name), giver.other().expirable(t, f, name)
					var ids []string
					if gift.before >= 0 {
						require.True(t, g.trySet(t, gift.before))
					}
					if gift.taken > 0 {
						ids = g.acquire(t, gift.taken, time.Hour)
					}
					a := f.waitForPermits(t, name, w, 2)
					given := time.Now()
					gift.give(t, g, ids)
					a.await(t, promptly)
					require.Len(t, w.granted(), 2)
					require.Zero(t, g.free(t))
					return a.granted.Sub(given)
				})
			})
		}
	}
}

// Messages of too few permits, or of fewer than none, which Redisson's listener chokes on, do not harm who waits.
func TestExpirableSmallGiftsLeaveTheOtherSideWaiting(t *testing.T) {
	for _, giver := range languages {
		t.Run(giver.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			messages := f.server().Messages(t, "*")
			g, w := giver.expirable(t, f, "s"), giver.other().expirable(t, f, "s")
			require.True(t, g.trySet(t, 5))
			ids := g.acquire(t, 5, time.Hour)
			g.set(t, 3)
			a := f.waitForPermits(t, "s", w, 2)
			g.release(t, ids[0])
			g.release(t, ids[1])
			g.release(t, ids[2])
			g.add(t, -1)
			requireWaiting(t, a)
			require.Zero(t, g.free(t))
			g.release(t, ids[3], ids[4])
			a.await(t, promptly)
			requirePermits(t, 0, 2, "granted", g, w)

			var said []string
			for _, m := range messages.Drain(t) {
				said = append(said, m.Payload)
			}
			require.Equal(t, []string{"5", "3", "-1", "0", "1", "2"}, said)
		})
	}
}

// The message of several permits that are given back, and of those added, says how many these are, and not how many are
// free: it wakes also who waits for more.
func TestExpirableMessageOfFewerThanAreFree(t *testing.T) {
	gifts := map[string]func(t *testing.T, e expirable, ids []string){
		"release":    func(t *testing.T, e expirable, ids []string) { e.release(t, ids...) },
		"addPermits": func(t *testing.T, e expirable, _ []string) { e.add(t, 2) },
	}
	for name, give := range gifts {
		for _, giver := range languages {
			t.Run(name+" by "+giver.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				messages := f.server().Messages(t, "*")
				g, w := giver.expirable(t, f, "s"), giver.other().expirable(t, f, "s")
				require.True(t, g.trySet(t, 5))
				ids := g.acquire(t, 2, time.Hour)
				a := f.waitForPermits(t, "s", w, 5)
				messages.Drain(t)
				give(t, g, ids)
				a.await(t, promptly)
				require.Equal(t, []redistest.Message{{Channel: "redisson_sc:{s}", Payload: "2"}}, messages.Drain(t))
			})
		}
	}
}

// One message wakes as many of both sides as there are permits for, and who has none is woken by the next.
func TestExpirableGiftForAll(t *testing.T) {
	for _, giver := range languages {
		t.Run(giver.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			g := giver.expirable(t, f, "s")
			require.True(t, g.trySet(t, crowdWaiters))
			ids := g.acquire(t, crowdWaiters, time.Hour)
			waits := crowdWaits(func(l language, seen bool) *attempt {
				e := l.expirable(t, f, "s")
				if seen {
					return f.waitForPermits(t, "s", e, 1)
				}
				return e.start(1)
			})
			g.release(t, ids...)
			for _, a := range waits {
				a.await(t, promptly)
			}
			requirePermits(t, 0, crowdWaiters, "granted", g)
		})
	}
}

// The end of a lease of one side wakes who waits on the other, who was told of it when it last asked.
func TestExpirableLeaseEndWakesTheOtherSide(t *testing.T) {
	const lease = 500 * time.Millisecond
	t.Parallel()
	for _, holder := range languages {
		t.Run(holder.name+" has had it", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{})
			for _, n := range []int{1, 2} {
				for _, beside := range []time.Duration{0, semaphore.Forever, time.Hour} { // of a permit that stays taken
					name := fmt.Sprint(n, " beside ", beside)
					h, w := holder.expirable(t, f, name), holder.other().expirable(t, f, name)
					require.True(t, h.trySet(t, n))
					if beside > 0 {
						h.add(t, 1)
						h.acquire(t, 1, beside)
					}
					began := time.Now()
					h.acquire(t, n, lease)
					a := f.waitForPermits(t, name, w, n)
					a.await(t, lease+promptly)
					took := a.granted.Sub(began)
					t.Logf("%s: a lease of %v, over after %v", name, lease, took)
					require.GreaterOrEqual(t, took, lease-5*time.Millisecond, name)
					require.Len(t, w.granted(), n)
				}
			}
		})
	}
}

// Java reads every lease that Go writes: a fixed one, one that is renewed while it sleeps, and one without end. Nothing
// of it disturbs the JVM.
func TestExpirableJavaReadsTheLeasesOfGo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	jvm := interop.Start(t)
	f.client = connect(t, jvm, f.server())
	type wait struct {
		g, j  expirable
		taken []string
		*attempt
	}
	waits := map[string]wait{}
	for name, lease := range map[string]time.Duration{"fixed": time.Second, "renewed": 0, "for ever": semaphore.Forever} {
		g, j := golang.expirable(t, f, name), java.expirable(t, f, name)
		require.True(t, j.trySet(t, 1))
		taken := g.acquire(t, 1, lease)
		waits[name] = wait{g, j, taken, j.start(1)}
	}
	waits["fixed"].await(t, time.Second+promptly)
	time.Sleep(shortLease + shortLease/3) // Java has been told of a lease that was to end before
	for _, name := range []string{"renewed", "for ever"} {
		w := waits[name]
		requireWaiting(t, w.attempt)
		require.Equal(t, w.taken, slices.Collect(maps.Keys(f.scores(t, name))))
		w.g.give(t, w.taken...)
		w.await(t, promptly)
	}
	for name, w := range waits {
		require.Equal(t, w.j.granted(), slices.Collect(maps.Keys(f.scores(t, name))))
		w.j.release(t, w.j.granted()...)
		requirePermits(t, 1, 0, name, w.g, w.j)
	}
	jvm.Close()
	require.Empty(t, jvm.Log())
}

// hoarder is a process of its own that has taken permits, and can be frozen and killed.
type hoarder struct {
	process
	ids  []string
	says <-chan string // in Go, of how they were lost
}

func newGoHoarder(t *testing.T, f *fleet, name string, n int, lease time.Duration) hoarder {
	t.Helper()
	says := make(chan string, 2)
	args := []string{f.written(), f.options.lease.String(), name, strconv.Itoa(n), lease.String()}
	w := worker.Start(t, func(line string) { says <- line }, "hoarder", args...)
	return hoarder{w, strings.Fields(hearFirst(t, w, says)), says}
}

// beHoarder is the program of a hoarder in Go. It says the ids of its permits when it has them, and keeps them; and why
// it has lost the first, if it does.
func beHoarder(args []string) {
	name := args[2]
	err := func() error {
		n, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		fixed, err := time.ParseDuration(args[4])
		if err != nil {
			return err
		}
		sessions, err := openWritten(args[0], args[1])
		if err != nil {
			return err
		}
		defer sessions[0].Close()
		e := semaphore.NewExpirable(sessions[0], name, &semaphore.ExpirableOptions{FixedLease: fixed})
		holds, err := e.AcquireN(context.Background(), n)
		if err != nil {
			return err
		}
		var ids []string
		for _, h := range holds {
			ids = append(ids, h.ID())
		}
		worker.Say("%s", strings.Join(ids, " "))
		ctx := holds[0].Context(context.Background())
		select {
		case <-worker.Stopped():
		case <-ctx.Done():
			worker.Say("%v", context.Cause(ctx))
			<-worker.Stopped()
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newJavaHoarder(t *testing.T, f *fleet, name string, n int, lease time.Duration) hoarder {
	t.Helper()
	jvm := interop.Start(t)
	thread := jvm.Connect(t, f.config()).Thread(t, "hoarder")
	e := &javaExpirable{javaUser: javaUser{thread, thread.Object(interop.Expirable, name)}}
	return hoarder{process: jvm, ids: e.acquire(t, n, lease)}
}

// The permits of a process that is killed come to the other side when their leases are over, and not before. Those of
// Go are renewed until then.
func TestExpirableKilledHolderFreesTheOtherSide(t *testing.T) {
	t.Parallel()
	requireFreedByPermitLease(t, alone(t))
}

func requireFreedByPermitLease(t *testing.T, s *site) {
	t.Helper()
	for _, killed := range languages {
		for _, fixed := range []bool{false, true} {
			lease, what := shortLease, "renewed"
			if fixed {
				what = "fixed"
			} else if killed.name == java.name {
				continue // it renews none
			}
			t.Run(killed.name+" is killed, lease "+what, func(t *testing.T) {
				f := s.fleet(fleetOptions{lease: shortLease})
				f.proves(t, crash, expirableRow, killed)
				name := unique("p")
				w := killed.other().expirable(t, f, name)
				require.True(t, w.trySet(t, 2))
				var h hoarder
				if killed.name == java.name {
					h = newJavaHoarder(t, f, name, 2, lease)
				} else if fixed {
					h = newGoHoarder(t, f, name, 2, lease)
				} else {
					h = newGoHoarder(t, f, name, 2, 0)
				}
				require.Len(t, h.ids, 2)
				a := w.start(2)
				if !fixed {
					time.Sleep(lease + lease/3)
				}
				requireWaiting(t, a)
				h.Kill()
				var over int64
				for _, score := range f.scores(t, name) {
					over = max(over, score)
				}
				end := time.UnixMilli(over)
				require.WithinRange(t, end, time.Now(), time.Now().Add(lease))
				a.await(t, time.Until(end)+promptly)
				require.GreaterOrEqual(t, a.granted.UnixMilli(), over, "granted before the leases had ended")
				requirePermits(t, 0, 2, "granted", w)
				requireNotTaken(t, h.ids[0], w)
			})
		}
	}
}

// A process that was frozen for longer than its leases last finds that its permits are Java's now, and is told at once.
func TestExpirableFrozenHolderHasLostThem(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	j := java.expirable(t, f, "s")
	require.True(t, j.trySet(t, 2))
	h := newGoHoarder(t, f, "s", 2, 0)
	a := f.waitForPermits(t, "s", j, 2)
	h.Pause()
	a.await(t, shortLease+promptly)
	select {
	case said := <-h.says:
		t.Fatal("a frozen process has said ", said)
	default:
	}
	h.Resume()
	select {
	case said := <-h.says:
		require.Contains(t, said, "lost")
	case <-time.After(promptly):
		t.Fatal("nobody has told the holder")
	}
	time.Sleep(shortLease) // in which it would renew them
	require.ElementsMatch(t, j.granted(), slices.Collect(maps.Keys(f.scores(t, "s"))))
	requirePermits(t, 0, 2, "Java's", j)
}

// What a process has taken for ever outlives it, until somebody on the other side gives it back by its id.
func TestExpirableForeverOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	for _, killed := range languages {
		t.Run(killed.name+" is killed", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{})
			w := killed.other().expirable(t, f, "s")
			require.True(t, w.trySet(t, 2))
			hoard := newGoHoarder
			if killed.name == java.name {
				hoard = newJavaHoarder
			}
			h := hoard(t, f, "s", 2, semaphore.Forever)
			h.Kill()
			require.Empty(t, w.tryAcquire(t, 1, 0, time.Second))
			for _, id := range h.ids {
				require.Equal(t, semaphore.Forever, w.remaining(t, id))
			}
			requirePermits(t, 0, 2, "killed", w)
			a := f.waitForPermits(t, "s", w, 1)
			other := killed.other().expirable(t, f, "s")
			other.release(t, h.ids[0])
			a.await(t, promptly)
			other.release(t, h.ids[1])
			requirePermits(t, 1, 1, "given back", w, other)
		})
	}
}

// A hold of Go that is detached comes to Java when its lease is over, as nobody renews it any more.
func TestExpirableDetachedHoldFreesJava(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	g, j := golang.expirable(t, f, "s").(*goExpirable), java.expirable(t, f, "s")
	require.True(t, j.trySet(t, 1))
	permit := g.acquire(t, 1, 0)[0]
	a := f.waitForPermits(t, "s", j, 1)
	require.NoError(t, g.holds[permit].Detach())
	over := f.scores(t, "s")[permit]
	a.await(t, shortLease+promptly)
	require.GreaterOrEqual(t, a.granted.UnixMilli(), over)
	require.LessOrEqual(t, over, time.Now().UnixMilli())
	requireNotTaken(t, permit, g, j)
	requirePermits(t, 0, 1, "granted", g, j)
}

// The watchdog of Go keeps a permit for as long as its hold lives, here for three leases, though Java does all that has
// permits come back whose leases are over.
func TestExpirableWatchdogKeepsJavaOut(t *testing.T) {
	t.Parallel()
	requirePermitWatchdog(t, alone(t))
}

func requirePermitWatchdog(t *testing.T, s *site) {
	t.Helper()
	f := s.fleet(fleetOptions{lease: shortLease})
	f.proves(t, watchdog, expirableRow, golang)
	name := unique("p")
	g, j := golang.expirable(t, f, name).(*goExpirable), java.expirable(t, f, name)
	waits := java.expirable(t, f, name)
	require.True(t, j.trySet(t, 2))
	ids := g.acquire(t, 2, 0)
	brief := golang.expirable(t, f, unique("brief")) // beside it, one that is not renewed
	require.True(t, brief.trySet(t, 1))
	brief.acquire(t, 1, shortLease)
	a := waits.start(1)
	tries := 0
	for began := time.Now(); time.Since(began) < 3*shortLease; tries++ {
		require.Empty(t, j.tryAcquire(t, 1, time.Minute, 20*time.Millisecond))
		requirePermits(t, 0, 2, "renewed", j)
		for _, id := range ids {
			require.Positive(t, j.remaining(t, id))
			require.NoError(t, g.holds[id].Err())
		}
	}
	t.Log(tries, "tries")
	requireWaiting(t, a)
	require.Equal(t, 1, brief.free(t), "not renewed")
	g.give(t, ids...)
	a.await(t, promptly)
	require.Len(t, j.tryAcquire(t, 1, time.Minute, 0), 1)
	requirePermits(t, 0, 2, "Java's", g, j)
}

// A holder in Go learns with the next renewal that Java has taken its permit away, and gives back nothing then that
// others have.
func TestExpirableHoldIsLostToJava(t *testing.T) {
	const lease = 6 * time.Second
	ways := map[string]func(t *testing.T, j expirable, permit string){
		"release":    func(t *testing.T, j expirable, permit string) { j.release(t, permit) },
		"tryRelease": func(t *testing.T, j expirable, permit string) { require.True(t, j.tryRelease(t, permit)) },
		"release of a list": func(t *testing.T, j expirable, permit string) {
			j.(*javaExpirable).object.Do(t, "release", []string{permit})
		},
		"a lease that ends": func(t *testing.T, j expirable, permit string) {
			require.True(t, j.updateLease(t, permit, briefLease))
		},
		"delete": func(t *testing.T, j expirable, _ string) {
			require.True(t, j.remove(t))
			require.True(t, j.trySet(t, 1))
		},
	}
	t.Parallel()
	for name, take := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: lease})
			g, j := golang.expirable(t, f, "s").(*goExpirable), java.expirable(t, f, "s")
			require.True(t, g.trySet(t, 1))
			hold := g.holds[g.acquire(t, 1, 0)[0]]
			ctx := hold.Context(t.Context())
			taken := time.Now()
			take(t, j, hold.ID())
			j.acquire(t, 1, time.Hour)
			require.NoError(t, hold.Err(), "nobody has told it")
			select {
			case <-ctx.Done():
			case <-time.After(2 * lease / 3): // far less than its trust lasts
				t.Fatal("no renewal has told the holder")
			}
			t.Log("lost after", time.Since(taken))
			require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
			require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
			require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
			requireNotTaken(t, hold.ID(), g, j)
			requirePermits(t, 0, 1, "Java's", g, j)
		})
	}
}

// A hold with a fixed lease asks nobody: its holder learns when it gives it back that Java has done so before.
func TestExpirableFixedHoldIsLostToJava(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	for name, lease := range map[string]time.Duration{"fixed": time.Minute, "for ever": semaphore.Forever} {
		g, j := golang.expirable(t, f, name).(*goExpirable), java.expirable(t, f, name)
		require.True(t, g.trySet(t, 1))
		hold := g.holds[g.acquire(t, 1, lease)[0]]
		j.release(t, hold.ID())
		j.acquire(t, 1, 0)
		require.NoError(t, hold.Err())
		require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
		requirePermits(t, 0, 1, name, g, j)
	}
}

// A longer lease that Java gives to a hold of Go does it no harm: it is renewed, and released.
func TestExpirableLongerLeaseOfJavaStays(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"long": time.Hour, "for ever": semaphore.Forever} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: shortLease})
			g, j := golang.expirable(t, f, "s"), java.expirable(t, f, "s")
			require.True(t, g.trySet(t, 1))
			permit := g.acquire(t, 1, 0)[0]
			require.True(t, j.updateLease(t, permit, lease))
			scores := f.scores(t, "s")
			time.Sleep(shortLease + shortLease/3)
			require.Equal(t, scores, f.scores(t, "s"))
			g.give(t, permit) // which wants it to be held still
			requirePermits(t, 1, 0, "given back", g, j)
		})
	}
}

// An expiry of the semaphore is one of the permits that are taken as well, and stays whatever Go does. Redisson's own
// addPermits ends it.
func TestExpirableExpiry(t *testing.T) {
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

// A semaphore that has expired is gone for both sides, with the permits that were taken, and can be made anew.
func TestExpirableExpires(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	for _, l := range languages {
		a, b := l.expirable(t, f, l.name), l.other().expirable(t, f, l.name)
		require.True(t, a.trySet(t, 2))
		permit := a.acquire(t, 1, time.Hour)[0]
		j := java.expirable(t, f, l.name).(*javaExpirable)
		require.True(t, j.object.Do(t, "expire", 100*time.Millisecond).Bool())
		await(t, "the semaphore is gone", func() bool {
			return f.server().Int(t, "EXISTS", l.name, permitsKey(l.name)) == 0
		})
		requirePermits(t, 0, 0, "gone", a, b)
		requireNotTaken(t, permit, a, b)
		require.Empty(t, b.tryAcquire(t, 1, 0, 0))
		require.True(t, b.trySet(t, 1))
		require.Len(t, a.tryAcquire(t, 1, 0, 0), 1)
	}
}

// requireSharedExpirable wants a semaphore of permits with leases to be one to both sides, stored under the mapped name.
func requireSharedExpirable(t *testing.T, f *fleet, first language, name string) {
	t.Helper()
	mapped := f.mapped(name)[0]
	a, b := first.expirable(t, f, name), first.other().expirable(t, f, name)
	require.True(t, a.trySet(t, 1))
	permit := b.acquire(t, 1, time.Hour)[0]
	require.Equal(t, map[string]redistest.Value{
		mapped:             {Type: "string", Content: "0"},
		permitsKey(mapped): {Type: "zset", Content: []string{string(must(hex.DecodeString(permit))(t))}},
	}, f.state(t, mapped))
	w := f.waitForPermits(t, mapped, a, 1)
	f.requireSharding(t, prefixed("redisson_sc", mapped))
	b.release(t, permit)
	w.await(t, promptly)
	w = f.waitForPermits(t, mapped, b, 1)
	a.give(t, a.granted()...)
	w.await(t, promptly)
	require.True(t, a.remove(t))
	require.Empty(t, f.state(t, mapped))
}
