package model_test

import "github.com/holdfast-go/holdfast/internal/owner"

// clocks has the steps of time: the server's clock ticks first, the session's follows. Where no lease runs out, they
// are one clock.
func (w *world) clocks(r rules, emit emit) {
	if back := w.bounds.setBack; back > 0 {
		n := w.clone()
		n.bounds.setBack = 0
		n.shift(back)
		emit(event{who: "server's", what: "clock is set back"}, n, fine)
	}
	if w.bounds.other > 0 && w.ahead {
		w.tooLate(r, emit)
	}
	n := w.clone()
	if w.ahead {
		n.tickSession(r)
		emit(event{who: "session's", what: "clock ticks"}, n, fine)
		return
	}
	n.ahead = true
	n.shift(-1)
	if w.bounds.kind.endless() {
		n.tickSession(r)
	}
	emit(event{who: "server's", what: "clock ticks"}, n, fine)
}

// shift makes what is measured by the server's clock last longer, or not as long: the key, and every not-after. One
// that has passed matters for as long as the clock may yet be set back.
func (w *world) shift(ticks int8) {
	passed := -w.bounds.setBack
	if w.bounds.setBack == always {
		passed = 0
	}
	for i := range w.g {
		w.g[i].msg.shift(ticks, passed)
	}
	for i := range w.stray {
		w.stray[i].shift(ticks, passed)
	}
	if s := &w.server; !w.bounds.kind.endless() && s.ttl > 0 {
		if s.ttl = shifted(s.ttl, ticks); s.ttl == 0 {
			w.vanish(expired)
		}
	}
}

func (m *message) shift(ticks, passed int8) {
	if m.verb == acquire || m.verb == trim {
		m.open = max(shifted(m.open, ticks), passed)
	}
}

func shifted(left, ticks int8) int8 {
	if left == always || ticks == always {
		return always
	}
	return left + ticks
}

// tickSession ends the holds that are no longer trusted, whatever the server has.
func (w *world) tickSession(r rules) {
	w.ahead = false
	w.now += tick
	for i := range w.g {
		g := &w.g[i]
		if g.gift.grant != nil && !g.gift.hold.Trusted(w.now) {
			w.runOut(g.gift.grant, func() { w.loseGift(r, i) })
		}
		switch {
		case g.has() && !g.hold.Trusted(w.now):
			w.runOut(g.grant, func() { w.loseHold(r, i) })
		case g.doing == detached && !g.hold.Trusted(w.now):
			w.runOut(g.grant, func() { *g = g.idle() })
		}
	}
}

// runOut: a hold ends by the session's clock.
func (w *world) runOut(of *grant, lose func()) {
	duties := len(w.debts) + len(w.fixes)
	lose()
	if s := &w.server; s.owner == wireOf(of.Wire) {
		w.drift = true
		s.remains = s.remains || len(w.debts)+len(w.fixes) == duties
	}
}

// vanish removes our key, or the shared half beside the other one, and notes why for those who rely on it.
func (w *world) vanish(why cause) {
	for i := range w.g {
		g := &w.g[i]
		if w.bounds.kind == beside && g.half != owner.Shared {
			continue
		}
		if t := &g.gift; t.grant != nil && t.grant.Wire == wires[w.server.owner] {
			t.gone = why
		}
		switch {
		case g.has(), g.doing == detached, g.doing == ended: // the last is given up, so either answer is right
			if g.grant.Wire == wires[w.server.owner] {
				g.gone, g.doubted = why, g.doubted || g.doing == ended
			}
		case g.doing == releasing && g.answer == none || g.doing == acquiring && g.answer == granted:
			if g.msg.owner == w.server.owner {
				g.gone = why
			}
		}
	}
	if s := &w.server; w.bounds.kind == beside && s.writes > 0 {
		s.reads, s.keys = 0, 0
	} else {
		s.clear()
	}
	w.drift = false
}
