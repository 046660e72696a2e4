package demo

import (
	"fmt"
	"strings"
	"time"
)

// progress is the scene in a line.
func (l *lockStory) progress() string {
	who := "the lock changes hands"
	if w, _ := l.holder(); w > 0 {
		who = fmt.Sprintf("worker %d has the lock", w)
	} else if f := l.orphaned(); f != nil {
		who = fmt.Sprintf("worker %d, %s, still has the lock", f.worker, f.done)
	}
	return fmt.Sprintf("%s, %d wait, %d acquisitions so far", who, l.waiting(), l.ledger.all().acquired)
}

// picture is the scene on a terminal: the seats of every worker, and how it fares.
func (l *lockStory) picture() []string {
	const bar = 16
	most := 1
	for _, a := range l.ledger.workers[1:] {
		most = max(most, a.acquired)
	}
	lines := []string{"", l.dim("  worker                                acquired                    median wait")}
	for w := range l.seats {
		a := l.ledger.workers[w+1]
		lines = append(lines, fmt.Sprintf("  %-6d  %s   %s  %8d  %-*s  %11s", w+1, l.row(w+1), l.state(w+1),
			a.acquired, bar, strings.Repeat("█", a.acquired*bar/most), human(spreadOf(a.waits).median)))
	}
	all := spreadOf(l.ledger.all().waits)
	return append(lines, "", fmt.Sprintf("  %4.1f s   %s has the lock   %s waits: %-2d   95 %% waited: %s   longest: %s",
		time.Since(l.begun).Seconds(), l.green("●"), l.yellow("○"), l.waiting(), human(all.p95), human(all.longest)))
}

// row draws the goroutines of a worker.
func (l *lockStory) row(worker int) string {
	holder, at := l.holder()
	var marks []string
	for g, seat := range l.seats[worker-1] {
		mark := l.dim("·")
		switch {
		case l.gone(worker):
			mark = l.red("×")
		case worker == holder && g == at:
			mark = l.green("●")
		case seat.does == waiting:
			mark = l.yellow("○")
		}
		marks = append(marks, mark)
	}
	return strings.Join(marks, " ")
}

// state says in a column of its own what became of a worker.
func (l *lockStory) state(worker int) string {
	const width = 20
	column := func(text string) string { return fmt.Sprintf("%-*s", width, text) }
	for _, f := range l.faults {
		switch {
		case f.worker != worker || !f.resumed.IsZero():
		case f.heir == 0:
			return l.red(column(f.done + ", still has it"))
		default:
			return l.red(column(f.done))
		}
	}
	if holder, _ := l.holder(); holder == worker {
		return l.green(column("has the lock"))
	}
	return column("")
}

// waiting is how many goroutines wait for the lock.
func (l *lockStory) waiting() (n int) {
	for w, seats := range l.seats {
		for _, seat := range seats {
			if seat.does == waiting && !l.gone(w+1) {
				n++
			}
		}
	}
	return n
}

// summary says how it went.
func (l *lockStory) summary(count int) {
	l.say("")
	l.say(l.dim("  worker       acquired    wrote    waited: median      95 %      99 %   longest"))
	for w := range l.ledger.workers {
		name := fmt.Sprint(w + 1)
		for _, f := range l.faults {
			if f.worker == w+1 {
				name += ", " + f.done
			}
		}
		if w == lockProcesses {
			name, w = "all", -1
		}
		a := l.ledger.workers[w+1]
		waits := spreadOf(a.waits)
		l.say(fmt.Sprintf("  %-11s %9d %8d %17s %9s %9s %9s", name, a.acquired, a.wrote,
			human(waits.median), human(waits.p95), human(waits.p99), human(waits.longest)))
	}
	all := l.ledger.all()
	l.say("")
	l.say(fmt.Sprintf("  acquisitions  %d, and in each the same lock once more, nested", all.acquired))
	l.say(fmt.Sprintf("  lost updates  %d: the counter is %d after %d writes", l.ledger.lostUpdates(count), count, all.wrote))
	l.say(fmt.Sprintf("  takeovers     %d", len(l.faults)))
	if more := all.lost - l.learned(); more > 0 {
		l.say(fmt.Sprintf("  losses        %d besides, on a busy machine: known in time, and nothing written", more))
	}
	for _, f := range l.faults {
		l.say("")
		l.say(f.sentence())
	}
}
