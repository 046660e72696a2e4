package demo

import (
	"fmt"
	"time"
)

// progress is the scene in a line.
func (r *rwStory) progress() string {
	all := r.ledger.all()
	who := fmt.Sprintf("%d read", r.reading())
	switch {
	case r.writer() > 0:
		who = fmt.Sprintf("worker %d writes", r.writer())
	case r.dead != nil && r.dead.gone == 0 && r.reading() == 0:
		who = fmt.Sprintf("dead worker %d is still in", r.dead.worker)
	}
	return fmt.Sprintf("%s, %d wait, %d reads and %d writes so far", who, r.waiting(), all.reads, all.wrote)
}

// picture is the scene on a terminal: every worker, and who is in.
func (r *rwStory) picture() []string {
	row := func(worker int) string { return r.marks(worker, func(int) bool { return r.in(worker) }) }
	all := r.ledger.all()
	return append(append([]string{""}, r.table(row, r.state)...), "",
		fmt.Sprintf("  %4.1f s   %s is in   %s waits: %d   %d reads and %d writes so far",
			time.Since(r.begun).Seconds(), r.green("●"), r.yellow("○"), r.waiting(), all.reads, all.wrote))
}

func (r *rwStory) state(worker int) string {
	if r.away[worker] {
		text := r.fates[worker]
		if r.dead.gone == 0 {
			text += ", still in"
		}
		return r.red(column(text))
	}
	switch does := r.seats[worker-1][0].does; {
	case does == keeps:
		return r.green(column("reads what it wrote"))
	case r.in(worker) && rwWrites(worker):
		return r.green(column("writes"))
	case r.in(worker):
		return column("reads")
	case does == waiting && rwWrites(worker):
		return r.yellow(column("waits to write"))
	case does == waiting:
		return column("waits")
	}
	return column("")
}

// in reports whether the worker reads or writes, as far as it has told.
func (r *rwStory) in(worker int) bool {
	switch r.seats[worker-1][0].does {
	case holds, lingers, keeps:
		return !r.away[worker]
	default:
		return false
	}
}

// reading is how many are in to read.
func (r *rwStory) reading() (n int) {
	for _, w := range r.readers() {
		if r.in(w) {
			n++
		}
	}
	return n + r.count(keeps, []int{1, 2})
}

// writer is the worker that is in to write, 0 if none is.
func (r *rwStory) writer() int {
	for w := 1; w <= rwWriters; w++ {
		if r.count(holds, []int{w}) == 1 {
			return w
		}
	}
	return 0
}

// sumUp says how it went.
func (r *rwStory) sumUp(count int) {
	all, d := r.ledger.all(), r.downgraded
	r.summary("wrote")
	r.say(fmt.Sprintf("  reads         %d, by up to %d processes at once", all.reads, r.together))
	r.say(fmt.Sprintf("  torn reads    0 of %d: all have found the same number at the head and at the foot", all.reads))
	r.counted(count, 0)
	r.say(fmt.Sprintf("  first writer  waited %s, though the readers never paused; a read takes up to %s", human(r.first), human(rwReading)))
	r.say(fmt.Sprintf("  downgrade     %d readers joined within %s, and no writer got in for %s", rwReaders, human(d.joined), human(d.kept)))
	r.say(fmt.Sprintf("  dead reader   kept writers out for %s; its lease was %s", human(r.dead.gone), human(rwLease)))
	r.say("")
	r.say(fmt.Sprintf("Worker %d was killed while it read. The others read on, until a writer asked: that one,\n"+
		"and the readers behind it, had to wait until the dead one's lease was over, %s after\n"+
		"its death.", r.dead.worker, human(r.dead.gone)))
}
