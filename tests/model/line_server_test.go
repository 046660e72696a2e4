package model_test

import "slices"

// A lineServer has the lock and its line.
type lineServer struct {
	holder wire // 0: the lock is free
	ttl    int8 // ticks left; 0 if others have it, whose leases do not end
	line   list[wire]
	alive  [others]int8 // ticks left
	fairQueue

	remains bool // history: its last holder here has ended by the clock; the rest ends with its lease
}

func (v *lineServer) stands(o wire) bool {
	return slices.Contains(v.line.items(), o) || v.has(o)
}

// tidy drops what can no longer matter of a wire owner.
func (v *lineServer) tidy(o wire) {
	if !v.stands(o) {
		v.alive[o] = 0
	}
}

// forget takes a wire owner out of the line.
func (v *lineServer) forget(o wire) {
	v.line.drop(func(other wire) bool { return other == o })
	if v.fairQueue.forget(o); o < others {
		v.alive[o] = 0
	}
}

// stand is rlock_stand. The second result says whether the waiter is to listen to others.
func (w *lineWorld) stand(r lineRules, c lineCall) (a answer, listens bool) {
	if w.bounds.fair {
		return w.standFair(r, c)
	}
	v := &w.server
	switch {
	case c.open == 0:
		return late, false
	case v.holder == 0 || v.holder == c.wire:
		if c.again {
			v.forget(c.wire)
		}
		v.holder, v.ttl, v.remains = c.wire, max(v.ttl, leaseTicks), false
		return granted, false
	}
	if !c.again || !r.standsOnce && !v.stands(c.wire) {
		v.line.add(c.wire)
	}
	if !v.stands(c.wire) {
		return gone, false
	}
	v.alive[c.wire] = max(w.bounds.lives, 1)
	for r.dropsDead && v.holder == others && v.alive[v.line.all[0]] == 0 {
		v.forget(v.line.all[0])
	}
	return busy, r.listens && v.holder == others && v.line.all[0] == c.wire
}

// release is rlock_release, which leaves the line if it is given the waiter. Where others wait, the lock may be left to
// anybody.
func (w *lineWorld) release(r lineRules, o wire, leaves, toAnybody bool) (a answer, wrong violation) {
	if w.bounds.fair {
		return w.releaseFair(r, o, leaves)
	}
	v := &w.server
	if leaves && v.stands(o) {
		first := v.line.all[0] == o
		if v.forget(o); first && v.line.n > 0 && r.tellsFirst {
			w.tell(v.line.all[0], noteFirst)
		}
	}
	if v.holder != o && r.ownRelease || v.holder == 0 {
		return nothing, fine
	}
	return done, w.pass(r, toAnybody)
}

// pass frees the lock, or hands it to the first that lives.
func (w *lineWorld) pass(r lineRules, toAnybody bool) (wrong violation) {
	if w.bounds.fair {
		return w.passFair(r, true)
	}
	v := &w.server
	v.holder, v.ttl, v.remains = 0, 0, false
	for v.line.n > 0 {
		first := v.line.all[0]
		if toAnybody && (!r.tellsFree || w.tell(first, noteFree)) {
			break
		}
		heard := !toAnybody && v.alive[first] > 0 && (w.tell(first, note(first)) || !r.skipUnheard)
		v.line.shift()
		v.alive[first] = 0
		if heard {
			v.holder, v.ttl = first, handedTicks
			if s := &w.s[first.of()]; (s.down || s.dead) && !w.bounds.deaf {
				return handedToNobody
			}
			return fine
		}
	}
	w.tellOthers()
	return fine
}

// tell sends a message to the session of a waiter, and says whether anybody has heard it, as far as the server knows.
func (w *lineWorld) tell(o wire, n note) (heard bool) {
	s := &w.s[o.of()]
	if w.server.alive[o] == 0 {
		return false
	}
	if s.down || s.dead {
		return w.bounds.deaf
	}
	s.hear(n)
	return true
}

// tellOthers says on the lock's own channel that it is free.
func (w *lineWorld) tellOthers() {
	for i := range w.s {
		if s := &w.s[i]; s.hears && !s.down {
			s.hear(noteOthers)
		}
	}
}

// hear puts a message on its way. Of several that say the same, only the last one matters.
func (s *lineSession) hear(n note) {
	s.inbox.drop(func(other note) bool { return other == n })
	s.inbox.add(n)
}

// tick lets a tick pass, and reports whether something is over by then.
func (v *lineServer) tick() (over bool) {
	if v.ttl > 0 {
		if v.ttl--; v.ttl == 0 {
			v.holder, v.remains, over = 0, false, true
		}
	}
	for i := range v.alive {
		if v.alive[i] > 0 {
			v.alive[i]--
			over = over || v.alive[i] == 0
		}
	}
	return over
}

// failOver makes another server the one that everybody talks to. It lacks the last write, and whoever was granted the
// lock by that. Calls under way have no reply, and messages that were not read are lost.
func (w *lineWorld) failOver(r lineRules) {
	if v := &w.server; v.holder > 0 {
		w.excused |= 1 << v.holder
	}
	w.bounds.fails--
	w.failed = true
	w.server, w.replica = w.replica, lineServer{}
	w.stray = list[lineCall]{}
	for i := range w.s {
		s := &w.s[i]
		if s.inbox, s.down = (list[note]{}), !s.dead; s.call == acquiring {
			w.unanswered(i)
		}
	}
	w.disturb()
}

// tickServer lets a tick pass by the server's clock.
func (w *lineWorld) tickServer() {
	w.ahead = true
	if w.server.tick() {
		w.disturb()
	}
	w.replica.tick()
	for i := range w.s {
		if c := &w.s[i].ask; c.open > 0 {
			c.open--
		}
	}
	for i := range w.stray.items() {
		w.stray.all[i].open--
	}
}
