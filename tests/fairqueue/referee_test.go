package fairqueue_test

import (
	"fmt"
	"slices"
	"strings"
)

// The referee sees what a bystander could see: the state before and after each script, its reply, and which clients
// live.
//
//	order    nobody is granted the lock before a live waiter that entered earlier
//	dropped  nobody drops a live Go waiter
//	blocked  how long a dead waiter may keep a free lock from live ones; see blockade.limit
//	early    no live Java waiter is dropped earlier than Redisson alone would drop it
//	unheard  our scripts drop a live Java waiter only when it is due, and only if the lock was free before
//	shape    an owner is in queue iff it is in due, once; ours has the order of queue and the members of alive;
//	         alive has no dead owner
//	sleep    a Go waiter is told to sleep for at least 100 ms, and at most a third of its wait
//	heard    nobody is handed the lock who does not hear of it
//	believed who takes the lock for its own without a call has it
//	ghost    a copy of an acquire has no effect after its owner has been given back for good
//	end      a run ends, and leaves no live Go waiter behind
//
// Exceptions: our scripts take a Go waiter for dead that has been silent for its wait, and Java's take it for dead
// 5.5 s earlier, as their clocks are up to 5 s ahead. Only TestK11 has waiters that Java drops too early because a
// wait was longer than JavaWait. A Java waiter that has been dropped enters as a new one.
//
// When keys have been lost, order, dropped, early and unheard are no longer promised. Of the shape only this is: each
// waiter of ours has corrected its own entry after its next call. A lock is blocked no longer than a dead head of
// Java's could block it.
type referee struct {
	*world
	shaken bool // keys have been lost

	entered    int
	blockade   blockade
	violations []violation
	seen       seen
}

type violation struct{ rule, text string }

func (v violation) String() string { return v.rule + ": " + v.text }

// seen counts what happened, for the report.
type seen struct {
	grants      int
	believed    int     // without a call
	order       []owner // of the grants
	calls       []acquired
	backAgain   int // waiters that Java had dropped alive
	javaDropped int // live ones, by Java's scripts
	byOurs      int // live ones, by ours
	margin      ms  // the least by which the score of a live Go waiter was above the server's time
	worst       map[string]ms
}

// acquired is an execution of our acquire that left its owner in the queue.
type acquired struct {
	at ms
	by owner
}

// standing is what the referee knows of one waiter.
type standing struct {
	place  int  // in the order of entry; 0: it has no right to a place in the queue
	polled ms   // when its last acquire was executed
	limit  ms   // for how long its score may block, after its last acquire
	pure   ms   // when Redisson alone would take it for dead
	lost   bool // it lost its place by its own fault
	deaf   bool // it is overtaken, as it did not hear that it had the lock
	forced bool // the lock was taken away from it
}

func newReferee(w *world) referee {
	return referee{world: w, seen: seen{margin: day, worst: map[string]ms{}}}
}

func (f *referee) report(rule, format string, args ...any) {
	v := violation{rule, fmt.Sprintf("%.3f s: ", float64(f.now-epoch)/1000) + fmt.Sprintf(format, args...)}
	f.violations = append(f.violations, v)
	f.note("    !! %s", v)
}

// executed checks what a script has done.
func (f *referee) executed(e execution) {
	if c := f.clients[e.before.holder()]; c != nil &&
		strings.HasPrefix(strings.TrimPrefix(e.script, "fairlock_"), "force") {
		c.standing.forced = true
	}
	if e.ours && e.script == "fairlock_acquire" {
		f.polled(e)
	}
	for _, o := range e.before.queue {
		if f.gone(e, o) {
			f.drop(e, f.clients[o])
		}
	}
	if h := f.keys.holder(); h != nobody && h != e.before.holder() {
		f.grant(e, f.clients[h])
	} else {
		f.queued(e)
	}
	if e.ours {
		f.settled(e)
	}
	f.shape(e)
	if _, holds := f.keys.counts[e.by.owner]; e.by.settled && (holds || slices.Contains(f.keys.queue, e.by.owner)) {
		f.report("ghost", "%s is back", e.by.owner)
	}
}

// polled notes the time of one of our acquires.
func (f *referee) polled(e execution) {
	c := e.by
	if !e.queued() {
		return
	}
	c.standing.polled = f.now
	f.seen.calls = append(f.seen.calls, acquired{f.now, c.owner})
	if again := e.reply[2]; again < 100 || again > max(100, c.process.wait/3) {
		f.report("sleep", "%s is told to sleep %d ms", c.owner, again)
	}
	java := f.javaInFront(c.owner)
	c.standing.limit = max(c.process.wait, f.left(), javaLease) + f.java*java
	if e.stands(atTheEnd) {
		c.standing.limit += c.process.wait
	}
}

func (f *referee) javaInFront(o owner) (n int64) {
	for _, other := range f.keys.queue {
		if other == o {
			break
		}
		if f.clients[other].process.java {
			n++
		}
	}
	return n
}

func (f *referee) left() ms { return max(0, f.keys.pttl(f.now)) }

// gone reports whether a script has removed somebody from the queue who did not ask for it.
func (f *referee) gone(e execution, o owner) bool {
	if f.keys.holder() == o {
		return false // handed over
	}
	if !slices.Contains(f.keys.queue, o) {
		return o != e.by.owner || e.script != "leave" && e.script != "fairlock_leave"
	}
	if o != e.by.owner {
		return false
	}
	// It was dropped, and the same script appended it again: otherwise Java's scripts never change a score of their
	// own.
	if e.ours {
		return e.stands(atTheEnd)
	}
	return e.script == "acquire" && f.keys.due[o] != e.before.due[o]
}

func (f *referee) drop(e execution, c *client) {
	at := &c.standing
	if f.shaken || !c.lives() || at.place == 0 {
		at.place = 0
		return
	}
	if !c.process.java {
		// polled is already now if its own call finds it dead.
		silent := e.before.alive[c.owner] <= f.now
		if !e.ours {
			silent = f.now-at.polled >= c.process.wait-5500
		}
		// Nobody has heard that it has the lock. It is overtaken until it comes back.
		at.deaf = at.deaf || e.ours && e.before.grants[c.owner] > 0 && !f.told(c.owner)
		at.lost = at.lost || silent
		if !silent && !at.deaf {
			f.report("dropped", "%s, %d ms after its call, by %s of %s", c.owner, f.now-at.polled, e.script, e.by.owner)
		}
		return // it keeps its right to the place, unless it has lost it
	}
	at.place = 0
	if e.clock < at.pure-f.inaccuracy() {
		f.report("early", "%s, %d ms early, by %s of %s", c.owner, at.pure-e.clock, e.script, e.by.owner)
	}
	if !e.ours {
		f.seen.javaDropped++
		return
	}
	f.seen.byOurs++
	if !e.before.free() && f.hears(c.owner) {
		f.report("unheard", "%s is dropped by %s of %s", c.owner, e.script, e.by.owner)
	}
}

// inaccuracy is by how much two Java clocks may differ from the server's.
func (f *referee) inaccuracy() (most ms) {
	for _, p := range f.processes {
		most = max(most, p.skew, -p.skew)
	}
	return most
}

func (f *referee) grant(e execution, c *client) {
	if c != e.by && !f.told(c.owner) {
		f.report("heard", "%s is handed the lock and does not hear", c.owner)
	}
	f.seen.grants++
	f.seen.order = append(f.seen.order, c.owner)
	mine := c.standing.place
	for _, other := range f.clients {
		place := other.standing.place
		if other == c || place == 0 || mine > 0 && place > mine || other.standing.lost || other.standing.deaf ||
			!other.lives() || f.shaken {
			continue
		}
		f.report("order", "%s is granted before %s", c.owner, other.owner)
	}
	c.standing.place = 0
	if !e.ours {
		for _, o := range f.keys.queue {
			f.clients[o].standing.pure -= e.takesOff
		}
	}
}

// queued notes who has come and who has left of its own accord.
func (f *referee) queued(e execution) {
	c := e.by
	at := slices.Index(f.keys.queue, c.owner)
	was := slices.Index(e.before.queue, c.owner)
	switch {
	case at < 0 && was >= 0:
		c.standing.place = 0
		if !e.ours {
			for _, o := range e.before.queue[was+1:] {
				f.clients[o].standing.pure -= e.takesOff
			}
		}
	case at < 0:
	case e.stands(backAgain):
		f.seen.backAgain++
		c.standing.lost, c.standing.deaf = false, false
		c.standing.pure = f.now + f.left()
	case was < 0 || c.standing.place == 0 || e.stands(atTheEnd):
		f.entered++
		c.standing.place = f.entered
		c.standing.lost, c.standing.deaf = false, false
		c.standing.pure = f.fresh(e, f.keys.queue[:at])
	}
}

// fresh is when Redisson alone would take somebody for dead who enters behind others: Java's chain without our waits.
// It is at most what it would be if those in front had just entered, too.
func (f *referee) fresh(e execution, front []owner) ms {
	pure := e.clock + f.left()
	if n := len(front); n > 0 {
		for _, o := range front {
			pure += f.clients[o].chained()
		}
		pure = min(pure, f.clients[front[n-1]].standing.pure)
	}
	return pure + e.by.chained()
}

// chained is what a waiter adds to Java's chain.
func (c *client) chained() ms {
	if !c.process.java {
		return 0
	}
	return (&javaClient{c}).wait()
}

// settled checks the score of Java's head after one of our scripts: it is raised when the head is told that it is its
// turn, and lowered at most to what it would be if the head entered now.
func (f *referee) settled(e execution) {
	head := f.keys.head()
	c := f.clients[head]
	if c == nil || !c.process.java {
		return
	}
	left := f.left()
	switch due := f.keys.due[head]; {
	case due > e.before.due[head]:
		c.standing.pure = max(c.standing.pure, due)
	case due < e.before.due[head]:
		c.standing.pure = min(c.standing.pure, f.now+left+f.java)
	}
}

// lost checks that a waiter has lost its place by its own fault, if it has had one.
func (f *referee) lost(c *client) {
	if at := c.standing; at.place > 0 && !at.lost && !f.shaken {
		f.report("dropped", "the place of %s is gone", c.owner)
	}
}

// believed checks that a client has the lock that takes it for its own without a call.
func (f *referee) believed(c *client) {
	f.keys.expire(f.now)
	f.seen.believed++
	if f.keys.holder() != c.owner && !c.standing.forced && !f.shaken {
		f.report("believed", "%s takes the lock of %q for its own", c.owner, f.keys.holder())
	}
}

func (f *referee) shape(e execution) {
	k := &f.keys
	if f.shaken {
		if e.queued() {
			f.mended(e.by.owner)
		}
		return
	}
	places := map[owner]int{}
	for i, o := range k.queue {
		if _, twice := places[o]; twice {
			f.report("shape", "%s is in the queue twice", o)
		}
		places[o] = i
		if c := f.clients[o]; !c.process.java && c.lives() && c.process.stalled == 0 {
			f.seen.margin = min(f.seen.margin, k.due[o]-f.now)
		}
		if _, scored := k.due[o]; !scored {
			f.report("shape", "%s has no score", o)
		}
		if _, living := k.alive[o]; e.ours && !living && !f.clients[o].process.java {
			f.report("shape", "%s is not in alive", o)
		}
	}
	if len(k.due) != len(places) {
		f.report("shape", "%d in due, %d in the queue", len(k.due), len(places))
	}
	if !e.ours {
		return
	}
	last := -1
	for _, o := range k.ours {
		if _, living := k.alive[o]; !living {
			f.report("shape", "%s is in ours, not in alive", o)
		}
		if place, queued := places[o]; queued {
			if place < last {
				f.report("shape", "%s is not in the same order in ours", o)
			}
			last = place
		}
	}
	if len(k.ours) != len(k.alive) {
		f.report("shape", "%d in ours, %d in alive", len(k.ours), len(k.alive))
	}
	if e.looked {
		if dead := k.dead(f.now); len(dead) > 0 {
			f.report("shape", "%v are dead and still in alive", dead)
		}
	}
}

// mended checks a waiter of ours after its own call: it must be where it belongs, once, whatever has been lost.
func (f *referee) mended(o owner) {
	k := &f.keys
	queued, own := times(k.queue, o), times(k.ours, o)
	_, scored := k.due[o]
	_, living := k.alive[o]
	if queued != 1 || own != 1 || !scored || !living {
		f.report("shape", "after its call %s is %d times in queue, %d in ours, in due %v, in alive %v",
			o, queued, own, scored, living)
	}
}

func times(list []owner, o owner) (n int) {
	for _, x := range list {
		if x == o {
			n++
		}
	}
	return n
}

// end checks what is left when nothing happens any more.
func (f *referee) end() {
	f.lift()
	for _, c := range f.clients {
		// Java waits without limit if the script's reply is negative, as it is behind a waiter that is due.
		if c.lives() && !c.process.java {
			f.report("end", "%s still waits", c.owner)
		}
	}
}
