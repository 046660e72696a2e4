package interop_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// sorts are the sorts of semaphore.
var sorts = []kind{semaphores, expirables}

// What one side has taken, the other cannot take as well, until it is given back, by whomever.
func TestPermitsExclusion(t *testing.T) {
	t.Parallel()
	requirePermitsExclusion(t, alone(t))
}

func requirePermitsExclusion(t *testing.T, s *site) {
	t.Helper()
	for _, c := range cells(sorts...) {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleet(fleetOptions{})
			f.proves(t, exclusion, c.kind.name, c.first)
			name := unique("p")
			a, b := c.first.permits(t, f, c.kind, name), c.second.permits(t, f, c.kind, name)
			require.True(t, a.trySet(t, 3))
			two, one := a.acquire(t, 2, 0), b.acquire(t, 1, 0)
			for _, p := range []permits{a, b} {
				require.Empty(t, p.tryAcquire(t, 1, 0, 0))
				require.Empty(t, p.tryAcquire(t, 1, time.Minute, 20*time.Millisecond))
				require.Empty(t, p.tryAcquire(t, 2, 0, 20*time.Millisecond))
			}
			a.give(t, two[0])
			require.Empty(t, b.tryAcquire(t, 2, 0, 20*time.Millisecond))
			// It may take a while until the last call, which wanted more, has left the line.
			other := b.tryAcquire(t, 1, time.Minute, 10*time.Second)
			require.Len(t, other, 1)
			require.Empty(t, a.tryAcquire(t, 1, 0, 0))
			b.give(t, append(one, other...)...)
			b.release(t, two[1]) // one of a's
			requirePermits(t, 3, 0, "all back", a, b)
		})
	}
}

// gift is what brings permits to who waits for two.
type gift struct {
	name   string
	before int // permits, free and taken; -1: there is no semaphore
	taken  int
	give   func(t *testing.T, p permits, ids []string)
}

// arrange makes the semaphore as it is before, and returns the permits that are taken.
func (g gift) arrange(t *testing.T, p permits) (ids []string) {
	t.Helper()
	if g.before >= 0 {
		require.True(t, p.trySet(t, g.before))
	}
	if g.taken > 0 {
		ids = p.acquire(t, g.taken, time.Hour)
	}
	return ids
}

var semaphoreGifts = []gift{
	{"release", 2, 2, func(t *testing.T, p permits, ids []string) { p.release(t, ids...) }},
	{"release to one", 2, 1, func(t *testing.T, p permits, ids []string) { p.release(t, ids...) }},
	{"release of what is gone", -1, 0, func(t *testing.T, p permits, _ []string) { p.release(t, plainPermits(2)...) }},
	{
		"releaseIfExists", 0, 0,
		func(t *testing.T, p permits, _ []string) { require.True(t, p.(pool).releaseIfExists(t, 2)) },
	},
	{"addPermits", 0, 0, func(t *testing.T, p permits, _ []string) { p.add(t, 2) }},
	{"trySetPermits", -1, 0, func(t *testing.T, p permits, _ []string) { require.True(t, p.trySet(t, 2)) }},
	{"trySetPermits with a TTL", -1, 0, func(t *testing.T, p permits, _ []string) {
		require.True(t, p.(pool).trySetFor(t, 2, time.Minute))
	}},
}

var expirableGifts = []gift{
	{"release", 2, 2, func(t *testing.T, p permits, ids []string) { p.give(t, ids...) }},
	{"release of several by id", 2, 2, func(t *testing.T, p permits, ids []string) { p.release(t, ids...) }},
	{"release of one by id", 2, 1, func(t *testing.T, p permits, ids []string) { p.release(t, ids...) }},
	{
		"tryRelease", 2, 1,
		func(t *testing.T, p permits, ids []string) { require.True(t, p.(expirable).tryRelease(t, ids...)) },
	},
	{"addPermits", 0, 0, func(t *testing.T, p permits, _ []string) { p.add(t, 2) }},
	{"addPermits to one", 1, 0, func(t *testing.T, p permits, _ []string) { p.add(t, 1) }},
	{"addPermits to what is gone", -1, 0, func(t *testing.T, p permits, _ []string) { p.add(t, 2) }},
	{"setPermits", 1, 1, func(t *testing.T, p permits, _ []string) { p.(expirable).set(t, 3) }},
	{"setPermits of what is gone", -1, 0, func(t *testing.T, p permits, _ []string) { p.(expirable).set(t, 2) }},
	{"trySetPermits", -1, 0, func(t *testing.T, p permits, _ []string) { require.True(t, p.trySet(t, 2)) }},
	{"a count of what has run out", 2, 1, func(t *testing.T, p permits, ids []string) {
		if e, ok := p.(*goExpirable); ok {
			require.NoError(t, e.holds[ids[0]].Detach()) // whose end it would be told
		}
		e := p.(expirable)
		require.True(t, e.updateLease(t, ids[0], 10*time.Millisecond)) // of whose end nobody is told
		time.Sleep(15 * time.Millisecond)
		e.taken(t)
	}},
}

// Permits of one side wake the other by their message, however they come about.
func TestSemaphoreGiftsWakeTheOtherSide(t *testing.T) {
	requireGiftsWake(t, alone(t), semaphores, semaphoreGifts...)
}

func TestExpirableGiftsWakeTheOtherSide(t *testing.T) {
	requireGiftsWake(t, alone(t), expirables, expirableGifts...)
}

func requireGiftsWake(t *testing.T, s *site, sort kind, gifts ...gift) {
	t.Helper()
	for _, gift := range gifts {
		for _, giver := range languages {
			t.Run(sort.name+", "+gift.name+" by "+giver.name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				f.proves(t, wakeUp, sort.name, giver)
				requireAtOnce(t, func(name string) time.Duration {
					g, w := giver.permits(t, f, sort, name), giver.other().permits(t, f, sort, name)
					ids := gift.arrange(t, g)
					a := f.waitFor(t, name, w, 2)
					took := timed(t, func() { gift.give(t, g, ids) }, a)
					require.Len(t, w.granted(), 2)
					require.Zero(t, g.free(t))
					return took
				})
			})
		}
	}
}

// Messages of too few permits, or of fewer than none, which Redisson's listener chokes on, do not harm who waits.
func TestSmallGiftsLeaveTheOtherSideWaiting(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sort   kind
		taken  int // all there are
		small  func(t *testing.T, p permits, ids []string)
		enough func(t *testing.T, p permits, ids []string)
		free   int // in between
		left   int
		said   []string
	}{
		{
			semaphores, 0,
			func(t *testing.T, p permits, _ []string) {
				p.add(t, -2)
				p.release(t, plainPermits(2)...)
				p.release(t, plainPermits(1)...)
				p.add(t, 0)
			},
			func(t *testing.T, p permits, _ []string) { p.release(t, plainPermits(2)...) },
			1, 1,
			[]string{"0", "-2", "0", "1", "1", "3"},
		},
		{
			expirables, 5,
			func(t *testing.T, p permits, ids []string) {
				p.(expirable).set(t, 3)
				p.release(t, ids[0])
				p.release(t, ids[1])
				p.release(t, ids[2])
				p.add(t, -1)
			},
			func(t *testing.T, p permits, ids []string) { p.release(t, ids[3], ids[4]) },
			0, 0,
			[]string{"5", "3", "-1", "0", "1", "2"},
		},
	} {
		for _, giver := range languages {
			t.Run(row.sort.name+" of "+giver.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				messages := f.server().Messages(t, "*")
				g, w := giver.permits(t, f, row.sort, "s"), giver.other().permits(t, f, row.sort, "s")
				ids := gift{before: row.taken, taken: row.taken}.arrange(t, g)
				a := f.waitFor(t, "s", w, 2)
				row.small(t, g, ids)
				requireWaiting(t, a)
				require.Equal(t, row.free, g.free(t))
				row.enough(t, g, ids)
				a.await(t, promptly)
				requirePermits(t, row.left, 2, "granted", g, w)

				var said []string
				for _, m := range messages.Drain(t) {
					said = append(said, m.Payload)
				}
				require.Equal(t, row.said, said)
			})
		}
	}
}

// The message of several permits that are given back, and of those added, says how many these are, and not how many are
// free: it wakes also who waits for more.
func TestExpirableMessageOfFewerThanAreFree(t *testing.T) {
	t.Parallel()
	for _, gift := range []gift{
		{"release", 5, 2, func(t *testing.T, p permits, ids []string) { p.release(t, ids...) }},
		{"addPermits", 5, 2, func(t *testing.T, p permits, _ []string) { p.add(t, 2) }},
	} {
		for _, giver := range languages {
			t.Run(gift.name+" by "+giver.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				messages := f.server().Messages(t, "*")
				g, w := giver.expirable(t, f, "s"), giver.other().expirable(t, f, "s")
				ids := gift.arrange(t, g)
				a := f.waitFor(t, "s", w, 5)
				messages.Drain(t)
				gift.give(t, g, ids)
				a.await(t, promptly)
				require.Equal(t, []redistest.Message{{Channel: "redisson_sc:{s}", Payload: "2"}}, messages.Drain(t))
			})
		}
	}
}

// One message wakes as many of both sides as there are permits for, and who has none is woken by the next.
func TestPermitsForAll(t *testing.T) {
	t.Parallel()
	gifts := map[string]gift{
		semaphoreRow: {"addPermits", -1, 0, func(t *testing.T, p permits, _ []string) { p.add(t, crowdWaiters) }},
		expirableRow: {
			"release", crowdWaiters, crowdWaiters, func(t *testing.T, p permits, ids []string) { p.release(t, ids...) },
		},
	}
	for _, c := range cells(sorts...) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			g, gift := c.first.permits(t, f, c.kind, "s"), gifts[c.kind.name]
			ids := gift.arrange(t, g)
			var waits []*attempt
			// Three of each side wait. Of those of Go only the first is seen to listen: it does so for all of its
			// session.
			for i := range crowdWaiters / len(languages) {
				for _, l := range languages {
					w := l.permits(t, f, c.kind, "s")
					if i == 0 || l.name == java.name {
						waits = append(waits, f.waitFor(t, "s", w, 1))
					} else {
						waits = append(waits, w.start(1))
					}
				}
			}
			gift.give(t, g, ids)
			for _, a := range waits {
				a.await(t, promptly)
			}
			requirePermits(t, 0, crowdWaiters, "granted", g)
		})
	}
}

// A semaphore that has expired is gone for both sides, with the permits that were taken, and can be made anew.
func TestPermitsExpire(t *testing.T) {
	t.Parallel()
	const brief = 100 * time.Millisecond
	f := newFleet(t, fleetOptions{})
	for _, c := range cells(sorts...) {
		a, b := c.first.permits(t, f, c.kind, c.name), c.second.permits(t, f, c.kind, c.name)
		var permit string
		if p, ok := a.(pool); ok {
			require.True(t, p.trySetFor(t, 5, brief))
		} else {
			require.True(t, a.trySet(t, 2))
			permit = a.acquire(t, 1, time.Hour)[0]
			require.True(t, java.expirable(t, f, c.name).(*javaExpirable).object.Do(t, "expire", brief).Bool())
		}
		kit.Await(t, "the semaphore is gone", func() bool {
			return f.server().Int(t, "EXISTS", c.name, permitsKey(c.name)) == 0
		})
		requirePermits(t, 0, 0, "gone", a, b)
		if permit != "" {
			requireNotTaken(t, permit, a.(expirable), b.(expirable))
		}
		require.Empty(t, b.tryAcquire(t, 1, 0, 0))
		require.True(t, b.trySet(t, 1))
		require.Len(t, a.tryAcquire(t, 1, 0, 0), 1)
	}
}

// requireSharedPermits wants a semaphore to be one to both sides, stored under the mapped name.
func requireSharedPermits(t *testing.T, f *fleet, c cell, name string) {
	t.Helper()
	mapped := f.mapped(name)[0]
	a, b := c.first.permits(t, f, c.kind, name), c.second.permits(t, f, c.kind, name)
	require.True(t, a.trySet(t, 1))
	permit := b.acquire(t, 1, time.Hour)[0]
	want := map[string]redistest.Value{mapped: {Type: "string", Content: "0"}}
	if permit != "" {
		want[permitsKey(mapped)] = redistest.Value{Type: "zset", Content: []string{string(must(hex.DecodeString(permit))(t))}}
	}
	require.Equal(t, want, f.state(t, mapped))
	w := f.waitFor(t, mapped, a, 1)
	f.requireSharding(t, prefixed("redisson_sc", mapped))
	b.release(t, permit)
	w.await(t, promptly)
	w = f.waitFor(t, mapped, b, 1)
	a.give(t, a.granted()...)
	w.await(t, promptly)
	require.True(t, a.remove(t))
	require.Empty(t, f.state(t, mapped))
}
