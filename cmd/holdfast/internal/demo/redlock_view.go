package demo

import (
	"fmt"
)

// progress is the scene in a line.
func (r *redLockStory) progress() string {
	otherwise := changing
	if r.there() < redLockMajority {
		otherwise = "nobody has the lock"
	}
	return fmt.Sprintf("%d of %d servers, %s, %d wait, %d acquisitions so far",
		r.there(), redLockServers, r.hands(otherwise), r.waiting(), r.acquired())
}

// picture is the scene on a terminal: the servers, and every worker, and who holds.
func (r *redLockStory) picture() []string {
	lines := append([]string{"", r.serverLine(), ""}, r.table(r.row, r.state)...)
	return append(lines, "", r.foot())
}

func (r *redLockStory) state(worker int) string { return r.crew.state(worker, "") }

// sumUp says how it went.
func (r *redLockStory) sumUp(count int) {
	v := r.loss
	r.summary("wrote")
	r.counted(count, 1)
	r.say(fmt.Sprintf("  two killed    one went on holding, for %s; then %d acquisitions from %d servers",
		human(r.outlived), r.onThree, redLockMajority))
	r.say(fmt.Sprintf("  three killed  the holder knew it %s its deadline; nobody had the lock for %s", v.off(), human(r.silent)))
	r.say(fmt.Sprintf("  all back      the next one had the lock after %s", human(r.again)))
	r.say("")
	r.say(fmt.Sprintf("Worker %d had the lock when the third server was killed. It could be sure of it until what\n"+
		"that server had last granted might be over; then it asked its hold before writing, learned\n"+
		"that it had lost the lock, and did not write %d. With %d of %d servers nobody could have it.",
		v.worker, v.read+1, redLockServers-redLockMajority, redLockServers))
}
