package model_test

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// Where calls of several owners wait for a lock, a release hands it over to one of them, as in internal/core. The wire
// owner stays, and so does everything that is under way for it: only the claim that has it becomes another owner's. Two
// owners are enough. The calls of the first one nest. The other one is a goroutine whose calls have no owner in their
// context, so that no other call finds its claims.

const crossed violation = "a call waits for a lock that its own owner has"

// A gift is a hold that was handed over to a call, until that takes it.
type gift struct {
	grant   *grant
	hold    *hold
	gone    cause
	doubted bool
}

// owner is whose goroutine it is.
func (w *world) owner(i int) int {
	if w.bounds.other > 0 && i == other {
		return 1
	}
	return 0
}

// callOf is the claim that a new call has.
func (w *world) callOf(i int) int { return w.of[w.owner(i)] }

// found reports whether another call can find the claim of a grant.
func (w *world) found(g *grant) bool { return w.of[0] == g.Of }

// calls is how many holds and calls of an owner have a claim.
func (w *world) calls(of int) (n int) {
	for i := range w.g {
		switch g := &w.g[i]; g.doing {
		case wanting, acquiring, holding:
			if g.claimOf() == of {
				n++
			}
		default:
		}
	}
	return n
}

// had is how many live holds of a grant somebody has.
func (w *world) had(has *grant) (n int) {
	for i := range w.g {
		if g := &w.g[i]; g.has() && g.grant == has {
			n++
		}
		if w.g[i].gift.grant == has {
			n++
		}
	}
	return n
}

// passes reports whether a hold may pass on to another owner. A rule that is taken out is a condition that is dropped.
func (w *world) passes(r rules, has *grant, h *hold) bool {
	if r.passAlone && w.calls(has.Of) > 1 || r.passIdle && w.flying(has.Of) {
		return false
	}
	s := has.State()
	return w.claim(has).Passes(has, h, w.now, 1) || !r.everyCondition() &&
		(s.Live == 1 || !r.passLast) && (s.Detached == 0 || !r.passUndetached) && (!s.Lost || !r.passUnlost) &&
		(!s.Returned || !r.passUnreturned) && (h.Trusted(w.now) || !r.passTrusted) && (!has.Over(w.now) || !r.passThere)
}

// everyCondition: the library decides.
func (r rules) everyCondition() bool {
	return r.passLast && r.passUndetached && r.passUnlost && r.passUnreturned && r.passTrusted && r.passThere
}

// crosses reports whether the attempt of g waits for a hold of its own owner, instead of being nested in it.
func (w *world) crosses(i int) violation {
	g := &w.g[i]
	if g.doing != acquiring || g.way != owner.Enter || w.bounds.other == 0 {
		return fine
	}
	for j := range w.g {
		if h := &w.g[j]; h.doing == holding && h.believes(w.now) && w.owner(i) == w.owner(j) {
			return crossed
		}
	}
	return fine
}

// handOver: g ends its hold, and hands the lock over.
func (w *world) handOver(r rules, i int, emit emit) {
	g := &w.g[i]
	if w.bounds.other == 0 {
		return
	}
	if w.bounds.detach {
		n := w.clone()
		d := &n.g[i]
		n.claim(d.grant).Drop(d.grant, d.hold, true, true, n.now)
		d.doing = detached
		emit(event{who: names[i], what: "detaches its hold"}, n, fine)
	}
	for to := range w.g {
		if to == i || !w.g[to].waits() || !w.passes(r, g.grant, g.hold) {
			continue
		}
		wrong := fine
		// Whether it was there all the time is for the server to say, and nobody asks.
		if g.gone != notGone && !g.doubted && (g.gone != forced || w.bounds.strict) {
			wrong = hiddenLoss
		}
		n := w.clone()
		from := n.g[i]
		n.g[i] = from.idle()
		n.pass(r, gift{from.grant, from.hold, from.gone, from.doubted}, to)
		emit(event{who: names[i], what: "hands over to " + names[to]}, n, wrong)
	}
}

// tooLate: the trust of a hold is over when its release begins, and nobody has noticed.
func (w *world) tooLate(r rules, emit emit) {
	for i := range w.g {
		if g := &w.g[i]; g.doing != holding || g.hold.Trusted(w.now+tick) {
			continue
		}
		for to := range w.g {
			if to == i || !w.g[to].waits() {
				continue
			}
			n := w.clone()
			n.now += tick
			from := n.g[i]
			if !n.passes(r, from.grant, from.hold) {
				n.drop()
				continue
			}
			n.now -= tick
			n.g[i] = from.idle()
			n.pass(r, gift{from.grant, from.hold, from.gone, from.doubted}, to)
			n.tickSession(r)
			emit(event{who: names[i], what: "hands over too late to " + names[to]}, n, hiddenLoss)
		}
	}
}

// waits reports whether the lock may be handed over to g.
func (g *goroutine) waits() bool {
	return g.gift.grant == nil && (g.doing == wanting || g.doing == acquiring)
}

// pass gives what goroutine to is to have to it, in a hold of its own.
func (w *world) pass(r rules, what gift, to int) {
	has, heir := what.grant, new(hold)
	heir.Begin(to, w.now, what.hold.Trust())
	w.claim(has).Pass(has, heir)
	if !r.passCopies {
		has.Begin(has.Of, has.State().Half, has.Wire, 0, 0)
	}
	if i := slices.Index(w.of[:], has.Of); i >= 0 {
		w.of[i] = len(w.claims)
		w.claims = append(w.claims, new(claim))
	}
	what.hold = heir
	w.g[to].gift = what
}

// handed: a call that was handed the lock takes it, also if it gives up at that moment. If it cannot, the lock is
// handed over to another one or given back. It is given back, too, if the call had given up before, or the session
// closes.
func (w *world) handed(r rules, i int, emit emit) {
	if n := w.clone(); n.inherit(r, i) {
		emit(event{who: names[i], what: "takes what it was handed"}, n, fine)
	} else {
		n.drop()
		w.cannotTake(r, i, emit)
	}
	n := w.clone()
	n.giveUp(r, i)
	n.forgo(i)
	n.g[i] = n.g[i].idle()
	emit(event{who: names[i], what: "has given up before"}, n, fine)
}

// cannotTake has the steps of a call that cannot take what it was handed: that is handed over once more, or given back.
func (w *world) cannotTake(r rules, i int, emit emit) {
	n := w.clone()
	n.forgo(i)
	emit(event{who: names[i], what: "cannot take what it was handed"}, n, fine)
	t := w.g[i].gift
	for to := range w.g {
		if to == i || !w.g[to].waits() || !w.passes(r, t.grant, t.hold) {
			continue
		}
		n := w.clone()
		from := n.g[i].gift
		n.g[i].gift = gift{}
		n.pass(r, from, to)
		emit(event{who: names[i], what: "cannot take what goes to " + names[to]}, n, fine)
	}
}

// inherit takes what was handed over to g. It cannot be done where other calls of its owner are about.
func (w *world) inherit(r rules, i int) bool {
	g := &w.g[i]
	of := g.gift.grant.Of
	if w.owner(i) == 0 && (r.heirAlone && (w.calls(g.claim) > 1 || w.asks(g).Holds()) || r.heirIdle && w.flying(g.claim)) {
		return false
	}
	if r.heirUndoes {
		w.giveUp(r, i)
	}
	w.of[w.owner(i)] = of
	t := g.gift
	g.gift, g.claim = gift{}, of
	*g = g.idle()
	g.doing, g.grant, g.hold, g.gone, g.doubted = holding, t.grant, t.hold, t.gone, t.doubted
	return true
}

// refuse: the server has granted the lock to a call, so it has not had what was handed over to that any more.
func (w *world) refuse(r rules, i int, sent time.Duration) violation {
	if has := w.g[i].gift.grant; has != nil && r.heirRefuses {
		return w.lose(r, has, sent)
	}
	return fine
}

// stop ends a call that the server has granted nothing. It takes what it was handed, or gives that back.
func (w *world) stop(r rules, i int) {
	g := &w.g[i]
	was := *g
	*g = was.idle()
	if g.gift.grant == nil {
		return
	}
	if g.doing, g.request = wanting, was.request; !w.inherit(r, i) {
		w.forgo(i)
		*g = g.idle()
	}
}

// forgo releases in the background what was handed over.
func (w *world) forgo(i int) {
	t := w.g[i].gift
	w.g[i].gift = gift{}
	w.claim(t.grant).Drop(t.grant, t.hold, true, false, w.now)
	w.correct(t.grant, w.now)
}

// loseGift ends what was handed over as lost.
func (w *world) loseGift(r rules, i int) {
	t := w.g[i].gift
	w.g[i].gift = gift{}
	w.lost(r, t.grant, t.hold, true)
}

// gift adds what was handed over.
func (k *keyer) gift(t *gift) {
	k.grant(t.grant)
	if t.grant != nil {
		k.add(k.moment(t.hold.Trust()), flags(t.doubted), byte(t.gone))
	}
}
