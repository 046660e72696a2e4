package fairqueue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

func TestRandomRuns(t *testing.T) {
	for name, r := range regimes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all seen
			n := kit.Stressed(80, 250)
			for seed := range uint64(n) {
				w := play(r.scenario(seed), without{})
				if len(w.referee.violations) > 0 {
					fail(t, w)
				}
				all.add(w.referee.seen)
			}
			t.Logf("%d runs, %v", n, all)
		})
	}
}

// fail reports the first violation of a run, with the shortest scenario found that shows it.
func fail(t *testing.T, w *world) {
	t.Helper()
	rule := w.referee.violations[0].rule
	s := shrink(w.scenario, func(s scenario) bool { return play(s, w.without).violates(rule) })
	const shown = 60
	trace := play(s, w.without, traced).trace
	if at := slices.IndexFunc(trace, func(line string) bool { return strings.Contains(line, "!! ") }); at >= 0 {
		trace = trace[max(0, at-shown) : at+1]
	}
	t.Fatalf("seed %d: %v\nshrunk: %+v\n%s", w.seed, w.referee.violations[0], s, strings.Join(trace, "\n"))
}

func (w *world) violates(rule string) bool {
	return slices.ContainsFunc(w.referee.violations, func(v violation) bool { return v.rule == rule })
}

// shrink removes from a scenario whatever is not needed for it to be bad.
func shrink(s scenario, bad func(scenario) bool) scenario {
	for again := true; again; {
		again = false
		for _, smaller := range simpler(s) {
			if bad(smaller) {
				s, again = smaller, true
				break
			}
		}
	}
	return s
}

// simpler returns the scenarios that have one thing less.
func simpler(s scenario) (all []scenario) {
	with := func(change func(*scenario)) {
		c := s
		c.processes, c.tasks = slices.Clone(s.processes), slices.Clone(s.tasks)
		c.disappearings = slices.Clone(s.disappearings)
		change(&c)
		all = append(all, c)
	}
	number := func(value ms, at func(*scenario) *ms) {
		if value != 0 {
			with(func(c *scenario) { *at(c) = 0 })
		}
	}
	for i := range s.tasks {
		with(func(c *scenario) { c.tasks = slices.Delete(c.tasks, i, i+1) })
	}
	for i := range s.disappearings {
		with(func(c *scenario) { c.disappearings = slices.Delete(c.disappearings, i, i+1) })
	}
	if s.lostMessages > 0 {
		with(func(c *scenario) { c.lostMessages = 0 })
	}
	if s.lostReplies > 0 {
		with(func(c *scenario) { c.lostReplies = 0 })
	}
	if !s.exact {
		with(func(c *scenario) { c.exact = true })
	}
	for i, p := range s.processes {
		number(p.skew, func(c *scenario) *ms { return &c.processes[i].skew })
		number(p.crash, func(c *scenario) *ms { return &c.processes[i].crash })
		number(p.deaf, func(c *scenario) *ms { return &c.processes[i].deaf })
		number(p.grant, func(c *scenario) *ms { return &c.processes[i].grant })
		number(p.stalled, func(c *scenario) *ms { return &c.processes[i].stalled })
	}
	for i, t := range s.tasks {
		number(t.quit, func(c *scenario) *ms { return &c.tasks[i].quit })
		number(t.again, func(c *scenario) *ms { return &c.tasks[i].again })
		number(t.lease, func(c *scenario) *ms { return &c.tasks[i].lease })
		number(t.nested, func(c *scenario) *ms { return &c.tasks[i].nested })
		if t.async {
			with(func(c *scenario) { c.tasks[i].async = false })
		}
		if t.kind != lock {
			with(func(c *scenario) { c.tasks[i].kind = lock })
		}
	}
	return all
}

func (s *seen) add(other seen) {
	if s.worst == nil {
		*s = newReferee(nil).seen
	}
	s.grants += other.grants
	s.believed += other.believed
	s.backAgain += other.backAgain
	s.javaDropped += other.javaDropped
	s.byOurs += other.byOurs
	s.margin = min(s.margin, other.margin)
	for name, d := range other.worst {
		s.worst[name] = max(s.worst[name], d)
	}
}

func (s seen) String() string {
	return fmt.Sprintf("%d grants, %d believed; back again %d; live Java waiters dropped by Java %d, by us %d; "+
		"least margin %d; blocked by %v", s.grants, s.believed, s.backAgain, s.javaDropped, s.byOurs, s.margin, s.worst)
}
