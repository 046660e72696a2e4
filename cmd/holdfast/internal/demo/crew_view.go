package demo

import (
	"fmt"
	"strings"
	"time"
)

// table draws the seats of every worker, what state says of it, and how it fares.
func (c *crew) table(row, state func(worker int) string) []string {
	const bar = 16
	most := 1
	for _, a := range c.ledger.workers[1:] {
		most = max(most, a.acquired)
	}
	marks := 2*len(c.seats[0]) - 1
	lines := []string{c.dim(fmt.Sprintf("  worker%*s%31s", marks+2+3+stateWidth+2+8, "acquired", "median wait"))}
	for w := range c.seats {
		a := c.ledger.workers[w+1]
		lines = append(lines, fmt.Sprintf("  %-6d  %s   %s  %8d  %-*s  %11s", w+1, row(w+1), state(w+1),
			a.acquired, bar, strings.Repeat("█", a.acquired*bar/most), human(spreadOf(a.waits).median)))
	}
	return lines
}

// row draws the goroutines of a worker, of which one of all may hold.
func (c *crew) row(worker int) string {
	holder, at := c.holder()
	return c.marks(worker, func(g int) bool { return worker == holder && g == at })
}

// marks draws the goroutines of a worker.
func (c *crew) marks(worker int, holds func(goroutine int) bool) string {
	var marks []string
	for g, seat := range c.seats[worker-1] {
		mark := c.dim("·")
		switch {
		case c.away[worker]:
			mark = c.red("×")
		case holds(g):
			mark = c.green("●")
		case seat.does == waiting:
			mark = c.yellow("○")
		}
		marks = append(marks, mark)
	}
	return strings.Join(marks, " ")
}

// hands says who has the lock, or what else there is to say.
func (c *crew) hands(otherwise string) string {
	if w, _ := c.holder(); w > 0 {
		return fmt.Sprintf("worker %d has the lock", w)
	}
	return otherwise
}

// changing is the lock when nobody is known to have it.
const changing = "the lock changes hands"

// foot explains the marks and says how all have waited.
func (c *crew) foot() string {
	all := spreadOf(c.ledger.all().waits)
	return fmt.Sprintf("  %4.1f s   %s has the lock   %s waits: %-2d   95 %% waited: %s   longest: %s",
		time.Since(c.begun).Seconds(), c.green("●"), c.yellow("○"), c.waiting(), human(all.p95), human(all.longest))
}

const stateWidth = 20

// column fills the column of what a worker is.
func column(text string) string { return fmt.Sprintf("%-*s", stateWidth, text) }

// state says in a column of its own what a worker is: what happened to it, with what follows
// from it, or that it has the lock.
func (c *crew) state(worker int, and string) string {
	if c.away[worker] {
		return c.red(column(c.fates[worker] + and))
	}
	if holder, _ := c.holder(); holder == worker {
		return c.green(column("has the lock"))
	}
	return column("")
}

// summary says how every worker fared, and how much it did, in a column of that name.
func (c *crew) summary(did string) {
	c.say("")
	c.say(c.dim(fmt.Sprintf("  worker       acquired %8s    waited: median      95 %%      99 %%   longest", did)))
	for w := range c.seats {
		name := fmt.Sprint(w + 1)
		if fate := c.fates[w+1]; fate != "" {
			name += ", " + fate
		}
		c.say(c.ledger.workers[w+1].line(name))
	}
	c.say(c.ledger.all().line("all"))
	c.say("")
}

func (a *account) line(name string) string {
	waits := spreadOf(a.waits)
	return fmt.Sprintf("  %-11s %9d %8d %17s %9s %9s %9s", name, a.acquired, a.wrote,
		human(waits.median), human(waits.p95), human(waits.p99), human(waits.longest))
}

// counted says how the counter and the writes agree, and what losses there were besides those
// that the story was about.
func (c *crew) counted(count, expectedLosses int) {
	all := c.ledger.all()
	c.say(fmt.Sprintf("  lost updates  %d: the counter is %d after %d writes", c.ledger.lostUpdates(count), count, all.wrote))
	c.losses(expectedLosses)
}

// losses says what losses there were besides.
func (c *crew) losses(expected int) {
	if more := c.ledger.all().lost - expected; more > 0 {
		c.say(fmt.Sprintf("  losses        %d besides, on a busy machine: known in time, and nothing written", more))
	}
}
