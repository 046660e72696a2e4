package demo

import (
	"fmt"
	"strings"
	"time"
)

// progress is the scene in a line.
func (f *fairStory) progress() string {
	otherwise := changing
	if f.blocked() {
		otherwise = fmt.Sprintf("dead worker %d is next", f.dead.worker)
	}
	_, wrong := f.register.judged()
	return fmt.Sprintf("%s, %d in the queue, %d grants so far, %d out of order",
		f.hands(otherwise), len(f.register.queue), len(f.register.grants), wrong)
}

// picture is the scene on a terminal: the queue, and every worker.
func (f *fairStory) picture() []string {
	lines := append([]string{"", f.line(), ""}, f.table(f.row, f.state)...)
	n, wrong := f.register.judged()
	all := spreadOf(f.ledger.all().waits)
	return append(lines, "", fmt.Sprintf("  %4.1f s   granted in order: %d   out of order: %d   95 %% waited: %s   longest: %s",
		time.Since(f.begun).Seconds(), n-wrong, wrong, human(all.p95), human(all.longest)))
}

// line draws the workers of who holds and of who waits, the next one first.
func (f *fairStory) line() string {
	holder := f.dim("·  ")
	if w, _ := f.holder(); w > 0 {
		holder = f.green(fmt.Sprintf("● %d", w))
	}
	var queue strings.Builder
	for _, id := range f.register.queue {
		w := f.workerOf(id)
		if f.away[w] {
			queue.WriteString("  " + f.red(fmt.Sprintf("× %d", w)))
		} else {
			queue.WriteString("  " + f.yellow(fmt.Sprintf("○ %d", w)))
		}
	}
	return "  " + holder + f.dim("  ◄") + queue.String()
}

func (f *fairStory) state(worker int) string {
	and := ""
	if f.placesOf(worker) > 0 {
		and = ", still queues"
	}
	return f.crew.state(worker, and)
}

// sumUp says how it went.
func (f *fairStory) sumUp(count int) {
	r := f.register
	n, wrong := r.judged()
	f.summary("wrote")
	f.say(fmt.Sprintf("  grants        %d, of which %d to another process than the one before", len(r.grants), r.crossings()))
	f.say(fmt.Sprintf("  out of order  %d of %d that were seen to enter the queue", wrong, n))
	if r.again > 0 {
		f.say(fmt.Sprintf("  entered anew  %d, on a busy machine: taken for dead", r.again))
	}
	f.counted(count, 0)
	f.say(fmt.Sprintf("  gave up       1, out of the queue after %s", human(f.gaveUp)))
	f.say(fmt.Sprintf("  dead waiter   cost the others %s, of %s at most", human(f.dead.cost), human(fairWaiterLease)))
	f.say("")
	f.say(fmt.Sprintf("Worker %d was killed when it was number %d in the queue. When its turn came nobody had\n"+
		"the lock for %s: as long as its places were taken to be alive. A newcomer that tried\n"+
		"in the meantime did not get it; then the queue went on, in order.", f.dead.worker, f.dead.place, human(f.dead.cost)))
}
