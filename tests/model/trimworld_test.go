package model_test

import "fmt"

// This is a separate world about trims: calls that shorten the lease on the server to what the longest hold needs.
// One wire owner has the lock, with at most two nested holds whose leases have different lengths. The session may
// trim at any time, even when there is nothing to trim. Only a trim shortens the lease. So calls of other kinds may
// be late or lost here, but the world leaves out copies of them, which can only lengthen the lease, and also counts
// and other owners. A release takes one step: that of a nested hold changes no lease, and that of the last hold ends
// everything, because its wire owner is never used again.

const cutOff violation = "a lease ends before the trust of its hold does"

// trimRules are the rules of a session and its scripts. Every field is one rule; false drops it.
type trimRules struct {
	turns        bool // trims and re-entries take turns
	asked        bool // a trim leaves no less than an Extend in flight asks for, which takes no turn
	refuseLonger bool // while a trim may be executed, no lease is asked for that is longer than it leaves
	keepDoubt    bool // even if a later trim has been answered meanwhile
	wholeLease   bool // while anything is renewed, a trim leaves a whole lease of the session
	notAfter     bool // a trim that is executed too late refuses itself
	notBefore    bool // so does one that is executed too early, by a clock that was set back
	waitLonger   bool // after a trim without a reply, the session waits beyond its not-after, for a margin
}

func allTrimRules() trimRules {
	return trimRules{
		turns: true, asked: true, refuseLonger: true, keepDoubt: true,
		wholeLease: true, notAfter: true, notBefore: true, waitLonger: true,
	}
}

// Times, in ticks. A lease is trusted for one tick less than it lasts.
const (
	shortLease = 3 // also the lease of renewals
	longLease  = 4
	trimFor    = 1 // from the sending of a trim to its not-after
	// doubtFor is how long the session allows for a trim without a reply: one tick more than trimFor because clocks
	// run at different speeds, and another one because a clock may be set back.
	doubtFor = 3
	always   = 9 // a time that does not pass
)

// trimBounds keep the search finite, and choose its subject.
type trimBounds struct {
	length  [2]int8 // the leases of the holds
	watched [2]bool // which of them are renewed
	locks   int8    // how often the second one is taken; the first exists from the beginning
	extends int8    // how often any of them is extended to a long lease
	// By how many ticks the server's clock is set back, once. With always it is more than any request is in flight
	// for.
	setBack int8
}

// A trimWorld is one state of everything.
type trimWorld struct {
	ttl     int8 // of the lock on the server
	ahead   bool // the server's clock has ticked, the session's not yet
	g       [2]trimHold
	renewal trimCall
	trim    trimCall
	stray   trimMessage // a trim without a reply that is not executed yet
	doubt   int8        // ticks until no trim without a reply can be executed any more, as far as the session knows
	lowest  int8        // what the trim among them that leaves least leaves
	bounds  trimBounds  // how much of them is still to come
}

// A trimHold is a hold, or a call that asks for it.
type trimHold struct {
	doing activity // idle, acquiring or holding
	trust int8
	call  trimCall // an acquisition, or an Extend of the hold
}

// A trimCall is in flight if its length is not 0.
type trimCall struct {
	length int8 // the lease asked for, or what a trim leaves
	open   int8 // for a trim: ticks until its not-after has passed; above trimFor it is too early
	trust  int8 // the trust that the lease is worth, counted from the sending
	answer answer
}

// A trimMessage is a trim without a caller.
type trimMessage struct{ leaves, open int8 }

// A trimEvent is what happens in a step.
type trimEvent string

func (e trimEvent) String() string { return string(e) }

// exploreTrims searches everything that can happen under a set of rules, or until it has seen the given violations.
func exploreTrims(r trimRules, b trimBounds, until ...violation) search {
	first := trimHold{doing: holding, trust: b.length[0] - safety}
	return model[trimWorld, trimWorld]{
		start: func() trimWorld { return trimWorld{ttl: b.length[0], g: [2]trimHold{first}, bounds: b} },
		moves: func(from trimWorld, emit func(step[trimWorld])) {
			from.moves(r, func(next trimWorld, what string, args ...any) {
				next.tidy(r)
				emit(step[trimWorld]{what: trimEvent(fmt.Sprintf(what, args...)), next: next})
			})
		},
		key: func(w trimWorld) trimWorld { return w },
		check: func(w trimWorld, report func(violation)) {
			for i, g := range w.g {
				if w.live(i) && g.trust > w.ttl {
					report(cutOff)
				}
			}
		},
	}.explore(until...)
}

type emitTrim func(next trimWorld, what string, args ...any)

// moves calls emit with every possible step from w.
func (w trimWorld) moves(r trimRules, emit emitTrim) {
	for i := range w.g {
		w.hold(r, i, emit)
	}
	w.renew(emit)
	w.trimLease(r, emit)
	w.strays(r, emit)
	w.clocks(emit)
}

// hold has the steps of one hold: it is asked for, granted, extended, released.
func (w trimWorld) hold(r trimRules, i int, emit emitTrim) {
	g, n := w.g[i], w
	switch {
	case g.call.length > 0 && g.call.answer == none:
		if w.ttl > 0 { // otherwise there is nothing to re-enter
			n.ttl, n.g[i].call.answer = max(w.ttl, g.call.length), done
			emit(n, "g%d's call for %d is executed", i, g.call.length)
		}
		w.unheard(i, emit)
	case g.call.length > 0:
		n.g[i] = trimHold{doing: holding, trust: max(g.trust, g.call.trust)}
		if n.g[i].trust == 0 {
			n.g[i] = trimHold{}
		}
		emit(n, "g%d is granted %d", i, g.call.length)
		w.unheard(i, emit)
	case g.doing == idle && w.bounds.locks > 0 && i == 1:
		if d := w.bounds.length[i]; w.turn(r) && !w.shortens(r, d) {
			n.bounds.locks--
			n.g[i] = trimHold{doing: acquiring, call: ask(d)}
			emit(n, "g%d asks for %d", i, d)
		}
	case g.doing == holding:
		if w.turn(r) {
			n.g[i] = trimHold{}
			emit(n, "g%d releases", i)
		}
		if w.bounds.extends > 0 && !w.shortens(r, longLease) {
			n = w
			n.bounds.extends--
			n.g[i].call = ask(longLease)
			emit(n, "g%d extends to %d", i, longLease)
		}
	}
}

func ask(length int8) trimCall { return trimCall{length: length, trust: length - safety} }

// unheard has the step in which a call for a lease gets no reply.
func (w trimWorld) unheard(i int, emit emitTrim) {
	g := &w.g[i]
	if g.call = (trimCall{}); g.doing == acquiring {
		*g = trimHold{}
	}
	emit(w, "g%d hears nothing", i)
}

// turn reports whether the claim's turn is free.
func (w *trimWorld) turn(r trimRules) bool {
	return !r.turns || w.trim.length == 0 && w.g[0].doing != acquiring && w.g[1].doing != acquiring
}

// shortens reports whether a trim that may still be executed would shorten a lease of d.
func (w *trimWorld) shortens(r trimRules, d int8) bool {
	return r.refuseLonger && (w.trim.length > 0 && w.trim.length < d || w.doubt > 0 && w.lowest < d)
}

// renew has the steps of the watchdog, which renews all holds in one call that takes no turn.
func (w trimWorld) renew(emit emitTrim) {
	n := w
	switch {
	case w.renewal.length == 0:
		if w.renews() {
			n.renewal = ask(shortLease)
			emit(n, "watchdog sends a renewal")
		}
		return
	case w.renewal.answer == none:
		if w.ttl > 0 {
			n.ttl, n.renewal.answer = max(w.ttl, shortLease), done
			emit(n, "renewal is executed")
		}
	default:
		for i := range n.g {
			if n.renewed(i) {
				n.g[i].trust = max(n.g[i].trust, w.renewal.trust)
			}
		}
		n.renewal = trimCall{}
		emit(n, "watchdog hears of its renewal")
	}
	n = w
	n.renewal = trimCall{}
	emit(n, "renewal has no reply")
}

// live reports whether the hold is trusted, and renewed whether it is also renewed.
func (w *trimWorld) live(i int) bool    { return w.g[i].doing == holding }
func (w *trimWorld) renewed(i int) bool { return w.live(i) && w.bounds.watched[i] }
func (w *trimWorld) renews() bool       { return w.renewed(0) || w.renewed(1) }

// needed is how long a lease the longest hold needs from now on.
func (w *trimWorld) needed(r trimRules) (d int8) {
	for i, g := range w.g {
		if !w.live(i) {
			continue
		}
		d = max(d, g.trust+safety)
		if r.asked {
			d = max(d, g.call.length)
		}
	}
	if r.wholeLease && w.renews() {
		d = max(d, shortLease)
	}
	return d
}

// trimLease has the steps of a trim, which the session may send at any time. What the server refuses is sent again
// unchanged.
func (w trimWorld) trimLease(r trimRules, emit emitTrim) {
	n, t := w, w.trim
	switch {
	case t.length == 0:
		if needed := w.needed(r); needed > 0 && w.turn(r) {
			n.trim = trimCall{length: needed, open: trimFor}
			emit(n, "session sends trim(%d)", n.trim.length)
		}
		return
	case t.answer == none:
		n.trim.answer = r.runTrim(&n, trimMessage{t.length, t.open})
		emit(n, "trim(%d) is executed: %v", t.length, n.trim.answer)
		if n = w; n.stray == (trimMessage{}) {
			n.stray = trimMessage{t.length, t.open}
			n.silence(r)
			emit(n, "trim(%d) stalls and is given up", t.length)
		}
	case t.answer == late:
		n.trim = trimCall{length: t.length, open: trimFor}
		emit(n, "session hears late and sends trim(%d) again", t.length)
		fallthrough
	default:
		n = w
		if n.trim = (trimCall{}); !r.keepDoubt {
			n.doubt = 0
		}
		emit(n, "session hears of its trim: %v", t.answer)
	}
	w.silence(r)
	emit(w, "trim(%d) has no reply", t.length)
}

// silence ends a trim without a reply.
func (w *trimWorld) silence(r trimRules) {
	if w.doubt == 0 {
		w.lowest = w.trim.length
	}
	w.lowest = min(w.lowest, w.trim.length)
	if w.doubt = doubtFor; !r.waitLonger {
		w.doubt = trimFor
	}
	w.trim = trimCall{}
}

func (r trimRules) runTrim(w *trimWorld, m trimMessage) answer {
	if r.notAfter && m.open <= 0 || r.notBefore && m.open > trimFor {
		return late
	}
	w.ttl = min(w.ttl, m.leaves)
	return done
}

// strays has the step in which a stray is executed. (A stray that disappears changes nothing.)
func (w trimWorld) strays(r trimRules, emit emitTrim) {
	if m := w.stray; m != (trimMessage{}) {
		w.stray = trimMessage{}
		a := r.runTrim(&w, m)
		emit(w, "stray trim(%d) is executed: %v", m.leaves, a)
	}
}

// clocks has the steps of time: the server's clock ticks first, the session's follows; or the server's is set back.
func (w trimWorld) clocks(emit emitTrim) {
	if back := w.bounds.setBack; back > 0 {
		n := w
		n.bounds.setBack = 0
		n.shift(back)
		emit(n, "server's clock is set back by %d", back)
	}
	if w.ahead {
		w.tickSession()
		emit(w, "session's clock ticks")
		return
	}
	w.ahead = true
	w.shift(-1)
	emit(w, "server's clock ticks")
}

// shift moves the server's clock, so that everything measured by it lasts longer or shorter.
func (w *trimWorld) shift(ticks int8) {
	add := func(left *int8) {
		if *left += ticks; ticks == always || *left == always-1 { // time does not pass for it
			*left = always
		}
	}
	if w.ttl > 0 {
		add(&w.ttl)
	}
	if w.trim.length > 0 {
		add(&w.trim.open)
	}
	if w.stray != (trimMessage{}) {
		add(&w.stray.open)
	}
}

// tickSession ages trust; a hold that is no longer trusted ends.
func (w *trimWorld) tickSession() {
	w.ahead = false
	age := func(ticks *int8) { *ticks = max(0, *ticks-1) }
	age(&w.renewal.trust)
	age(&w.doubt)
	for i := range w.g {
		g := &w.g[i]
		age(&g.trust)
		age(&g.call.trust)
		if g.doing == holding && g.trust == 0 {
			*g = trimHold{}
		}
	}
}

// tidy makes worlds equal that differ only in what can no longer matter.
func (w *trimWorld) tidy(r trimRules) {
	if w.g[0].doing == idle && w.g[1].doing == idle {
		*w = trimWorld{} // everything is over
		return
	}
	back := w.bounds.setBack // as long as this may happen, what is over may come back
	w.trim.open = max(w.trim.open, -back)
	m := &w.stray
	if m.open = max(m.open, -back); r.notAfter && m.open == -back || r.notBefore && m.open == always {
		*m = trimMessage{}
	}
	if w.doubt == 0 {
		w.lowest = 0
	}
}
