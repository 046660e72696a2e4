package replaymodel_test

// What the session decides. Every function changes w and may report a violation: the decision was wrong, seen from outside.

// lock sends the first attempt of an acquisition. It reports false while it has to wait for another operation.
func (w *world) lock(r rules, i int) bool {
	o, s := w.session.wire, &w.session
	if o == nobody {
		o = 1
		if r.freshOwner {
			o = s.drawn + 1
		}
	}
	if r.serialised && w.inFlight(o) > 0 {
		return false
	}
	s.wire, s.drawn = o, max(s.drawn, o)
	g := &w.g[i]
	*g = goroutine{
		doing: acquiring, locks: g.locks - 1, trust: r.trustFor(),
		msg: message{verb: acquire, owner: o, count: s.count + 1, open: openFor},
	}
	return true
}

// unlock ends g's hold and sends the first attempt of its release. It reports false while it has to wait.
func (w *world) unlock(r rules, i int) bool {
	g := &w.g[i]
	if r.serialised && w.inFlight(g.msg.owner) > 0 {
		return false
	}
	w.session.count--
	g.doing = releasing
	g.msg = message{verb: release, owner: g.msg.owner, count: w.session.count}
	w.forgetOwner()
	return true
}

// settle takes the reply that has arrived for g.
func (w *world) settle(r rules, i int) violation {
	g := &w.g[i]
	switch g.doing {
	case acquiring:
		return w.settleAcquire(r, i)
	case releasing:
		return w.settleRelease(r, i)
	case undoing:
		*g = g.rest()
	case idle, holding:
		panic("a reply nobody waits for")
	}
	return fine
}

// settleRelease decides between nil and ErrLost. ErrLost needs a hold that was gone before the release was first executed. A nil
// that hides a loss is excused only by a lost reply, of this release or of the acquisition, without which it would have been known.
func (w *world) settleRelease(r rules, i int) violation {
	was := w.g[i]
	w.g[i] = was.rest()
	isLost := was.answer == nothing && (r.firstMissIsLoss && !was.repeated || !r.nextMissIsDone && was.repeated)
	excused := (was.repeated || was.doubted) && !w.bounds.strict
	switch {
	case isLost && was.gone == notGone:
		return wrongErrLost
	case !isLost && was.gone != notGone && !excused:
		return hiddenLoss
	}
	return fine
}

func (w *world) settleAcquire(r rules, i int) violation {
	g := &w.g[i]
	if !r.trustFromSend {
		g.trust = r.trustFor()
	}
	switch {
	case g.answer == granted && g.trust > 0:
		if g.repeated && r.sweepRepeats {
			w.planSweep(g.msg)
		}
		w.session.wire = g.msg.owner
		w.session.count++
		*g = goroutine{
			doing: holding, locks: g.locks, trust: g.trust, gone: g.gone, doubted: g.doubted || g.repeated,
			msg: message{owner: g.msg.owner},
		}
	case g.answer == granted && r.returnLateGrant:
		w.giveUp(r, i)
	case (g.answer == busy || g.answer == late) && g.repeated && r.doubtRefusal:
		w.giveUp(r, i)
	case g.answer == gone:
		o := g.msg.owner
		*g = g.rest()
		return w.lose(o)
	default:
		*g = g.rest()
		w.forgetOwner()
	}
	return fine
}

// unanswered is what the session does about an attempt without a reply: repeat it, or give up.
func (w *world) unanswered(r rules, i int, repeat bool) {
	g := &w.g[i]
	switch {
	case repeat:
		g.answer, g.repeated = none, true
		if g.doing == acquiring {
			g.trust = r.trustFor()
		}
	case g.doing == acquiring:
		w.giveUp(r, i)
	default: // a release, at the end of its trust: ErrUnknown
		w.lapse(g.msg.owner)
		*g = g.rest()
	}
}

// mayRepeat: an acquire until its not-after, a release until its trust has ended, an undo until it is answered.
func (g goroutine) mayRepeat() bool {
	return g.doing == undoing || g.doing == releasing && g.trust > 0 || g.doing == acquiring && g.msg.open > 0
}

// mayGiveUp: an acquire whenever its caller wants, a release only when its trust has ended, an undo never.
func (g goroutine) mayGiveUp() bool {
	return g.doing == acquiring || g.doing == releasing && g.trust == 0
}

// giveUp takes an acquisition back whose outcome is unknown or came too late. The session sets its own count.
func (w *world) giveUp(r rules, i int) {
	g := &w.g[i]
	if r.undoAgain {
		w.planSweep(g.msg)
	}
	m := message{verb: release, owner: g.msg.owner}
	*g = g.rest()
	w.forgetOwner()
	if w.session.wire == m.owner {
		m.count = w.session.count
	}
	if r.undoAtOnce {
		g.doing, g.msg = undoing, m
	} else if m.count > 0 {
		w.drift = true
	}
}

// planSweep remembers that strays of m's wire owner may be executed until its not-after.
func (w *world) planSweep(m message) {
	w.sweep[m.owner] = max(w.sweep[m.owner], m.open+1)
}

// maySweep: after the not-after, and alone. It is answered in the same step: until it is, it is repeated.
func (w *world) maySweep(r rules, o owner) bool {
	return w.sweep[o] == 1 && (!r.serialised || w.inFlight(o) == 0)
}

// sweepOwner frees what strays have left; a wire owner still in use needs no sweep, since its last release comes after them all.
func (w *world) sweepOwner(r rules, o owner) {
	w.sweep[o] = 0
	if w.session.wire != o {
		r.run(&w.server, message{verb: release, owner: o})
	}
}

// forgetOwner retires the wire owner once nothing is held under it and nobody asks for it.
func (w *world) forgetOwner() {
	s := &w.session
	asked := false
	for _, g := range w.g {
		asked = asked || g.doing == acquiring && g.msg.owner == s.wire
	}
	if s.count == 0 && !asked {
		s.wire = nobody
	}
}

// lose tells every hold of a wire owner that the server has dropped it.
func (w *world) lose(o owner) violation {
	found := fine
	for i, g := range w.g {
		if g.doing == holding && g.msg.owner == o {
			if g.gone == notGone {
				found = earlyLoss
			}
			w.session.count--
			w.g[i] = g.rest()
		}
	}
	w.forgetOwner()
	return found
}

// lapse records that a hold has ended here with its key left to run out.
func (w *world) lapse(o owner) {
	w.forgetOwner()
	if w.server.owner == o {
		w.server.remains, w.drift = true, true
	}
}
