package replaymodel

import (
	"fmt"
	"strings"
	"testing"
)

// A Violation is something that must never be seen.
type Violation string

// Fine is none.
const Fine Violation = ""

// A Step is one thing that may happen next.
type Step[W any] interface {
	fmt.Stringer
	After() W           // the world that it leads to
	Mistake() Violation // the step itself was a wrong decision
}

// A Model is a world with everything that may happen in it.
type Model[W comparable, S Step[W]] struct {
	Start W
	Moves func(from W, emit func(S))
	Tidy  func(*W) // makes worlds equal that differ only in what can no longer matter
	Check func(w *W, report func(Violation))
}

// A Search is everything reached from the start.
type Search struct {
	States int
	Traces map[Violation]Trace // the shortest one for each kind
}

// A Trace is how a violation comes about.
type Trace []string

func (t Trace) String() string { return strings.Join(t, "; ") }

// Explore goes breadth first through all worlds. It ends when it has seen every world, or every violation of until.
func (m Model[W, S]) Explore(until ...Violation) Search {
	type node struct {
		world  W
		parent int
		step   int // which of the parent's steps led here
	}
	nodes := []node{{world: m.Start, parent: -1}}
	seen := map[W]struct{}{m.Start: {}}
	found := Search{Traces: map[Violation]Trace{}}

	// Steps are not stored; they are made again for the few nodes of a trace.
	retrace := func(at, last int) Trace {
		var t Trace
		for n := last; at >= 0; at, n = nodes[at].parent, nodes[at].step {
			k := 0
			m.Moves(nodes[at].world, func(s S) {
				if k == n {
					t = append(Trace{s.String()}, t...)
				}
				k++
			})
		}
		return t
	}
	enough := func() bool {
		for _, v := range until {
			if found.Traces[v] == nil {
				return false
			}
		}
		return len(until) > 0
	}

	for at := 0; at < len(nodes) && !enough(); at++ {
		k := -1
		m.Moves(nodes[at].world, func(s S) {
			k++
			next := s.After()
			m.Tidy(&next)
			report := func(v Violation) {
				if v != Fine && found.Traces[v] == nil {
					found.Traces[v] = retrace(at, k)
				}
			}
			report(s.Mistake())
			if _, ok := seen[next]; ok {
				return
			}
			seen[next] = struct{}{}
			nodes = append(nodes, node{world: next, parent: at, step: k})
			m.Check(&next, report)
		})
	}
	found.States = len(nodes)
	return found
}

// Want fails the test if one of the violations was never seen, and logs how the others came about.
func (s Search) Want(t testing.TB, want ...Violation) {
	t.Helper()
	t.Logf("%d states", s.States)
	for _, v := range want {
		if s.Traces[v] == nil {
			t.Errorf("never seen: %s", v)
			continue
		}
		t.Logf("%s, in %d steps:", v, len(s.Traces[v]))
		for _, line := range s.Traces[v] {
			t.Logf("    %s", line)
		}
	}
}

// WantNone fails the test if any violation was seen.
func (s Search) WantNone(t testing.TB) {
	t.Helper()
	t.Logf("%d states", s.States)
	for v, trace := range s.Traces {
		t.Errorf("%s: %v", v, trace)
	}
}
