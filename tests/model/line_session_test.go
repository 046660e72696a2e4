package model_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// This file is what a session does that stands in a line, as internal/core does it: it asks package owner and does what
// that says. A rule that is dropped is ignored here.

// wants begins a call, which may find the place of an earlier one.
func (w *lineWorld) wants(r lineRules, i int) {
	s := &w.s[i]
	s.calls--
	s.call, s.look, s.sure = wanting, true, false
	s.request, s.estate = s.estate, owner.Request{}
	if s.request.Wire != "" && !r.bequeathsTime {
		s.request.Stood = w.now
	}
}

// asking sends a call that stands. It reports false if the session has no wire owner left to draw.
func (w *lineWorld) asking(r lineRules, i int) bool {
	s := &w.s[i]
	again := s.request.Wire != ""
	if !again {
		if s.drawn == w.bounds.draws[i] {
			return false
		}
		s.drawn++
		s.request.Wire = wire(i*wiresEach + int(s.drawn)).String()
	}
	s.call, s.look, s.answer, s.sent = acquiring, false, none, w.now
	s.ask = lineCall{wire: wireCalled(s.request.Wire), again: again, open: openFor}
	if w.bounds.fair {
		s.ask.hears, s.hears = !s.down, s.hears && again // each wire owner has a channel of its own
	}
	s.copies = w.serverNow() + openFor*tick
	if !r.stoodReplied {
		s.request.Stands, s.request.Stood = true, s.sent
	}
	return true
}

// settle handles the reply to a call.
func (w *lineWorld) settle(r lineRules, i int) {
	s := &w.s[i]
	s.call = wanting
	if s.after && (s.answer == busy || s.answer == gone) { // it is told now
		w.excused &^= 1 << s.ask.wire
	}
	switch s.answer {
	case granted:
		until := s.sent + (leaseTicks-safety)*tick
		if w.now < until {
			w.hold(i, leaseTicks, until)
			return
		}
		s.request.Copies = max(s.request.Copies, s.sent)
		w.giveUp(r, i, &s.request, true)
		s.look = true
	case busy:
		s.request.Waits(s.sent, 0)
		s.sure, s.look = s.calm, s.look || s.first && !s.hears // when it hears the others, it looks again
		s.hears = s.first
	case gone:
		if !r.newPlace {
			s.request.Busy(s.sent)
			s.sure = s.calm
			return
		}
		s.request.Misplaced(s.sent)
		w.giveUp(r, i, &s.request, true)
		s.look = true
	default:
		s.look = true
	}
}

// unanswered handles a call without a reply.
func (w *lineWorld) unanswered(i int) {
	s := &w.s[i]
	s.call, s.look, s.request.Copies = wanting, true, s.copies
}

// told handles what a message says that has reached a session.
func (w *lineWorld) told(r lineRules, i int) {
	s := &w.s[i]
	if n := s.inbox.shift(); n > 0 {
		s.mail = wire(n)
	}
	s.look = s.call == wanting || s.call == acquiring && (s.look || r.looksAgain)
}

// handed makes a call hold the lock because it was told so, if that is to be believed.
func (w *lineWorld) handed(r lineRules, i int) {
	s := &w.s[i]
	name, trusted := s.mail.String(), time.Duration(handedTicks)
	if r.handedMargin {
		trusted -= safety
	}
	if s.mail = 0; !r.ownMessage {
		name = s.request.Wire
	}
	trusted *= tick
	request := s.request
	if !r.fromStood {
		request.Stood = w.now
	}
	until, ok := request.Told(name, trusted, w.now)
	if !ok && !r.confirms && request.Stands && request.Wire == name {
		until, ok = w.now+trusted, true
	}
	if !ok {
		s.look = true
		return
	}
	if !r.keepsCopies {
		s.request.Copies = 0
	}
	length := int8(leaseTicks)
	if !r.leaseOfCalls {
		length = handedTicks
	}
	w.hold(i, length, until)
}

// hold makes a call that was granted the lock its holder.
func (w *lineWorld) hold(i int, length int8, until time.Duration) {
	s := &w.s[i]
	w.begin(s, tenure{
		wire: wireCalled(s.request.Wire), trust: until, until: w.leased(length), copies: s.request.Copies,
	})
	s.call = idle
}

// handOver hands the lock over to the session's call, which leaves its place in the line to the next one.
func (w *lineWorld) handOver(r lineRules, i int) {
	s := &w.s[i]
	s.call = idle
	switch {
	case !s.request.Stands && s.request.Copies == 0:
	case !r.bequeaths:
	case s.request.Stands:
		s.estate = s.request
	default:
		w.giveUp(r, i, &s.request, true)
	}
}

// succeeds ends the session's call and begins the next one, which has waited here for its turn.
func (w *lineWorld) succeeds(r lineRules, i int) {
	s := &w.s[i]
	if r.bequeaths {
		s.estate = s.request
	}
	s.request = owner.Request{}
	w.wants(r, i)
}

// giveUp takes back what a request has left or may still leave.
func (w *lineWorld) giveUp(r lineRules, i int, request *owner.Request, owes bool) {
	var c claim
	name, copies := request.Wire, request.Copies
	undo := c.GiveUp(request, w.now, lineMemory)
	switch {
	case !owes, !r.undoesPlaces && copies == 0, undo.Wire == "":
		return
	case !r.undoesAgain:
		undo = owner.Undo(name, 0, w.now, 0, lineMemory)
	}
	w.debts.add(lineDebt{Debt: undo, of: int8(i), undo: true, leaves: r.leavesLine})
}

// owe has given back what a hold may have left. A copy may have put its wire owner into the line.
func (w *lineWorld) owe(r lineRules, i int, d owner.Debt) {
	if d.Wire != "" {
		w.debts.add(lineDebt{Debt: d, of: int8(i), leaves: r.rechecksLine})
	}
}

// ends begins the release of a hold.
func (w *lineWorld) ends(i int) {
	s := &w.s[i]
	s.holds, s.gave = releasing, w.now
}

// settleRelease handles the reply to a release.
func (w *lineWorld) settleRelease(r lineRules, i int, a answer) {
	s := &w.s[i]
	c, g, h := s.held.claim(w.now)
	c.Drop(g, h, true, false, w.now)
	done := owner.Released{Outcome: owner.Freed}
	if a == nothing {
		done.Outcome = owner.Absent
	}
	_, again := c.Replied(g, owner.Remaining{Owner: g.Wire}, s.gave, w.now, done, lineMemory)
	w.owe(r, i, again)
	s.holds = idle
}

// releaseInDoubt handles a release without a reply.
func (w *lineWorld) releaseInDoubt(r lineRules, i int) {
	s := &w.s[i]
	c, g, h := s.held.claim(w.now)
	c.Drop(g, h, true, false, w.now)
	rest := owner.Remaining{Owner: g.Wire}
	c.InDoubt(g, rest)
	w.owe(r, i, c.Owe(g, rest, w.now, lineMemory).Debt)
	s.holds = idle
}

// pay has a debt paid.
func (w *lineWorld) pay(r lineRules, at int, toAnybody bool) (wrong violation) {
	d := &w.debts.all[at]
	o := wireCalled(d.Wire)
	if r.leavesLock || !d.undo {
		_, wrong = w.release(r, o, d.leaves, toAnybody)
	} else {
		w.server.forget(o)
	}
	d.Paid()
	return wrong
}

// tickSession ends the holds that are no longer trusted.
func (w *lineWorld) tickSession(r lineRules) {
	w.ahead = false
	w.now += tick
	for i := range w.s {
		s := &w.s[i]
		if s.holds != holding || s.believes(w.now) {
			continue
		}
		c, g, h := s.held.claim(w.now)
		c.Drop(g, h, true, false, w.now)
		duty := c.Lost(g, h, true, w.now, false)
		w.owe(r, i, duty.Debt)
		if w.server.holder == s.held.wire {
			w.server.remains = duty.Debt.Wire == ""
		}
		s.holds = idle
	}
}

// dies kills the process of a session.
func (w *lineWorld) dies(i int) {
	s := &w.s[i]
	if s.call == acquiring && s.answer == none && w.stray.n < w.bounds.strays {
		w.stray.add(s.ask)
	}
	*s = lineSession{dead: true, drawn: s.drawn}
	w.disturb()
}
