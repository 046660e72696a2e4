package model_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// The part of the session that releases.

// end ends g's hold; its release waits for its turn.
func (w *world) end(i int) {
	g := &w.g[i]
	w.claim(g.grant).Drop(g.grant, g.hold, w.watched(i), false, w.now)
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
	rest := w.claim(g).Remaining(g, w.now)
	half := g.State().Half
	if !r.restOfOwner {
		rest.Count = min(rest.Count, g.Count(w.now))
	}
	if !r.keepNumbers && half == owner.Shared {
		count := g.Count(w.now)
		if own, _ := w.claim(g).Held(half); own != nil {
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
func (w *world) released(r rules, g *grant, rest owner.Remaining, sent time.Duration, a answer) owner.Outcome {
	done := owner.Released{Outcome: owner.Lowered}
	switch {
	case a == nothing:
		done.Outcome = owner.Absent
	case rest.Count == 0:
		done.Outcome = owner.Freed
	}
	if !r.sweepFromSend {
		sent = w.now
	}
	half, forestalled := g.State().Half, g.Returned()
	means, again := w.claim(g).Replied(g, rest, sent, w.now, done, w.memory())
	if half == owner.Shared && w.claim(g).Known().Top > 0 {
		forestalled = forestalled || r.oneRelease && w.emptied || r.undoReturns && w.undone
	}
	if done.Outcome == owner.Absent && !forestalled {
		means = owner.Absent
	}
	if means == owner.Absent { // one release has reported the loss
		w.inTheDark(g)
	}
	w.emptied = w.emptied || half == owner.Shared && (rest.Count == 0 || means == owner.Absent)
	w.owe(half, again, false, r)
	return means
}

// inDoubt handles a release without a reply.
func (w *world) inDoubt(g *grant, rest owner.Remaining) {
	w.claim(g).InDoubt(g, rest)
	if rest.Count == 0 { // another release may have freed what finds nothing now
		w.inTheDark(g)
	}
	w.emptied = w.emptied || rest.Count == 0 && g.State().Half == owner.Shared
}

// refused handles a release that was not executed, and is left to others.
func (w *world) refused(r rules, i int) {
	g := &w.g[i]
	if r.doubtRefused && g.rest.Count == 0 {
		w.inDoubt(g.grant, g.rest)
	}
	g.doing = owing
}

// pay repeats g's release, when others may have had their turn.
func (w *world) pay(r rules, i int) {
	g := &w.g[i]
	if !r.oweInTurn {
		g.rest = w.rest(r, g.grant)
	}
	memory := w.memory()
	if !r.oweCopies {
		memory = 0
	}
	w.do(r, g.grant, w.claim(g.grant).Owe(g.grant, g.rest, w.now, memory))
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
