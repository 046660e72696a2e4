package fairqueue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each test is an example that refuted an earlier version of the rules. The present rules survive it; without the
// rule that was made for it, the example still shows the violation. Names end in a † if their owner dies.

// Numbers of processes in the examples.
const (
	javaApp = iota // lives
	goApp          // lives
	javaDies
	goDies
)

// example is a scenario of four processes, two of which die at 40 s, with tasks in the order of their numbers.
func example(tasks ...task) scenario {
	s := scenario{
		exact: true, java: javaWait,
		processes: []process{
			javaApp:  {java: true},
			goApp:    {wait: 15 * second},
			javaDies: {java: true, crash: 40 * second},
			goDies:   {wait: 15 * second, crash: 40 * second},
		},
		tasks: tasks,
	}
	for i := range tasks {
		tasks[i].id = i + 1
	}
	return s
}

// holds is a task that takes the lock at once.
func holds(process int, d ms) task { return task{process: process, start: 1, hold: d} }

// waits is a task that waits for the lock, and keeps it for a moment.
func waits(process int, from ms) task { return task{process: process, start: from, hold: 50} }

// survives plays an example with all rules and returns the world.
func survives(t *testing.T, s scenario) *world {
	t.Helper()
	w := play(s, without{}, traced)
	require.Empty(t, w.referee.violations, strings.Join(w.trace, "\n"))
	return w
}

// falls plays an example without a rule. It must show a violation of that kind, in these words.
func falls(t *testing.T, s scenario, w without, rule, words string) {
	t.Helper()
	played := play(s, w, traced)
	for _, v := range played.referee.violations {
		if v.rule == rule && strings.Contains(v.text, words) {
			t.Logf("%v: %v", w, v)
			return
		}
	}
	assert.Fail(t, fmt.Sprintf("%v shows no %q with %q", w, rule, words), "%v\n%s",
		played.referee.violations, strings.Join(played.trace, "\n"))
}

// fiveBehind are Java waiters that come one after the other.
func fiveBehind(from ms) (tasks []task) {
	for i := range ms(5) {
		tasks = append(tasks, waits(javaApp, from+i*second))
	}
	return tasks
}

// K1: G†, J, J, J, J, J. An allowance for all Java waiters, even for those behind, keeps the dead one's score ahead
// by 5 × 300 s. No other waiter of ours is left to bury it.
func TestK1AllowanceForThoseBehind(t *testing.T) {
	dead := []task{holds(javaApp, 45*second), waits(goDies, second)}
	s := example(append(dead, fiveBehind(2*second)...)...)
	survives(t, s)
	falls(t, s, without{inFront: true, headExempt: true, settle: true}, "blocked", "by G2:1")
}

// K2: G†, G†, J, J, J, J, J. It is not enough to exempt the head: the second one causes the same.
func TestK2AllowanceForThoseBehindTheSecond(t *testing.T) {
	dead := []task{holds(javaApp, 45*second), waits(goDies, second), waits(goDies, 2*second)}
	s := example(append(dead, fiveBehind(3*second)...)...)
	survives(t, s)
	falls(t, s, without{inFront: true}, "blocked", "by G3:1")
}

// K3: Java drops a dead Go waiter, and alive keeps it. Then the queue less alive is one short: in J, G there seems to
// be no Java waiter in front of G, whose score is not raised, and Java drops G alive.
func TestK3DeadInAlive(t *testing.T) {
	s := example(
		holds(javaApp, 100*second), waits(goDies, second),
		waits(javaApp, 60*second), waits(goApp, 61*second),
	)
	survives(t, s)
	falls(t, s, without{burial: true}, "dropped", "G4:1")
}

// K4: three Java waiters in front of G acquire between two of its calls, and take 900 s off its score.
func TestK4NoAllowance(t *testing.T) {
	s := example(
		holds(javaApp, 20*second), waits(javaApp, second), waits(javaApp, 2*second), waits(javaApp, 3*second),
		waits(goApp, 4*second), waits(javaApp, 5*second),
	)
	survives(t, s)
	falls(t, s, without{allowance: true}, "dropped", "G5:1")
}

// K5: a Java waiter in front of G† waits for 1 s, leaves, and takes 1 s off. 299 of the 300 s that were allowed for
// it are carried on.
func TestK5AllowanceCarriedOn(t *testing.T) {
	impatient := waits(javaApp, 2*second)
	impatient.kind, impatient.patience = tryFor, second
	s := example(
		holds(javaApp, 45*second), waits(goDies, second), impatient, waits(goDies, 2500), waits(javaApp, 3500),
	)
	survives(t, s)
	falls(t, s, without{recount: true}, "blocked", "by G4:1")
}

// K6: Java's next waiter builds on the score before it. If that leaves out the lease, J is dropped 14 s sooner than
// Redisson would.
func TestK6LeaseLeftOut(t *testing.T) {
	s := example(holds(javaApp, 360*second), task{process: goApp, start: second, quit: 100 * second},
		waits(javaApp, 1100), task{process: javaApp, kind: try, start: 325 * second})
	survives(t, s)
	falls(t, s, without{left: true}, "early", "J3:1")
}

// K7: G calls while the lock is free, between J's wake-up and its acquire. The lease that J then gets is missing from
// G's score, and so from that of the next Java waiter.
func TestK7NextLeaseLeftOut(t *testing.T) {
	slow := task{process: javaDies, start: 50_200, hold: 325 * second}
	s := example(holds(javaApp, 51*second), slow, task{process: goApp, start: 50_300, quit: 100 * second},
		waits(javaApp, 55_500), task{process: javaApp, kind: try, start: 375 * second})
	s.processes[javaDies] = process{java: true, stall: 50_900, stalled: 4500}
	survives(t, s)
	falls(t, s, without{nextLease: true}, "early", "J4:1")
}

// K8: if our waits add up as Java's do, a thousand of ours put four hours on every Java waiter behind. It is not
// enough to settle the head: the second Java waiter keeps them.
func TestK8WaitsAddUp(t *testing.T) {
	behind := func(w without) ms {
		k := newKeys()
		k.grant("J0:1", epoch+30*second)
		ours := run{keys: &k, now: epoch, java: javaWait, without: w}
		for i := range 1000 {
			ours.acquire(demand{owner: fmt.Sprintf("G%d:1", i), target: 1, notAfter: always, wait: 15 * second})
		}
		java := javaRun{keys: &k, now: epoch, clock: epoch}
		java.acquire("J1:1", javaLease, javaWait)
		return k.due["J1:1"] - epoch
	}
	assert.Equal(t, (30+15+300)*second, behind(without{}))
	assert.Equal(t, (30+999*15+300)*second, behind(without{flat: true}))
}

// K9: J† entered under a lease of ten minutes, which is released early. Nobody lowers its score.
func TestK9HeadNotSettled(t *testing.T) {
	long := holds(javaApp, 45*second)
	long.lease = 15 * minute
	s := example(long, waits(javaDies, second), waits(goApp, 2*second))
	survives(t, s)
	falls(t, s, without{settle: true}, "blocked", "by J2:1")
}

// K10: during a long hold Java's head becomes due while it sleeps. If we drop it, it re-enters behind those who came
// later.
func TestK10LiveJavaHeadDropped(t *testing.T) {
	s := example(holds(goApp, 340*second), waits(javaApp, second), waits(goApp, 3*second))
	w := survives(t, s)
	assert.Equal(t, []owner{"G1:1", "J2:1", "G3:1"}, w.referee.seen.order)
	t.Run("by a sweep while the lock is held", func(t *testing.T) {
		falls(t, s, without{freeOnly: true}, "unheard", "J2:1")
	})
	t.Run("by a release that does not ask", func(t *testing.T) {
		falls(t, s, without{hearing: true}, "unheard", "J2:1")
	})
}

// K11: Java has dropped three live waiters of ours: J has waited for longer than JavaWait allows, and a Java attempt
// finds them due. They call again in the order 1, 3, 2, and regain their old order.
func TestK11OrderOfThoseWhoComeBack(t *testing.T) {
	patient := task{process: javaApp, start: second, kind: tryFor, patience: 60 * minute, hold: 20 * second}
	s := example(
		holds(javaApp, 30*second), patient, waits(goApp, 2*second), waits(goApp, 3*second), waits(goApp, 7500),
		task{process: javaApp, kind: try, start: 31 * second},
	)
	w := play(s, without{}, traced)
	for _, v := range w.referee.violations {
		require.Equal(t, "dropped", v.rule, v.text)
	}
	require.Equal(t, 3, w.referee.seen.backAgain, strings.Join(w.trace, "\n"))
	t.Run("in front of everybody", func(t *testing.T) {
		falls(t, s, without{predecessor: true}, "order", "G5:1 is granted before G3:1")
	})
	t.Run("behind the direct predecessor or in front of everybody", func(t *testing.T) {
		falls(t, s, without{farther: true}, "order", "G5:1 is granted before G3:1")
	})
}
