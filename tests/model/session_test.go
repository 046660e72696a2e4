package model_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// This file is what the session does, as internal/core does it: it asks package owner and does what that says. Every
// function changes w and may report a violation, if the decision was wrong as seen from outside.

// attempt sends an attempt to acquire. It returns false if there is nothing to send yet.
func (w *world) attempt(r rules, i int) bool {
	g := &w.g[i]
	if !w.turn(r, g.claim) {
		return false
	}
	way, has, giveUp := w.asks(g).Next(&g.request, g.half, true)
	if giveUp {
		w.giveUp(r, i)
	}
	g.way, g.grant = way, has
	m := message{verb: acquire, half: g.half, count: 1, lease: w.length(i)}
	switch way {
	case owner.Reenter, owner.Beside:
		number := w.number(r, i, has)
		if number == 0 {
			return false
		}
		if g.request.Wire = ""; way == owner.Beside {
			g.request.Wire, g.request.Number = has.Wire, int32(number)
		}
		m.owner, m.count, m.nested = wireOf(has.Wire), int8(number), true
	case owner.Enter:
		if w.bounds.kind != plain { // under a separate wire owner, which this world leaves out
			w.giveUp(r, i)
			*g = g.idle()
			return true
		}
		if g.request.Wire == "" {
			if w.drawn++; !r.freshOwner {
				w.drawn = 1
			}
			g.request.Wire = wires[w.drawn]
		}
		m.owner = wireOf(g.request.Wire)
	case owner.Blocked:
		return false
	}
	g.doing, g.msg = acquiring, m
	w.send(g)
	return true
}

// send notes when a call is sent, and until when, by the server's clock, copies of it may be executed.
func (w *world) send(g *goroutine) {
	g.sent, g.answer = w.now, none
	switch g.msg.verb {
	case acquire:
		g.copies, g.msg.open = w.serverNow()+openFor*tick, openFor
		if w.bounds.kind == leases {
			g.msg.open = always
		}
	case trim:
		g.msg.open = trimFor
	default:
	}
}

// number is the number of the hold that g asks for, 0 if it may not ask now.
func (w *world) number(r rules, i int, has *grant) int {
	g, length := &w.g[i], time.Duration(w.length(i))*tick
	if !r.refuseLonger {
		length = 0
	}
	before, known := int(g.request.Number), w.asks(g).Known()
	if !r.freshNumbers && before > 0 && before == known.Top {
		return before
	}
	number := w.asks(g).Number(has, g.half, length, w.now)
	if !r.skipNumbers {
		if number = 1; has.State().Half == g.half {
			number += has.Count(w.now)
		}
	}
	return number
}

// giveUp takes back what earlier attempts may have left, or may still leave.
func (w *world) giveUp(r rules, i int) {
	g := &w.g[i]
	numbered := g.request.Number > 0
	undo := w.asks(g).GiveUp(&g.request, w.now, w.memory())
	if undo.Wire != "" && numbered {
		w.undone = true
		if !r.undoOwn {
			undo.Ceiling = max(w.asks(g).Known().Top, 1)
		}
	}
	w.owe(g.half, undo, true, r)
}

// settle handles the reply to g. A late acquisition is sent again at once, or returned to its caller.
func (w *world) settle(r rules, i int, again bool) violation {
	g := &w.g[i]
	switch g.doing {
	case releasing:
		return w.settleRelease(r, i)
	case extending, renewing:
		return w.settleLease(r, i)
	case trimming:
		w.settleTrim(r, i, again)
		return fine
	default:
	}
	switch g.answer {
	case granted:
		return w.settleGrant(r, i)
	case busy:
		g.request.Busy(g.sent)
	case gone:
		has, sent := g.grant, g.sent
		w.giveUp(r, i)
		wrong := w.lose(r, has, sent)
		w.stop(r, i)
		return wrong
	}
	if !r.doubtRefusal {
		g.request.Copies = 0
	}
	if again {
		w.send(g)
		return fine
	}
	w.failed(g)
	return fine
}

// failed ends an attempt without a hold.
func (w *world) failed(g *goroutine) {
	if g.way == owner.Beside {
		w.asks(g).Failed(&g.request)
	}
	was := *g
	*g = was.idle()
	g.doing, g.request, g.doubted = wanting, was.request, was.doubted
}

func (w *world) settleGrant(r rules, i int) violation {
	g := &w.g[i]
	from, sent := g.sent, g.sent
	if !r.trustFromSend {
		from = w.now
	}
	until := w.trust(r, w.length(i), from)
	inTime := w.now < until
	if g.way == owner.Reenter {
		if !inTime {
			g.grant.Lasts(w.leased(w.length(i)))
			w.correct(g.grant, w.now)
			w.stop(r, i)
			return fine
		}
		w.claim(g.grant).Reentered(g.grant, 0)
		w.add(i, until)
		return w.refuse(r, i, sent)
	}
	g.doubted = g.doubted || g.request.Copies > 0
	w.asks(g).Granted(&g.request)
	if inTime {
		w.hold(r, i, from)
		return w.refuse(r, i, sent)
	}
	w.emptied, w.undone = false, false
	if r.returnLateGrant {
		g.request.Copies = max(g.request.Copies, g.sent)
		w.giveUp(r, i)
	}
	w.stop(r, i)
	return fine
}

// hold makes g, whose request was granted, the holder of a new grant.
func (w *world) hold(r rules, i int, sent time.Duration) {
	g := &w.g[i]
	g.grant = new(grant)
	copies := g.request.Copies
	if !r.sweepRepeats {
		copies = 0
	}
	g.grant.Begin(g.claim, g.half, g.request.Wire, 0, copies)
	w.add(i, w.trust(r, w.length(i), sent))
}

// add makes g a holder.
func (w *world) add(i int, until time.Duration) {
	g := &w.g[i]
	w.emptied, w.undone = false, false
	was := *g
	*g = was.idle()
	g.doing, g.grant, g.hold, g.gone, g.doubted = holding, was.grant, new(hold), was.gone, was.doubted
	g.hold.Begin(i, w.now, until)
	w.claim(g.grant).Add(g.grant, g.hold, w.leased(w.length(i)), w.watched(i))
}

// unanswered handles an attempt without a reply. A release is repeated in the same turn, or left to others to repeat.
func (w *world) unanswered(r rules, i int, repeat bool) {
	g := &w.g[i]
	switch {
	case g.doing == extending, g.doing == renewing, g.doing == trimming:
		w.leaseUnanswered(r, i)
	case g.doing == acquiring && g.way == owner.Reenter:
		copies := g.copies
		if !r.sweepReentries {
			copies = 0
		}
		until := w.leased(w.length(i))
		if !r.lengthInDoubt {
			until = 0
		}
		g.grant.ReentryInDoubt(until, copies)
		w.correct(g.grant, w.now)
		w.correct(g.grant, g.copies)
		was := *g
		if *g = was.idle(); w.bounds.kind != leases {
			g.doing, g.request = wanting, was.request
		}
	case g.doing == acquiring:
		g.request.Copies, g.doubted = g.copies, true
		w.failed(g)
	default:
		w.inDoubt(g.grant, g.rest)
		if g.answer = none; repeat {
			g.repeated, g.sent = true, w.now
			return
		}
		g.doing = owing
	}
}

// do starts the background calls for what the server still has to be told.
func (w *world) do(r rules, g *grant, duty owner.Duty) {
	if duty.Correct {
		w.correct(g, max(w.now, duty.Then))
	}
	w.owe(g.State().Half, duty.Debt, false, r)
}

// lose ends every hold of a grant after a call, sent at that moment, has found nothing on the server.
func (w *world) lose(r rules, g *grant, sent time.Duration) (found violation) {
	g.Gone()
	for i := range w.g {
		if o := &w.g[i]; o.has() && o.grant == g {
			if o.gone == notGone {
				found = earlyLoss
			}
			w.loseHold(r, i)
		}
		if t := &w.g[i].gift; t.grant == g {
			if t.gone == notGone {
				found = earlyLoss
			}
			w.loseGift(r, i)
		}
	}
	if !r.sweepFromSend {
		sent = w.now
	}
	duty := w.claim(g).Missed(g, sent, w.now, w.memory())
	if !r.missInTurn {
		duty = owner.Duty{Debt: w.claim(g).Recheck(g, sent, w.now, w.memory())}
	}
	w.do(r, g, duty)
	return found
}

// loseHold ends one hold as lost.
func (w *world) loseHold(r rules, i int) {
	g := &w.g[i]
	if w.asked(r, g); g.doing == extending {
		g.grant.Lasts(w.leased(g.msg.lease)) // or so, when the call is over
	}
	w.lost(r, g.grant, g.hold, w.watched(i))
	*g = g.idle()
}

// lost drops a hold that was lost.
func (w *world) lost(r rules, has *grant, h *hold, watched bool) {
	c := w.claim(has)
	c.Drop(has, h, watched, false, w.now)
	duty := c.Lost(has, h, watched, w.now, w.found(has))
	if duty.Debt.Wire != "" {
		w.inTheDark(has)
	}
	w.do(r, has, duty)
}
