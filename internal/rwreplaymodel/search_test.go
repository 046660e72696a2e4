package rwreplaymodel_test

import "strings"

// A search is everything reached from the start under one set of rules.
type search struct {
	states int
	traces map[violation]trace // the shortest one for each kind
}

// A trace is how a violation comes about.
type trace []string

func (t trace) String() string { return strings.Join(t, "; ") }

// explore goes breadth first through all worlds. It ends when it has seen every world, or every violation of until.
func explore(r rules, b bounds, until ...violation) search {
	type node struct {
		world  world
		parent int
		step   int // which of the parent's steps led here
	}
	nodes := []node{{world: start(b), parent: -1}}
	seen := map[world]struct{}{nodes[0].world: {}}
	found := search{traces: map[violation]trace{}}

	// Steps are not stored; they are made again for the few nodes of a trace.
	retrace := func(at, last int) trace {
		var t trace
		for n := last; at >= 0; at, n = nodes[at].parent, nodes[at].step {
			k := 0
			nodes[at].world.moves(r, func(s step) {
				if k == n {
					t = append(trace{s.String()}, t...)
				}
				k++
			})
		}
		return t
	}
	enough := func() bool {
		for _, v := range until {
			if found.traces[v] == nil {
				return false
			}
		}
		return len(until) > 0
	}

	for at := 0; at < len(nodes) && !enough(); at++ {
		k := -1
		nodes[at].world.moves(r, func(s step) {
			k++
			s.next.tidy(r)
			report := func(v violation) {
				if v != fine && found.traces[v] == nil {
					found.traces[v] = retrace(at, k)
				}
			}
			report(s.wrong)
			if _, ok := seen[s.next]; ok {
				return
			}
			seen[s.next] = struct{}{}
			nodes = append(nodes, node{world: s.next, parent: at, step: k})
			s.next.check(report)
		})
	}
	found.states = len(nodes)
	return found
}
