package model_test

import (
	"fmt"
	"hash/maphash"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The searches took 30 % longer when they collected garbage as often as Go does.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// A violation is something that must never be seen.
type violation string

// fine means that there is no violation.
const fine violation = ""

// A search is everything that was reached from the start.
type search struct {
	states int
	traces map[violation]trace // the shortest one for each kind
}

// A trace is the sequence of steps that leads to a violation.
type trace []string

func (t trace) String() string { return strings.Join(t, "; ") }

// A model is a world with everything that may happen in it.
type model[W any, E fmt.Stringer] struct {
	start func() W
	moves func(from W, emit func(e E, next W, wrong violation)) // always in the same order
	tidy  func(W)                                               // drops what can no longer matter
	key   func(W) ([]byte, left)                                // equal for worlds that differ only in that
	check func(w W, report func(violation))
	drop  func(W) // nobody wants it any more
}

// dropped are worlds that nobody looks at any more. Copies overwrite them: a search makes several times as many worlds
// as it keeps, and with new memory for each it took three times as long.
type dropped[W any] []*W

func (d *dropped[W]) add(w *W) { *d = append(*d, w) }

// blank returns a world to be overwritten.
func (d *dropped[W]) blank() *W {
	last := len(*d) - 1
	if last < 0 {
		return new(W)
	}
	w := (*d)[last]
	*d = (*d)[:last]
	return w
}

// explore searches everything that can happen under a set of rules.
func explore(r rules, b bounds, until ...violation) search {
	var k keyer
	return model[*world, event]{
		start: func() *world { return start(r, b) },
		moves: func(from *world, emit func(event, *world, violation)) { from.moves(r, emit) },
		tidy:  func(w *world) { w.tidy(r) },
		key:   k.key,
		check: (*world).check,
		drop:  (*world).drop,
	}.explore(until...)
}

// explore searches all worlds, breadth first. It ends when it has seen every world, or every violation in until.
func (m model[W, E]) explore(until ...violation) search {
	type node struct {
		parent int32
		step   int32 // which of the parent's steps led here
	}
	nodes, level, next := []node{{parent: -1}}, []W{m.start()}, []W(nil) // the worlds of other levels are dropped
	known := newSeen()
	found := search{traces: map[violation]trace{}}
	retrace := func(at int, last int32) (t trace) {
		path := []int32{last}
		for ; nodes[at].parent >= 0; at = int(nodes[at].parent) {
			path = append(path, nodes[at].step)
		}
		w := m.start()
		for _, which := range slices.Backward(path) {
			k, n := int32(0), w
			m.moves(w, func(e E, next W, _ violation) {
				if k == which {
					t, n = append(t, e.String()), next
				}
				k++
			})
			m.tidy(n)
			w = n
		}
		return t
	}
	known.add(m.key(level[0]))
	at, step := 0, int32(0)
	report := func(v violation) {
		if v != fine && found.traces[v] == nil {
			found.traces[v] = retrace(at, step)
		}
	}
	take := func(_ E, to W, wrong violation) {
		report(wrong)
		if m.tidy(to); known.add(m.key(to)) {
			nodes, next = append(nodes, node{parent: int32(at), step: step}), append(next, to)
			m.check(to, report)
		} else {
			m.drop(to)
		}
		step++
	}
	for i := 0; at < len(nodes) && (len(until) == 0 || !found.has(until)); at, i = at+1, i+1 {
		if i == len(level) {
			level, next, i = next, level[:0], 0
		}
		step = 0
		m.moves(level[i], take)
		m.drop(level[i])
	}
	found.states = len(nodes)
	return found
}

// left is what is left of the bounds: of at most twelve things three of each at most, or an unlimited number. Each has
// an octal digit.
type left uint64

const mostLeft = 3

func leftOf(all ...int8) (l left) {
	for _, n := range all {
		if n > mostLeft && n != unlimited {
			panic("a bound that is too high")
		}
		l = l<<3 | left(min(n, mostLeft))
	}
	return l
}

// covers reports whether there is as much left of everything. Then all can happen that can with less.
func (l left) covers(less left) bool {
	const spare left = 0o444444444444 // a bit of each digit
	return ((l|spare)-less)&spare == spare
}

// seen is a set of keys, with what was left each time. It keeps two hashes of each: the keys themselves take memory
// that is slow to look at, and to collect. A map of Go's took twice as long.
type seen struct {
	first, second maphash.Seed
	table         [][2]uint64 // each stands where its first hash says, or at the next free place
	n             int         // at most half of the places
}

func newSeen() *seen {
	return &seen{first: maphash.MakeSeed(), second: maphash.MakeSeed(), table: make([][2]uint64, 1<<12)}
}

// leftBits are those of the second hash in whose place it says what is left.
const leftBits = 1<<36 - 1

// add reports whether a key is new, or never had as much left.
func (s *seen) add(key []byte, l left) bool {
	if !put(s.table, [2]uint64{maphash.Bytes(s.first, key), maphash.Bytes(s.second, key)&^leftBits | uint64(l)}) {
		return false
	}
	if s.n++; 2*s.n > len(s.table) {
		larger := make([][2]uint64, 2*len(s.table))
		for _, one := range s.table {
			if one != ([2]uint64{}) {
				put(larger, one)
			}
		}
		s.table = larger
	}
	return true
}

// put puts hashes into a table. It reports false if those of the same key are there with as much left.
func put(table [][2]uint64, one [2]uint64) bool {
	mask := uint64(len(table) - 1)
	for i := one[0] & mask; ; i = (i + 1) & mask {
		switch at := &table[i]; {
		case *at == [2]uint64{}:
			*at = one
			return true
		case at[0] == one[0] && at[1]|leftBits == one[1]|leftBits && left(at[1]&leftBits).covers(left(one[1]&leftBits)):
			return false
		}
	}
}

func (s search) has(all []violation) bool {
	for _, v := range all {
		if s.traces[v] == nil {
			return false
		}
	}
	return true
}

// want fails the test if one of the violations was never seen, and logs the traces of the others.
func (s search) want(t *testing.T, want ...violation) {
	t.Helper()
	t.Logf("%d states", s.states)
	for _, v := range want {
		if s.traces[v] == nil {
			t.Errorf("never seen: %s", v)
			continue
		}
		t.Logf("%s, in %d steps:", v, len(s.traces[v]))
		for _, line := range s.traces[v] {
			t.Logf("    %s", line)
		}
	}
}

// wantNone fails the test if any violation was seen.
func (s search) wantNone(t *testing.T) {
	t.Helper()
	t.Logf("%d states", s.states)
	for v, trace := range s.traces {
		t.Errorf("%s:\n    %s", v, strings.Join(trace, "\n    "))
	}
}
