package demo

import (
	"fmt"
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

// picture is the scene on a terminal: every worker, and who holds.
func (l *lockStory) picture() []string {
	lines := append([]string{""}, l.table(l.row, l.state)...)
	all := spreadOf(l.ledger.all().waits)
	return append(lines, "", fmt.Sprintf("  %4.1f s   %s has the lock   %s waits: %-2d   95 %% waited: %s   longest: %s",
		time.Since(l.begun).Seconds(), l.green("●"), l.yellow("○"), l.waiting(), human(all.p95), human(all.longest)))
}

func (l *lockStory) state(worker int) string {
	and := ""
	if f := l.orphaned(); f != nil && f.worker == worker {
		and = ", still has it"
	}
	return l.crew.state(worker, and)
}

// sumUp says how it went.
func (l *lockStory) sumUp(count int) {
	l.summary("wrote")
	l.say(fmt.Sprintf("  acquisitions  %d, and in each the same lock once more, nested", l.ledger.all().acquired))
	l.counted(count, l.learned())
	l.say(fmt.Sprintf("  takeovers     %d", len(l.faults)))
	for _, f := range l.faults {
		l.say("")
		l.say(f.sentence())
	}
}
