package interop_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The states that a semaphore goes through in Redis are those of Redisson, byte for byte, and so are the messages,
// whichever languages use it; both count alike in every one of them.
func TestSemaphoreGoldenStates(t *testing.T) { requireSemaphoreStates(t, alone(t)) }

func requireSemaphoreStates(t *testing.T, s *site) {
	t.Helper()
	for _, first := range languages {
		for _, second := range languages {
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, readings, semaphoreRow, first)
				f.proves(t, inspection, semaphoreRow, first)
				name := unique("s")
				channel := prefixed("redisson_sc", name)
				messages := f.messages(t, channel)
				a, b := first.pool(t, f, name), second.pool(t, f, name)
				const gone = "gone"
				for _, step := range []struct {
					what string
					do   func() bool // what is asked; whether that is so
					free string
					said string
				}{
					{"set", func() bool { return a.trySet(t, 5) }, "5", "5"},
					{"set again", func() bool { return !b.trySet(t, 7) }, "5", ""},
					{"acquire", func() bool { a.acquire(t, 2); return true }, "3", ""},
					{"release", func() bool { b.release(t, 1); return true }, "4", "4"},
					{"try for too many", func() bool { return !b.tryAcquire(t, 5, 0) }, "4", ""},
					{"try", func() bool { return b.tryAcquire(t, 4, 0) }, "0", ""},
					{"add", func() bool { a.add(t, 3); return true }, "3", "3"},
					{"make smaller", func() bool { b.add(t, -5); return true }, "-2", "-2"},
					{"try what is missing", func() bool { return !a.tryAcquire(t, 1, 0) }, "-2", ""},
					{"release what was missing", func() bool { a.release(t, 2); return true }, "0", "0"},
					{"add to nothing", func() bool { b.add(t, 4); return true }, "4", "4"},
					{"drain", func() bool { return a.drain(t) == 4 }, "0", ""},
					{"drain nothing", func() bool { return b.drain(t) == 0 }, "0", ""},
					{"make smaller than nothing", func() bool { a.add(t, -2); return true }, "-2", "-2"},
					{"drain what is missing", func() bool { return b.drain(t) == -2 }, "0", ""},
					{"release, if it exists", func() bool { return a.releaseIfExists(t, 2) }, "2", "2"},
					{"delete", func() bool { return b.remove(t) }, gone, ""},
					{"delete again", func() bool { return !a.remove(t) }, gone, ""},
					{"release, if it existed", func() bool { return !b.releaseIfExists(t, 1) }, gone, ""},
					{"try what is gone", func() bool { return !a.tryAcquire(t, 1, 0) }, gone, ""},
					{"drain what is gone", func() bool { return b.drain(t) == 0 }, gone, ""},
					{"add to what is gone", func() bool { a.add(t, 1); return true }, "1", "1"},
					{"delete what was added", func() bool { return a.remove(t) }, gone, ""},
					{"release what is gone", func() bool { b.release(t, 2); return true }, "2", "2"},
					{"delete what was released", func() bool { return b.remove(t) }, gone, ""},
					{"set to nothing", func() bool { return a.trySet(t, 0) }, "0", "0"},
					{"set what has nothing", func() bool { return !b.trySet(t, 1) }, "0", ""},
				} {
					require.True(t, step.do(), step.what)
					want := map[string]redistest.Value{}
					if step.free != gone {
						want[name] = redistest.Value{Type: "string", Content: step.free}
					}
					require.Equal(t, want, f.state(t, name), step.what)
					var said []redistest.Message
					if step.said != "" {
						said = []redistest.Message{{Channel: channel, Payload: step.said}}
					}
					require.ElementsMatch(t, said, messages.Drain(t), step.what)
					free, _ := strconv.Atoi(step.free)
					require.Equal(t, free, a.available(t), step.what)
					require.Equal(t, free, b.available(t), step.what)
				}
			})
		}
	}
}

// What one side has taken, the other cannot take as well, and may give back.
func TestSemaphoreExclusion(t *testing.T) { requireSemaphoreExclusion(t, alone(t)) }

func requireSemaphoreExclusion(t *testing.T, s *site) {
	t.Helper()
	for _, first := range languages {
		t.Run(first.name+" first", func(t *testing.T) {
			f := s.fleet(fleetOptions{})
			f.proves(t, exclusion, semaphoreRow, first)
			name := unique("s")
			a, b := first.pool(t, f, name), first.other().pool(t, f, name)
			require.True(t, a.trySet(t, 3))
			a.acquire(t, 2)
			b.acquire(t, 1)
			for _, p := range []pool{a, b} {
				require.False(t, p.tryAcquire(t, 1, 0))
				require.False(t, p.tryAcquire(t, 1, 20*time.Millisecond))
			}
			b.release(t, 1) // one of a's
			require.False(t, b.tryAcquire(t, 2, 20*time.Millisecond))
			require.Equal(t, 1, a.available(t))
			require.True(t, b.tryAcquire(t, 1, 20*time.Millisecond))
			a.release(t, 3)
			require.Equal(t, 3, b.available(t))
		})
	}
}

// Of a crowd of both sides there are never more inside than permits, and all permits are back in the end.
func TestSemaphoreCrowd(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	require.True(t, golang.pool(t, f, "s").trySet(t, crowdPermits))
	requireCrowd(t, f, func(l language, _, n int) func(round int, stay func()) {
		p := l.pool(t, f, "s")
		return func(_ int, stay func()) {
			p.acquire(t, n)
			stay()
			p.release(t, n)
		}
	}, func() {}, func() int { return golang.pool(t, f, "s").available(t) })
	for _, l := range languages {
		require.Equal(t, crowdPermits, l.pool(t, f, "s").available(t))
	}
}

// gift is what brings permits to who waits for two.
type gift struct {
	name   string
	before int // permits; -1: there is no semaphore
	give   func(t *testing.T, p pool)
}

var gifts = []gift{
	{"release", 0, func(t *testing.T, p pool) { p.release(t, 2) }},
	{"release to one", 1, func(t *testing.T, p pool) { p.release(t, 1) }},
	{"release of what is gone", -1, func(t *testing.T, p pool) { p.release(t, 2) }},
	{"releaseIfExists", 0, func(t *testing.T, p pool) { require.True(t, p.releaseIfExists(t, 2)) }},
	{"addPermits", 0, func(t *testing.T, p pool) { p.add(t, 2) }},
	{"trySetPermits", -1, func(t *testing.T, p pool) { require.True(t, p.trySet(t, 2)) }},
	{"trySetPermits with a TTL", -1, func(t *testing.T, p pool) { require.True(t, p.trySetFor(t, 2, time.Minute)) }},
}

// Permits of one side wake the other by their message, however they come about.
func TestSemaphoreGiftsWakeTheOtherSide(t *testing.T) { requireGiftsWake(t, alone(t), gifts...) }

func requireGiftsWake(t *testing.T, s *site, gifts ...gift) {
	t.Helper()
	for _, gift := range gifts {
		for _, giver := range languages {
			t.Run(gift.name+" by "+giver.name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, wakeUp, semaphoreRow, giver)
				requireAtOnce(t, func(name string) time.Duration {
					g, w := giver.pool(t, f, name), giver.other().pool(t, f, name)
					if gift.before >= 0 {
						require.True(t, g.trySet(t, gift.before))
					}
					a := f.waitFor(t, name, w, 2)
					given := time.Now()
					gift.give(t, g)
					a.await(t, promptly)
					require.Zero(t, g.available(t))
					return a.granted.Sub(given)
				})
			})
		}
	}
}

// Messages of too few permits, or of fewer than none, which Redisson's listener chokes on, do not harm who waits.
func TestSemaphoreSmallGiftsLeaveTheOtherSideWaiting(t *testing.T) {
	for _, giver := range languages {
		t.Run(giver.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			messages := f.server().Messages(t, "*")
			g, w := giver.pool(t, f, "s"), giver.other().pool(t, f, "s")
			require.True(t, g.trySet(t, 0))
			a := f.waitFor(t, "s", w, 2)
			g.add(t, -2)
			g.release(t, 2)
			g.release(t, 1)
			g.add(t, 0)
			requireWaiting(t, a)
			require.Equal(t, 1, g.available(t))
			g.release(t, 2)
			a.await(t, promptly)
			require.Equal(t, 1, w.available(t))

			var said []string
			for _, m := range messages.Drain(t) {
				said = append(said, m.Payload)
			}
			require.Equal(t, []string{"0", "-2", "0", "1", "1", "3"}, said)
		})
	}
}

// One message wakes as many of both sides as there are permits for, and who has none is woken by the next.
func TestSemaphoreGiftForAll(t *testing.T) {
	for _, giver := range languages {
		t.Run(giver.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			g := giver.pool(t, f, "s")
			waits := crowdWaits(func(l language, seen bool) *attempt {
				p := l.pool(t, f, "s")
				if seen {
					return f.waitFor(t, "s", p, 1)
				}
				return p.start(1)
			})
			g.add(t, len(waits))
			for _, a := range waits {
				a.await(t, promptly)
			}
			require.Zero(t, g.available(t))
		})
	}
}

// An expiry of either side stays whatever Go does. Redisson's own addPermits and drainPermits end it.
func TestSemaphoreExpiry(t *testing.T) {
	const ttl = 30 * time.Second
	setters := map[string]func(t *testing.T, f *fleet){
		"trySetPermits of go":   func(t *testing.T, f *fleet) { require.True(t, golang.pool(t, f, "s").trySetFor(t, 5, ttl)) },
		"trySetPermits of java": func(t *testing.T, f *fleet) { require.True(t, java.pool(t, f, "s").trySetFor(t, 5, ttl)) },
		"expire of java": func(t *testing.T, f *fleet) {
			p := newJavaPool(t, f, "s").(*javaPool)
			require.True(t, p.trySet(t, 5))
			require.True(t, p.object.Do(t, "expire", ttl).Bool())
		},
	}
	for name, set := range setters {
		for _, l := range languages {
			t.Run(name+", used by "+l.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				p, other := l.pool(t, f, "s"), l.other().pool(t, f, "s")
				set(t, f)
				requireExpiry := func(free string) {
					t.Helper()
					want := map[string]redistest.Value{"s": {Type: "string", Content: free, Expires: true}}
					require.Equal(t, want, state(t, f.server()))
					requireTTL(t, f, "s", ttl)
				}
				requireExpiry("5")
				p.acquire(t, 2)
				requireExpiry("3")
				p.release(t, 1)
				requireExpiry("4")
				require.True(t, p.releaseIfExists(t, 1))
				requireExpiry("5")
				other.acquire(t, 1)
				requireExpiry("4")
				if l.name == golang.name {
					p.add(t, 2)
					requireExpiry("6")
					p.add(t, -7)
					requireExpiry("-1")
					p.add(t, 3)
					requireExpiry("2")
					require.Equal(t, 2, p.drain(t))
					requireExpiry("0")
					p.release(t, 1)
					requireExpiry("1")
					return
				}
				p.add(t, 2)
				require.Empty(t, f.server().TTLs(t))
				require.True(t, other.remove(t))
				set(t, f)
				require.Equal(t, 5, p.drain(t))
				require.Empty(t, f.server().TTLs(t))
			})
		}
	}
}

// A semaphore that has expired is gone for both sides, and can be made anew.
func TestSemaphoreExpires(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	for _, l := range languages {
		a, b := l.pool(t, f, l.name), l.other().pool(t, f, l.name)
		require.True(t, a.trySetFor(t, 5, 100*time.Millisecond))
		await(t, "the semaphore is gone", func() bool { return f.server().Int(t, "EXISTS", l.name) == 0 })
		require.Zero(t, b.available(t))
		require.False(t, b.tryAcquire(t, 1, 0))
		require.True(t, b.trySet(t, 1))
		require.True(t, a.tryAcquire(t, 1, 0))
	}
}

// requireSharedSemaphore wants a semaphore to be one to both sides, stored under the mapped name.
func requireSharedSemaphore(t *testing.T, f *fleet, first language, name string) {
	t.Helper()
	mapped := f.mapped(name)[0]
	a, b := first.pool(t, f, name), first.other().pool(t, f, name)
	require.True(t, a.trySet(t, 1))
	require.Equal(t, map[string]redistest.Value{mapped: {Type: "string", Content: "1"}}, f.state(t, mapped))
	b.acquire(t, 1)
	w := f.waitFor(t, mapped, a, 1)
	f.requireSharding(t, prefixed("redisson_sc", mapped))
	b.release(t, 1)
	w.await(t, promptly)
	w = f.waitFor(t, mapped, b, 1)
	a.release(t, 1)
	w.await(t, promptly)
	require.True(t, a.remove(t))
	require.Empty(t, f.state(t, mapped))
}

// requireSharding wants the one who listens on a channel of a cluster to do so by sharded subscription, if the servers
// have that: since Redis 7.0.
func (f *fleet) requireSharding(t *testing.T, channel string) {
	t.Helper()
	if f.cluster == nil {
		return
	}
	sharded, plain := f.listeners(t, channel)
	require.Equal(t, f.cluster.Sharded(), sharded == 1)
	require.Equal(t, f.cluster.Sharded(), plain == 0)
}
