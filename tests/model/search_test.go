package model_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// A search makes far more garbage than it keeps, and took 40 % longer when it collected that as often as Go does.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// A violation is something that must never be seen.
type violation string

// fine means that there is no violation.
const fine violation = ""

// A model is a world with everything that may happen in it. Worlds are pointers, and whoever has passed one on never
// changes it.
type model[W any, K comparable] struct {
	start func() W
	moves func(from W, emit func(step[W])) // always in the same order
	key   func(W) K                        // equal for worlds that differ only in what can no longer matter
	check func(w W, report func(violation))
}

// A step is one thing that may happen next.
type step[W any] struct {
	what  fmt.Stringer
	next  W
	wrong violation // the step itself was a wrong decision
}

// A search is everything that was reached from the start.
type search struct {
	states int
	traces map[violation]trace // the shortest one for each kind
}

// A trace is the sequence of steps that leads to a violation.
type trace []string

func (t trace) String() string { return strings.Join(t, "; ") }

// explore searches all worlds, breadth first. It ends when it has seen every world, or every violation in until.
func (m model[W, K]) explore(until ...violation) search {
	type node struct {
		parent int32
		step   int32 // which of the parent's steps led here
	}
	start := m.start()
	nodes, worlds := []node{{parent: -1}}, []*W{&start} // the worlds of visited nodes are dropped
	seen := map[K]struct{}{m.key(start): {}}
	found := search{traces: map[violation]trace{}}
	retrace := func(at int, last int32) (t trace) {
		path := []int32{last}
		for ; nodes[at].parent >= 0; at = int(nodes[at].parent) {
			path = append(path, nodes[at].step)
		}
		w := m.start()
		for i := len(path) - 1; i >= 0; i-- {
			k, n := int32(0), w
			m.moves(w, func(s step[W]) {
				if k == path[i] {
					t, n = append(t, s.what.String()), s.next
				}
				k++
			})
			w = n
		}
		return t
	}
	for at := 0; at < len(nodes) && (len(until) == 0 || !found.has(until)); at++ {
		k := int32(-1)
		m.moves(*worlds[at], func(s step[W]) {
			k++
			report := func(v violation) {
				if v != fine && found.traces[v] == nil {
					found.traces[v] = retrace(at, k)
				}
			}
			report(s.wrong)
			key := m.key(s.next)
			if _, ok := seen[key]; ok {
				return
			}
			seen[key] = struct{}{}
			nodes, worlds = append(nodes, node{parent: int32(at), step: k}), append(worlds, &s.next)
			m.check(s.next, report)
		})
		worlds[at] = nil
	}
	found.states = len(nodes)
	return found
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
