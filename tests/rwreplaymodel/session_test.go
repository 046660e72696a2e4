package rwreplaymodel_test

// What the session decides. Every function changes w and may report a violation: the decision was wrong, seen from outside.

// next is the number of a hold that is to be taken besides so many.
func (s *session) next(r rules, live int8) int8 {
	number := live + 1
	if r.skipNumbers {
		number = max(live, s.floor) + 1
	}
	s.top = max(s.top, number)
	return number
}

// ceiling is that of a release that is made now; 0 when the wire owner gets no holds any more.
func (w *world) ceiling(r rules) int8 {
	if r.ceilings && w.held() {
		return max(w.session.top, 1)
	}
	return 0
}

// doubt: a release of all numbers so far may be executed at any time from now on.
func (s *session) doubt() { s.floor = max(s.top, 1) }

// attempt sends an attempt to read. It reports false while it has to wait for another operation.
func (w *world) attempt(r rules, i int) bool {
	if r.serialised && w.flying() {
		return false
	}
	g, s := &w.g[i], &w.session
	switch {
	case w.live(0) > 0:
		w.giveUp(r, i) // what an earlier attempt may have left would be a second hold
		*g = reader{doing: acquiring, locks: g.locks, until: -1, reenters: true, tenure: s.tenure}
		g.msg = message{verb: acquireRead, count: s.next(r, w.live(0)), open: openFor}
	case w.writer.doing == holding:
		if g.number == 0 || g.number != s.top || r.freshNumbers {
			g.number = s.next(r, 0)
		}
		g.doing, g.answer = acquiring, none
		g.msg = message{verb: acquireRead, count: g.number, open: openFor}
	default: // under a wire owner of its own, of which this world knows nothing
		w.giveUp(r, i)
	}
	return true
}

// giveUp takes back what an acquisition beside the write half may have left, or may leave yet.
func (w *world) giveUp(r rules, i int) {
	g := &w.g[i]
	if g.until >= 0 {
		undo := message{verb: releaseRead, ceiling: g.number}
		if !r.undoOwn {
			undo.ceiling = max(w.session.top, 1)
		}
		if !r.ceilings {
			undo.ceiling = 0
		}
		if r.undoAtOnce {
			w.owe(undo, 0)
		}
		if r.undoAgain {
			w.owe(undo, g.until)
		}
		s := &w.session
		s.doubt()
		if r.undoReturns && w.live(0) == 0 {
			s.undone = true
		}
	}
	*g = g.rest()
}

// rest ends whatever g was doing.
func (g reader) rest() reader { return reader{locks: g.locks, until: -1} }

// settle takes the reply that has arrived for g.
func (w *world) settle(r rules, i int) violation {
	g := &w.g[i]
	if g.doing == releasing {
		wrong := w.settleRelease(r, g.msg, g.answer, g.tenure, g.sweeps)
		*g = g.rest()
		return wrong
	}
	switch g.answer {
	case granted:
		w.grant(r, i)
	case gone:
		held := w.held()
		w.giveUp(r, i)
		if held {
			return earlyLoss
		}
	default: // late: sent again, with another not-after
		g.answer, g.msg.open = none, openFor
	}
	return fine
}

// grant makes g a holder.
func (w *world) grant(r rules, i int) {
	g, s := &w.g[i], &w.session
	if !g.reenters {
		s.undone = false
		if r.oneTenure {
			s.tenure, s.copies, s.returned = 1, max(s.copies, g.until), 0
		} else {
			s.tenure, s.copies = s.tenure+1, max(g.until, 0)
		}
		g.tenure = s.tenure
	}
	*g = reader{doing: holding, locks: g.locks, until: -1, tenure: g.tenure}
}

// release sends a release. It reports false while it has to wait for another operation.
func (w *world) release(r rules, i int) bool {
	if r.serialised && w.flying() {
		return false
	}
	g := &w.g[i]
	g.doing, g.msg, g.sweeps = releasing, w.left(r, g.tenure), w.session.copies > 0
	return true
}

// left is the release of what a tenure has no more.
func (w *world) left(r rules, tenure int8) message {
	if r.restOfOwner {
		tenure = 0
	}
	m := message{verb: releaseRead, count: w.live(tenure), ceiling: w.ceiling(r)}
	if m.count > 0 && r.keepNumbers {
		m.count = max(m.count, w.session.floor+1)
	}
	return m
}

// settleRelease decides between nil and ErrLost, which needs a hold that was gone before. In this world nobody takes one away.
func (w *world) settleRelease(r rules, m message, a answer, tenure int8, sweeps bool) violation {
	s := &w.session
	returned := s.returned&(1<<tenure) != 0
	if m.count == 0 || a == nothing {
		s.returned |= 1 << tenure
		w.sweep(r, tenure, sweeps)
	}
	if a == nothing && !returned && !s.undone {
		return wrongErrLost
	}
	return fine
}

// sweep has the last release made once more when no copy of an acquisition can be executed any more.
func (w *world) sweep(r rules, tenure int8, sweeps bool) {
	s := &w.session
	if !r.sweepFromSend {
		sweeps = s.copies > 0
	}
	if r.sweepRepeats && sweeps && tenure == s.tenure {
		w.owe(message{verb: releaseRead, ceiling: w.ceiling(r)}, s.copies)
		w.session.doubt()
	}
}

// unanswered: nothing is heard of the attempt. A release is repeated in the same turn, or left to others to repeat.
func (w *world) unanswered(r rules, i int, repeat bool) {
	g, s := &w.g[i], &w.session
	switch {
	case g.doing == acquiring && g.reenters:
		if r.sweepReentries {
			s.copies = max(s.copies, g.msg.open)
		}
		w.correct(g.tenure, 0)
		if g.msg.open > 0 {
			w.correct(g.tenure, g.msg.open)
		}
		*g = reader{doing: wanting, locks: g.locks, until: -1}
	case g.doing == acquiring:
		*g = reader{doing: wanting, locks: g.locks, number: g.number, until: max(g.until, g.msg.open)}
		s.doubt()
	default:
		w.session.doubt()
		if g.msg.count == 0 {
			s.returned |= 1 << g.tenure
		}
		g.answer = none
		switch {
		case repeat:
			g.repeated = true
		case r.oweInTurn:
			w.repeatLater(r, g.msg, g.tenure)
			*g = g.rest()
		default:
			g.doing = owing
		}
	}
}

// repeatLater has a release repeated whose outcome is not known.
func (w *world) repeatLater(r rules, m message, tenure int8) {
	s := &w.session
	if m.count > 0 {
		w.correct(tenure, 0)
		return
	}
	w.owe(m, 0)
	if s.copies > 0 && tenure == s.tenure && r.sweepRepeats {
		w.owe(m, s.copies)
	}
	w.session.doubt()
}

// pay decides what g's release owes when others may have had their turn.
func (w *world) pay(r rules, i int) {
	g := &w.g[i]
	m := message{verb: releaseRead, count: w.live(g.tenure), ceiling: w.ceiling(r)}
	w.repeatLater(r, m, g.tenure)
	*g = g.rest()
}

// expired: the time of g's release was over before its turn came. What is true by its turn is told then.
func (w *world) expired(r rules, i int) {
	g := &w.g[i]
	if r.awaitTurn {
		w.correct(g.tenure, 0)
		*g = g.rest()
		return
	}
	g.doing = owing
}
