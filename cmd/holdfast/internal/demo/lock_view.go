package demo

import "fmt"

// progress is the scene in a line.
func (l *lockStory) progress() string {
	otherwise := changing
	if f := l.orphaned(); f != nil {
		otherwise = fmt.Sprintf("worker %d, %s, still has the lock", f.worker, f.done)
	}
	return fmt.Sprintf("%s, %d wait, %d acquisitions so far", l.hands(otherwise), l.waiting(), l.ledger.all().acquired)
}

// picture is the scene on a terminal: every worker, and who holds.
func (l *lockStory) picture() []string {
	lines := append([]string{""}, l.table(l.row, l.state)...)
	return append(lines, "", l.foot())
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
