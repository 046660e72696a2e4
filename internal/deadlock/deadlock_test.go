package deadlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waits is what an owner tells that has one thing and waits for another one's.
func waits(session string, count uint64, has, for_ string) Telling {
	return Telling{Session: session, Count: count, Waits: []Wait{{
		ID: 1, Kind: "rlock", Name: "name of " + for_, Since: int64(session[0]),
		For: []string{for_}, Holds: []string{has},
	}}}
}

// ring is n sessions each of which waits for the next one.
func ring(n int, count uint64) (all []Telling) {
	for i := range n {
		all = append(all, waits(string(rune('a'+i)), count, fmt.Sprint("w", i), fmt.Sprint("w", (i+1)%n)))
	}
	return all
}

func TestACycleIsCertainWhenAllHaveToldOfItAgain(t *testing.T) {
	for n := 1; n <= 5; n++ {
		var f Finder
		require.Empty(t, f.Look(ring(n, 3)))
		require.Equal(t, 1, f.Suspects())
		require.Empty(t, f.Look(ring(n, 7)), "though they have told of it again: some of that was told during the first look")
		late := ring(n, 9)
		late[0].Count = 8 // before it gave up, and before the last one began to wait
		require.Empty(t, f.Look(late))
		found := f.Look(ring(n, 9))
		require.Len(t, found, 1)
		require.Len(t, found[0], n)
		for i, l := range found[0] {
			next := found[0][(i+1)%n]
			assert.Equal(t, []string{l.At}, next.Holds)
			says := fmt.Sprintf("%s waits for rlock %q, which %s has", l.Holds[0], l.Name, l.At)
			assert.Contains(t, found[0].String(), says)
		}
		assert.Equal(t, string(rune('a'+n-1)), found[0].Youngest().Session)
		assert.Equal(t, int64('a'+n-1), found[0].Since())
	}
}

func TestWhatHasChangedMeanwhileIsNoCycle(t *testing.T) {
	for name, change := range map[string]func(told []Telling){
		"another wait":       func(told []Telling) { told[1].Waits[0].ID++ },
		"another holder":     func(told []Telling) { told[1].Waits[0].For[0] = "w9" },
		"it was given back":  func(told []Telling) { told[1].Waits[0].Holds = nil },
		"nobody waits there": func(told []Telling) { told[1].Waits = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var f Finder
			f.Look(ring(3, 1))
			f.Look(ring(3, 1))
			other := ring(3, 3)
			change(other)
			require.Empty(t, f.Look(other))
			require.Empty(t, f.Look(ring(3, 5)), "it is seen anew")
			require.Empty(t, f.Look(ring(3, 6)))
			require.Empty(t, f.Look(ring(3, 7)))
			require.Len(t, f.Look(ring(3, 8)), 1)
		})
	}
}

func TestReadersAndBystanders(t *testing.T) {
	told := func(count uint64) []Telling {
		all := ring(2, count)
		all[0].Waits[0].For = []string{"java:1", "w1"} // two readers have it, one of them is in the cycle
		all = append(all, waits("z", count, "w9", "w0"))
		return append(all, waits("y", count, "w8", "java:2"))
	}
	var f Finder
	f.Look(told(1))
	f.Look(told(1))
	found := f.Look(told(3))
	require.Len(t, found, 1, "who waits for a cycle is not in it")
	require.Len(t, found[0], 2)

	var none Finder
	line := ring(4, 1)[:3]
	none.Look(line)
	require.Zero(t, none.Suspects())
}

// A world is owners that take locks one after the other, in any order, and sessions that tell of it.
type world struct {
	random *rand.Rand
	owners []*member
	locks  map[int]*holding // by lock
	told   []Telling
	wires  int
	calls  uint64
}

type holding struct {
	by   *member
	wire string
}

// A member is an owner in a session of its own.
type member struct {
	session string
	has     []int // locks, in the order in which they were taken
	wants   int   // -1: nothing
	wait    uint64
	seen    []string // who had it, when that was asked last
	asked   bool
}

// act makes one owner do something: ask for a lock, get it, give up, or give one back. It reports whether the owner
// asks.
func (w *world) act(m *member, locks int, orderly bool) (asks bool) {
	switch {
	case m.wants >= 0 && w.locks[m.wants] == nil:
		w.wires++
		w.locks[m.wants] = &holding{m, fmt.Sprint("w", w.wires)}
		m.has = append(m.has, m.wants)
		m.wants = -1
	case m.wants >= 0:
		if w.random.IntN(20) == 0 { // its time is over
			m.wants = -1
		}
	case len(m.has) > 0 && w.random.IntN(3) == 0:
		i := w.random.IntN(len(m.has))
		delete(w.locks, m.has[i])
		m.has = slices.Delete(m.has, i, i+1)
	default:
		lock := w.random.IntN(locks)
		if h := w.locks[lock]; h != nil && h.by == m || orderly && len(m.has) > 0 && lock <= slices.Max(m.has) {
			return false
		}
		w.calls++
		m.wants, m.wait, m.asked = lock, w.calls, false
		return true
	}
	return false
}

// tell makes a session do one of its two steps: it asks who has what it waits for, or it tells.
func (w *world) tell(i int) {
	m := w.owners[i]
	if !m.asked {
		m.seen = nil
		if m.wants >= 0 && w.locks[m.wants] != nil {
			m.seen = []string{w.locks[m.wants].wire}
		}
		m.asked = true
		return
	}
	t := Telling{Session: m.session, Count: w.told[i].Count + 1}
	if m.wants >= 0 {
		wait := Wait{ID: m.wait, Kind: "rlock", Name: fmt.Sprint(m.wants), Since: int64(m.wait), For: m.seen}
		for _, lock := range m.has {
			wait.Holds = append(wait.Holds, w.locks[lock].wire)
		}
		t.Waits = []Wait{wait}
	}
	w.told[i], m.asked = t, false
}

// stuck reports whether a cycle is one: each of its owners waits for the next one.
func (w *world) stuck(c Cycle) bool {
	for i, l := range c {
		m := w.owners[slices.IndexFunc(w.owners, func(m *member) bool { return m.session == l.Session })]
		if m.wants < 0 || m.wait != l.ID || w.locks[m.wants] == nil ||
			w.locks[m.wants].by.session != c[(i+1)%len(c)].Session {
			return false
		}
	}
	return true
}

// Whatever owners do, and whenever sessions tell of it, a cycle that is certain was one at some moment since it was
// first looked for; and none is found where locks are taken in order.
func TestNoCycleIsNamedThatNeverWas(t *testing.T) {
	found, times := 0, 0
	for seed := range uint64(10_000) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &world{random: random, locks: map[int]*holding{}}
		orderly := seed%4 == 0
		for i := range 2 + random.IntN(4) {
			w.owners = append(w.owners, &member{session: string(rune('a' + i)), wants: -1})
			w.told = append(w.told, Telling{Session: string(rune('a' + i))})
		}
		locks := 2 + random.IntN(4)
		var f Finder
		since := map[string]bool{} // cycles that were one at some moment
		note := func() {
			var truth []Telling
			for i, m := range w.owners {
				truth = append(truth, w.told[i])
				truth[i].Waits = nil
				if m.wants < 0 || w.locks[m.wants] == nil {
					continue
				}
				wait := Wait{ID: m.wait, For: []string{w.locks[m.wants].wire}}
				for _, lock := range m.has {
					wait.Holds = append(wait.Holds, w.locks[lock].wire)
				}
				truth[i].Waits = []Wait{wait}
			}
			for _, c := range cycles(truth) {
				require.True(t, w.stuck(c))
				since[c.key()] = true
			}
		}
		snapshot := make([]Telling, len(w.told))
		for step := range 250 {
			switch random.IntN(3) {
			case 0, 1:
				m := w.owners[random.IntN(len(w.owners))]
				if w.act(m, locks, orderly) && len(m.has) > 0 { // nothing else makes a cycle: who gets a lock waits for none
					note()
				}
			default:
				w.tell(random.IntN(len(w.owners)))
			}
			// A look reads one session after the other.
			at := step % (3 * len(w.owners))
			if at < len(w.told) {
				snapshot[at] = w.told[at]
			}
			if at != len(w.told) {
				continue
			}
			for _, c := range f.Look(slices.Clone(snapshot)) {
				found++
				require.True(t, since[c.key()], "seed %d: %v", seed, c)
				require.False(t, orderly, "seed %d: %v", seed, c)
			}
		}
		if len(since) > 0 {
			times++
		}
	}
	t.Log(found, "sightings of cycles, which were in", times, "of 10,000 runs")
	require.Greater(t, found, 1000)
}
