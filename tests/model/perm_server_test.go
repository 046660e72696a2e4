package model_test

import "slices"

// A permServer has a semaphore and its line.
type permServer struct {
	free  int8
	line  list[waiter]
	alive [waiters]life
	taken waiterSet // permits with ids
	over  waiterSet // … whose leases are
	some  bool      // of a lock: who frees it knows that some stand in the line
}

// A life is what the score of a waiter says.
type life int8

const (
	past  life = iota // it is taken for dead
	told              // it is to look soon
	fresh             // it has called not long ago
)

func (v *permServer) stands(o waiter) bool { return slices.Contains(v.line.items(), o) }

// forget takes a waiter out of the line.
func (w *permWorld) forget(o waiter) {
	w.server.line.drop(func(other waiter) bool { return other == o })
	w.server.alive[o] = past
}

// bury takes those out of the line that are taken for dead, but for one.
func (w *permWorld) bury(r permRules, but waiter) {
	line := w.server.line
	for _, o := range line.items() {
		if o != but && w.server.alive[o] == past && r.dropsDead {
			w.forget(o)
		}
	}
}

// front is how many permits those want who stand in front of a waiter.
func (w *permWorld) front(o waiter) (sum int8) {
	for _, other := range w.server.line.items() {
		if other == o {
			break
		}
		sum += w.n(other)
	}
	return sum
}

// failOver makes another server the one that everybody talks to. It lacks the last write: permits that this write took
// are free once more, and permits that it gave back are taken, for their lease if they have one. Calls under way have
// no reply, and unread messages are lost.
func (w *permWorld) failOver() {
	w.bounds.fails--
	w.failed = true
	w.stray = list[permCall]{}
	for i := range w.s {
		s := &w.s[i]
		s.down, s.mail, s.news, s.heard, s.marked = !s.dead, false, false, false, false
		if s.call == acquiring && !s.frozen {
			if s.answer == granted && !w.bounds.ids {
				w.lost += w.n(s.ask.waiter)
			}
			w.unanswered(i)
		}
	}
	v := &w.server
	was, had := v.free, v.taken
	*v, w.replica = w.replica, permServer{}
	w.total += v.free - was
	for o := waiter(1); o < waiters; o++ {
		switch holds := w.s[o.of()].holds.has(o); {
		case holds, v.taken.has(o) == had.has(o):
		case had.has(o):
			w.loose -= w.n(o)
			w.total -= w.n(o)
		default:
			w.loose += w.n(o)
			w.total += w.n(o)
		}
	}
	w.disturb()
}

// acquire takes permits, or stands. A call of Acquire that cannot stand yet only looks.
func (w *permWorld) acquire(r permRules, c permCall) answer {
	v, o := &w.server, c.waiter
	n := w.n(o)
	w.reclaim(r)
	if v.taken.has(o) && (r.findsIDs || v.free < n) {
		w.forget(o)
		return granted
	}
	w.bury(r, o)
	if r.tellsFront && v.free > 0 && w.front(o)+n > v.free {
		w.tell(r, o)
	}
	behind := r.behind
	switch {
	case v.stands(o):
		behind = r.inOrder
	case !c.stand:
		behind = r.plainBehind
	}
	if v.free >= n && (!behind || w.front(o)+n <= v.free || !w.bounds.writers && w.others() > 0) {
		if !v.taken.has(o) {
			v.free -= n
		}
		w.forget(o)
		if w.bounds.ids {
			v.taken.set(o, true)
		}
		return granted
	}
	if c.stand && !v.stands(o) && (r.standsAgain || !w.s[o.of()].stands) {
		v.line.add(o)
	}
	v.some = v.some || v.stands(o) && r.marksStand
	if v.stands(o) {
		v.alive[o] = fresh
	}
	return busy
}

// release gives permits back.
func (w *permWorld) release(r permRules, n int8) {
	v := &w.server
	v.free += n
	if w.bounds.writers { // X waits, or may, and cannot be told from readers
		if w.publish(); v.some {
			w.tell(r, 0)
			v.some = v.line.n > 0 && r.marksFree
		}
		return
	}
	if v.line.n == 0 {
		w.publish()
		return
	}
	if !r.othersHear || w.others() == 0 {
		w.tell(r, 0)
		return
	}
	w.publish()
	line := v.line
	for _, o := range line.items() {
		if !w.send(o) {
			w.forget(o)
		}
	}
}

// reclaim gives permits back whose leases are over.
func (w *permWorld) reclaim(r permRules) {
	v := &w.server
	for o := waiter(1); o < waiters; o++ {
		if v.over.has(o) {
			v.over.set(o, false)
			v.taken.set(o, false)
			w.loose -= w.n(o)
			if w.bounds.writers { // nobody frees a lock that expires
				v.free += w.n(o)
				continue
			}
			w.release(r, w.n(o))
		}
	}
}

// tell tells those in the line for whom there is room, in front of a waiter or 0, who have not been told.
func (w *permWorld) tell(r permRules, until waiter) {
	v := &w.server
	w.bury(r, until)
	for at := 0; at < int(v.line.n); {
		o := v.line.all[at]
		switch room := w.front(o)+w.n(o) <= v.free; {
		case o == until, at > 0 && !r.tellsRoom:
			return
		case !room && r.probes && v.free > 0 && !w.hears(o):
			w.forget(o)
			continue
		case !room:
			return
		}
		if v.alive[o] == fresh {
			heard := w.send(o)
			if !heard && r.skipUnheard {
				w.forget(o)
				continue
			}
			if heard && r.lowers {
				v.alive[o] = told
			}
		}
		at++
	}
}

// send sends a message to the session of a waiter, and says whether anybody has heard it.
func (w *permWorld) send(o waiter) (heard bool) {
	w.s[o.of()].mail = w.hears(o)
	return w.hears(o)
}

// hears reports whether the session of a waiter hears.
func (w *permWorld) hears(o waiter) bool {
	s := &w.s[o.of()]
	return !s.down && !s.dead && !s.closed
}

// leave takes a waiter out of the line, and gives back what its ids have.
func (w *permWorld) leave(r permRules, o waiter) {
	v := &w.server
	if v.taken.has(o) {
		v.taken.set(o, false)
		w.loose -= w.n(o)
		w.release(r, w.n(o))
	}
	if !v.stands(o) || !r.leaves {
		return
	}
	first := v.line.all[0] == o
	if w.forget(o); r.leaveTells && (v.free > 0 || w.bounds.writers && first) {
		w.tell(r, 0)
	}
}

// others is how many listen to Redisson's channel who do not stand in the line, as far as the server knows.
func (w *permWorld) others() (count int) {
	if w.x.asleep || w.x.awake {
		count++
	}
	for i := range w.s {
		s := &w.s[i]
		if s.heard {
			count++
		}
		if s.marked {
			count--
		}
	}
	return max(count, 0)
}

// publish says on Redisson's channel that permits have come back.
func (w *permWorld) publish() {
	if w.x.asleep {
		w.x.asleep, w.x.awake = false, true
	}
	for i := range w.s {
		s := &w.s[i]
		s.news = s.news || s.heard
	}
}
