package model_test

import "slices"

// A fairQueue is what the server has besides of those who stand in Redisson's queue, which is the line.
type fairQueue struct {
	ours   list[wire]
	due    wireSet // who has a score of Redisson's
	listed wireSet // who has one of this toolkit's
	hear   wireSet // … that says that the session hears of a grant
	over   bool    // X's score is
	gone   bool    // X is dead
}

// A wireSet is a set of wire owners.
type wireSet uint16

func (s wireSet) has(o wire) bool { return s&(1<<o) != 0 }

func (s *wireSet) set(o wire, in bool) {
	*s &^= 1 << o
	if in {
		*s |= 1 << o
	}
}

// has reports whether anything of a wire owner is there.
func (q *fairQueue) has(o wire) bool {
	return (q.due | q.listed).has(o) || q.ours.n > 0 && slices.Contains(q.ours.items(), o)
}

// forget takes a wire owner out.
func (q *fairQueue) forget(o wire) {
	q.ours.drop(func(other wire) bool { return other == o })
	q.due.set(o, false)
	q.listed.set(o, false)
	q.hear.set(o, false)
	if o == others {
		q.over, q.gone = false, false
	}
}

// insert puts one into a list, at a place.
func (l *list[T]) insert(at int, t T) {
	l.add(t)
	copy(l.all[at+1:l.n], l.all[at:l.n-1])
	l.all[at] = t
}

// behind puts a wire owner into a list, behind the nearest of those that stand in front of it in another.
func behind(into *list[wire], o wire, front []wire) {
	for _, other := range slices.Backward(front) {
		if at := slices.Index(into.items(), other); at >= 0 {
			into.insert(at+1, o)
			return
		}
	}
	into.insert(0, o)
}

// bury drops those of ours that are dead.
func (v *lineServer) bury() (found bool) {
	for o := wire(1); o < others; o++ {
		if v.listed.has(o) && v.alive[o] == 0 {
			v.forget(o)
			found = true
		}
	}
	return found
}

// sweep drops the dead at the head of the queue of a free lock.
func (v *lineServer) sweep() {
	for v.line.n > 0 {
		first := v.line.all[0]
		lives := v.due.has(first) && (first != others || !v.over)
		if v.listed.has(first) {
			lives = v.alive[first] > 0
		}
		if lives {
			return
		}
		v.forget(first)
	}
}

// standFair is fairlock_acquire.
func (w *lineWorld) standFair(r lineRules, c lineCall) (a answer, listens bool) {
	v := &w.server
	other := w.bounds.twin && c.wire.of() == 1 // its lock is another one's
	free := v.holder == 0 && !other
	switch {
	case c.open == 0:
		return late, false
	case v.holder == c.wire:
		v.ttl = max(v.ttl, leaseTicks)
		return granted, false
	}
	if (c.again || free) && r.buries {
		v.bury()
	}
	if free {
		v.sweep()
		if v.line.n == 0 || v.line.all[0] == c.wire {
			if v.line.n > 0 || r.alwaysForgets {
				v.forget(c.wire)
			}
			v.holder, v.ttl, v.remains = c.wire, leaseTicks, false
			return granted, false
		}
	}
	at, before := slices.Index(v.line.items(), c.wire), slices.Index(v.ours.items(), c.wire)
	switch {
	case at >= 0 && v.due.has(c.wire):
		if before < 0 {
			behind(&v.ours, c.wire, v.line.items()[:at])
		}
	case before >= 0 && v.listed.has(c.wire):
		v.line.drop(func(o wire) bool { return o == c.wire })
		behind(&v.line, c.wire, v.ours.items()[:before])
	case c.again && r.standsOnce && at < 0 && !v.due.has(c.wire) && !v.listed.has(c.wire):
		return gone, false
	default:
		v.forget(c.wire)
		v.line.add(c.wire)
		v.ours.add(c.wire)
	}
	v.due.set(c.wire, true)
	v.listed.set(c.wire, true)
	v.hear.set(c.wire, c.hears)
	v.alive[c.wire] = max(w.bounds.lives, 1)
	if first := v.line.all[0]; free {
		w.tellFirst(first)
	}
	return busy, r.listens && v.holder == others || r.listensBehind && v.others(c.wire) > 0
}

// others is how many stand in front of a wire owner that are none of ours, as its script counts them.
func (v *lineServer) others(o wire) int {
	dropped := 0
	for dropped < int(v.ours.n) && !v.due.has(v.ours.all[dropped]) {
		dropped++
	}
	at, before := slices.Index(v.line.items(), o), slices.Index(v.ours.items(), o)
	return at - max(before-dropped, 0)
}

// tellFirst tells the first in the queue that the lock is free.
func (w *lineWorld) tellFirst(o wire) {
	switch {
	case o == others: // who looks at any time
	case w.server.hear.has(o):
		w.tell(o, noteFirst)
	default:
		w.tellOwn(o)
	}
}

// tellOwn says on a wire owner's own channel that the lock is free.
func (w *lineWorld) tellOwn(o wire) {
	if o == others {
		return
	}
	if s := &w.s[o.of()]; s.hears && !s.down && wireCalled(s.request.Wire) == o {
		s.hear(noteOthers)
	}
}

// releaseFair is fairlock_release, or fairlock_leave.
func (w *lineWorld) releaseFair(r lineRules, o wire, leaves bool) (a answer, wrong violation) {
	v := &w.server
	if v.holder == o || v.holder > 0 && !r.ownRelease {
		return done, w.passFair(r, true)
	}
	if !leaves {
		return nothing, fine
	}
	buried := v.bury()
	first := v.line.n > 0 && v.line.all[0] == o
	if v.forget(o); first || buried {
		if v.holder == 0 {
			v.sweep()
		}
		if v.holder == 0 && v.line.n > 0 && r.tellsFirst {
			w.tellFirst(v.line.all[0])
		}
	}
	return nothing, fine
}

// passFair frees the lock, or hands it to the first in the queue that lives and hears.
func (w *lineWorld) passFair(r lineRules, grants bool) (wrong violation) {
	v := &w.server
	v.holder, v.ttl, v.remains = 0, 0, false
	for v.line.n > 0 {
		first := v.line.all[0]
		switch {
		case v.listed.has(first) && v.alive[first] == 0, !v.listed.has(first) && !v.due.has(first):
			v.forget(first)
			continue
		case first == others && v.over && v.gone:
			v.forget(first)
			continue
		case !v.hear.has(first) || w.bounds.twin && first.of() == 1 && r.ownName:
			w.tellOwn(first)
			return wrong
		}
		if !grants {
			if !r.messageLast {
				w.tell(first, note(first))
			} else {
				w.tellFirst(first)
			}
			return fine
		}
		if w.tell(first, note(first)) || !r.skipUnheard {
			v.granted(r, first)
			if s := &w.s[first.of()]; (s.down || s.dead) && !w.bounds.deaf {
				return handedToNobody
			}
			return fine
		}
		if r.keepsUnheard {
			v.line.shift()
			v.due.set(first, false)
		} else if v.forget(first); !w.s[first.of()].dead {
			wrong = lostPlace
		}
	}
	return wrong
}

// granted makes a wire owner the holder that was in the queue.
func (v *lineServer) granted(r lineRules, o wire) {
	v.holder, v.ttl = o, handedTicks
	if !r.ownPlace { // which is not the first of ours, if others have dropped one
		first := v.ours.all[0]
		v.ours.drop(func(other wire) bool { return other == first })
		ours := v.ours
		v.forget(o)
		v.ours = ours
		return
	}
	if r.forgetsGranted {
		v.forget(o)
		return
	}
	v.line.drop(func(other wire) bool { return other == o })
	v.due.set(o, false)
}
