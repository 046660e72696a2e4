package model_test

// This file is what a session does that waits for permits.

// wants begins a call.
func (w *permWorld) wants(r permRules, i int) {
	s := &w.s[i]
	s.drawn++
	s.call, s.look, s.sure = wanting, r.nextStands || s.drawn == 1, true
}

// asking sends a call.
func (w *permWorld) asking(i int) {
	s := &w.s[i]
	o := w.present(i)
	s.call, s.look, s.sent, s.answer = acquiring, false, true, none
	s.ask = permCall{waiter: o, stand: !s.down || s.stands}
}

// executes has the server execute the call in flight.
func (w *permWorld) executes(r permRules, i int) (wrong violation) {
	s := &w.s[i]
	s.calm = true
	s.answer, wrong = w.takes(r, s.ask)
	return wrong
}

// takes executes a call, and looks for whom it overtakes.
func (w *permWorld) takes(r permRules, c permCall) (a answer, wrong violation) {
	before, o, had := w.server.line, c.waiter, w.server.taken.has(c.waiter)
	a = w.acquire(r, c)
	if a != granted || had {
		return a, fine
	}
	if w.bounds.ids {
		w.loose += w.n(o)
	}
	sum := int8(0)
	for _, other := range before.items() {
		if other == o || w.bounds.java > 0 {
			break
		}
		if w.server.stands(other) && w.lives(other) {
			if sum += w.n(other); sum > w.server.free {
				return a, overtaken
			}
		}
	}
	return a, fine
}

// lives reports whether a waiter is one.
func (w *permWorld) lives(o waiter) bool {
	return w.present(o.of()) == o && !w.s[o.of()].frozen
}

// settle handles the reply to a call.
func (w *permWorld) settle(i int) {
	s := &w.s[i]
	o := s.ask.waiter
	if s.answer == granted {
		s.call = idle
		s.holds.set(o, true)
		s.doubts.set(o, s.copies)
		if w.bounds.ids {
			w.loose -= w.n(o)
		}
		return
	}
	s.call, s.sure = wanting, s.calm
	s.stands = s.stands || s.ask.stand
	s.look = s.look || !s.ask.stand && !s.down // it can stand by now
}

// unanswered handles a call without a reply. Without ids, nobody can find out what it has done.
func (w *permWorld) unanswered(i int) {
	s := &w.s[i]
	if w.bounds.ids {
		s.call, s.look, s.copies = wanting, true, true
		return
	}
	s.copies = true
	w.givesUp(i)
}

// givesUp ends the session's call. Its place is left, and what may have been taken by ids is given back.
func (w *permWorld) givesUp(i int) {
	s := &w.s[i]
	o := w.present(i)
	if s.sent {
		w.debts.add(permDebt{waiter: o, again: s.copies || s.call == acquiring})
	}
	s.call = idle
}

// releases gives permits back.
func (w *permWorld) releases(r permRules, o waiter) {
	s := &w.s[o.of()]
	s.holds.set(o, false)
	has := !w.bounds.ids || w.server.taken.has(o)
	w.server.taken.set(o, false)
	if s.doubts.has(o) {
		s.doubts.set(o, false)
		w.debts.add(permDebt{waiter: o, last: true})
	}
	if !has { // a failover has lost it
		w.total -= w.n(o)
		return
	}
	w.release(r, w.n(o))
}

// pay has a debt paid.
func (w *permWorld) pay(r permRules, at int) {
	d := w.debts.all[at]
	w.debts.drop(func(other permDebt) bool { return other == d })
	if d.gives {
		w.loose -= w.n(d.waiter)
		w.release(r, w.n(d.waiter))
		return
	}
	if d.last {
		w.stray.drop(func(c permCall) bool { return c.waiter == d.waiter })
	}
	if w.leave(r, d.waiter); d.again && r.leavesAgain {
		w.debts.add(permDebt{waiter: d.waiter, last: true})
	}
}

// late executes a call that nobody waits for any more.
func (w *permWorld) late(r permRules, c permCall) (wrong violation) {
	w.stray.drop(func(other permCall) bool { return other == c })
	a, wrong := w.takes(r, c)
	switch {
	case a != granted || w.bounds.ids:
	case !c.back || w.s[c.waiter.of()].dead:
		w.lost += w.n(c.waiter)
	default:
		if w.loose += w.n(c.waiter); r.givesBack {
			w.debts.add(permDebt{waiter: c.waiter, gives: true})
		}
	}
	return wrong
}

// dies kills the process of a session.
func (w *permWorld) dies(i int) {
	s := &w.s[i]
	if s.call == acquiring && s.answer == none {
		w.leaveStray(i, false)
	}
	gone := int8(0)
	for o := waiter(1); o < waiters; o++ {
		if s.holds.has(o) {
			gone += w.n(o)
		}
	}
	if w.bounds.ids { // they come back by their leases
		w.loose += gone
	} else {
		if s.call == acquiring && s.answer == granted {
			gone += w.n(s.ask.waiter)
		}
		w.lost += gone
		for _, d := range w.debts.items() {
			if d.gives && d.waiter.of() == i {
				w.loose -= w.n(d.waiter)
				w.lost += w.n(d.waiter)
			}
		}
	}
	*s = permSession{dead: true, drawn: s.drawn}
	w.disturb()
}

// closes ends the session's call, and its subscriptions. What it owes is paid.
func (w *permWorld) closes(i int) {
	s := &w.s[i]
	if s.call == acquiring {
		w.leaveStray(i, true)
	}
	if s.call != idle {
		w.givesUp(i)
	}
	s.closed = true
	s.heard, s.marked = false, false
}

// leaveStray leaves a copy of the call in flight in the network, if there is room.
func (w *permWorld) leaveStray(i int, back bool) {
	if w.stray.n < w.bounds.strays {
		c := w.s[i].ask
		c.back = back
		w.stray.add(c)
	}
}
