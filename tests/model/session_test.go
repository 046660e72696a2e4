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
	if !w.turn(r) {
		return false
	}
	way, has, giveUp := w.claim.Next(&g.request, g.half, true)
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
			g.request.Wire, g.request.Number = has.Wire, number
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
	before, known := g.request.Number, w.claim.Known()
	if !r.freshNumbers && before > 0 && before == known.Top {
		return before
	}
	number := w.claim.Number(has, g.half, length, w.now)
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
	undo := w.claim.GiveUp(&g.request, w.now, w.memory())
	if undo.Wire != "" && numbered {
		w.undone = true
		if !r.undoOwn {
			undo.Ceiling = max(w.claim.Known().Top, 1)
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
		w.settleGrant(r, i)
		return fine
	case busy:
		g.request.Busy(g.sent)
	case gone:
		has, sent := g.grant, g.sent
		w.giveUp(r, i)
		*g = g.idle()
		return w.lose(r, has, sent)
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
		w.claim.Failed(&g.request)
	}
	*g = goroutine{half: g.half, locks: g.locks, doing: wanting, request: g.request, doubted: g.doubted}
}

func (w *world) settleGrant(r rules, i int) {
	g := &w.g[i]
	from := g.sent
	if !r.trustFromSend {
		from = w.now
	}
	until := w.trust(r, w.length(i), from)
	inTime := w.now < until
	if g.way == owner.Reenter {
		if !inTime {
			g.grant.Lasts(w.leased(w.length(i)))
			w.correct(g.grant, w.now)
			*g = g.idle()
			return
		}
		w.claim.Reentered(g.grant, 0)
		w.add(i, until)
		return
	}
	g.doubted = g.doubted || g.request.Copies > 0
	w.claim.Granted(&g.request)
	if inTime {
		w.hold(r, i, from)
		return
	}
	w.emptied, w.undone = false, false
	if r.returnLateGrant {
		g.request.Copies = max(g.request.Copies, g.sent)
		w.giveUp(r, i)
	}
	*g = g.idle()
}

// hold makes g, whose request was granted, the holder of a new grant.
func (w *world) hold(r rules, i int, sent time.Duration) {
	g := &w.g[i]
	g.grant = new(grant)
	copies := g.request.Copies
	if !r.sweepRepeats {
		copies = 0
	}
	g.grant.Begin(i, g.half, g.request.Wire, 0, copies)
	w.add(i, w.trust(r, w.length(i), sent))
}

// add makes g a holder.
func (w *world) add(i int, until time.Duration) {
	g := &w.g[i]
	w.emptied, w.undone = false, false
	*g = goroutine{
		half: g.half, locks: g.locks, doing: holding, grant: g.grant, hold: new(hold), gone: g.gone, doubted: g.doubted,
	}
	g.hold.Begin(i, w.now, until)
	w.claim.Add(g.grant, g.hold, w.leased(w.length(i)), w.watched(i))
}

// end ends g's hold; its release waits for its turn.
func (w *world) end(i int) {
	g := &w.g[i]
	w.claim.Drop(g.grant, g.hold, w.watched(i), false, w.now)
	g.doing, g.hold = ended, nil
}

// release sends a release.
func (w *world) release(r rules, i int) {
	g := &w.g[i]
	g.doing, g.rest, g.sent = releasing, w.rest(r, g.grant), w.now
	g.msg = r.messageOf(g.half, g.rest)
}

func (r rules) messageOf(half owner.Half, rest owner.Remaining) message {
	return message{
		verb: release, half: half, owner: wireOf(rest.Owner), count: int8(rest.Count), ceiling: int8(rest.Ceiling),
	}
}

// rest is what a release of g must leave.
func (w *world) rest(r rules, g *grant) owner.Remaining {
	rest := w.claim.Remaining(g, w.now)
	half := g.State().Half
	if !r.restOfOwner {
		rest.Count = min(rest.Count, g.Count(w.now))
	}
	if !r.keepNumbers && half == owner.Shared {
		count := g.Count(w.now)
		if own, _ := w.claim.Held(half); own != nil {
			count = own.Count(w.now)
		}
		rest.Count = min(rest.Count, count)
	}
	if !r.ceilings {
		rest.Ceiling = 0
	}
	return rest
}

// settleRelease decides between nil and ErrLost. ErrLost needs a hold that was gone before the release was first
// executed. A nil may hide a loss only if a reply was lost, to this release or to the acquisition, that would have
// told of it.
func (w *world) settleRelease(r rules, i int) violation {
	was := w.g[i]
	means := w.released(r, was.grant, was.rest, was.sent, was.answer)
	w.g[i] = was.idle()
	lost := means == owner.Absent
	if !r.firstMissIsLoss && !was.repeated || !r.nextMissIsDone && was.repeated && was.answer == nothing {
		lost = !lost && was.answer == nothing
	}
	excused := (was.repeated || was.doubted) && !w.bounds.strict
	// See TestNotPromised.
	forced := was.repeated && was.rest.Count > 0 && w.bounds.kind == plain && !w.bounds.strict
	switch {
	case lost && was.gone == notGone && !forced:
		return wrongErrLost
	case !lost && was.gone != notGone && !excused:
		return hiddenLoss
	case lost:
		return w.lose(r, was.grant, w.now)
	}
	return fine
}

// released handles the reply to a release, and returns what it means.
func (w *world) released(r rules, g *grant, rest owner.Remaining, sent time.Duration, a answer) int64 {
	reply := int64(owner.Lowered)
	switch {
	case a == nothing:
		reply = owner.Absent
	case rest.Count == 0:
		reply = owner.Freed
	}
	if !r.sweepFromSend {
		sent = w.now
	}
	half, forestalled := g.State().Half, g.Returned()
	means, again := w.claim.Replied(g, rest, sent, w.now, reply, w.memory())
	if half == owner.Shared && w.claim.Known().Top > 0 {
		forestalled = forestalled || r.oneRelease && w.emptied || r.undoReturns && w.undone
	}
	if reply == owner.Absent && !forestalled {
		means = owner.Absent
	}
	if means == owner.Absent { // one release has reported the loss
		w.inTheDark(g)
	}
	w.emptied = w.emptied || half == owner.Shared && (rest.Count == 0 || means == owner.Absent)
	w.owe(half, again, false, r)
	return means
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
		*g = goroutine{half: g.half, locks: g.locks, doing: wanting, request: g.request}
		if w.bounds.kind == leases {
			*g = g.idle()
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

// inDoubt handles a release without a reply.
func (w *world) inDoubt(g *grant, rest owner.Remaining) {
	w.claim.InDoubt(g, rest)
	if rest.Count == 0 { // another release may have freed what finds nothing now
		w.inTheDark(g)
	}
	w.emptied = w.emptied || rest.Count == 0 && g.State().Half == owner.Shared
}

// pay repeats g's release, when others may have had their turn.
func (w *world) pay(r rules, i int) {
	g := &w.g[i]
	if !r.oweInTurn {
		g.rest = w.rest(r, g.grant)
	}
	w.do(r, g.grant, w.claim.Owe(g.grant, g.rest, w.now))
	*g = g.idle()
}

// outOfTurn handles a release of g whose time was over before its turn came. When its turn comes, the server is told
// what is true by then.
func (w *world) outOfTurn(r rules, i int) {
	g := &w.g[i]
	if r.awaitTurn {
		w.correct(g.grant, w.now)
		*g = g.idle()
		return
	}
	g.doing, g.rest = owing, w.rest(r, g.grant)
}

// do starts the background calls for what the server still has to be told.
func (w *world) do(r rules, g *grant, duty owner.Duty) {
	if duty.Correct {
		w.correct(g, w.now)
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
	}
	if !r.sweepFromSend {
		sent = w.now
	}
	again := w.claim.Recheck(g, sent, w.now, w.memory())
	w.owe(g.State().Half, again, false, r)
	return found
}

// loseHold ends one hold as lost.
func (w *world) loseHold(r rules, i int) {
	g := &w.g[i]
	if w.asked(r, g); g.doing == extending {
		g.grant.Lasts(w.leased(g.msg.lease)) // or so, when the call is over
	}
	has := g.grant
	w.claim.Drop(has, g.hold, w.watched(i), false, w.now)
	has.Lose()
	w.do(r, has, w.claim.Sweep(has, w.now, true))
	*g = g.idle()
}
