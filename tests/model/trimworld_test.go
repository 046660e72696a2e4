package model_test

import "fmt"

// This is a world of its own about trims: calls that make the lease on the server shorter, to what the longest hold
// needs. One wire owner has the lock, with at most two nested holds whose leases have different lengths. The session
// may trim at any time, also when there is nothing to trim. Only a trim ever makes the lease shorter. So requests of
// other kinds may be late or lost here, but copies of them, which can only make the lease longer, are left out; so
// are counts and all other owners. A release takes one step: of a nested hold it changes no lease, and with the last
// hold everything is over, as its wire owner is never used again.

const cutOff violation = "a lease ends before the trust of its hold does"

// trimRules are what a session and its scripts keep to. Every field is one rule; false takes it out.
type trimRules struct {
	turns        bool // trims and re-entries take turns
	asked        bool // a trim goes not below what Extend, which takes no turns, is asking for
	refuseLonger bool // while a trim may be executed, no longer lease is asked for than it leaves
	keepDoubt    bool // also if a later trim has had its reply meanwhile
	wholeLease   bool // while anything is renewed, a trim leaves a whole lease of the session's
	notAfter     bool // a trim that is executed too late refuses itself
	notBefore    bool // so does one that is executed too early, by a clock that was set back
	waitLonger   bool // after a trim without a reply, its not-after is waited for with some time to spare
}

func allTrimRules() trimRules {
	return trimRules{
		turns: true, asked: true, refuseLonger: true, keepDoubt: true,
		wholeLease: true, notAfter: true, notBefore: true, waitLonger: true,
	}
}

// Times, in ticks. A lease is trusted for a tick less than it lasts.
const (
	shortLease = 3 // also of renewals
	longLease  = 4
	trimFor    = 1 // from the sending of a trim to its not-after
	// doubtFor is how long the session reckons with a trim without a reply: a tick more than trimFor for clocks that
	// run at different speeds, and one for a clock that is set back.
	doubtFor = 3
	always   = 9 // a time that does not pass
)

// trimBounds keep the search finite, and choose what it is about.
type trimBounds struct {
	length  [2]int8 // the leases of the holds
	watched [2]bool // which of them are renewed
	locks   int8    // how often the second one is taken; the first is there from the beginning
	extends int8    // how often any of them is extended to a long lease
	// by how many ticks the server's clock is set back, once; always: by more than any request is under way
	setBack int8
}

// A trimWorld is one state of everything.
type trimWorld struct {
	ttl     int8 // of the lock on the server
	ahead   bool // the server's clock has ticked, the session's has not yet
	g       [2]trimHold
	renewal trimCall
	trim    trimCall
	stray   trimMessage // a trim that had no reply and is not executed yet
	doubt   int8        // ticks until no trim without a reply can be executed, as far as the session knows
	lowest  int8        // what the shortest of them leaves
	bounds  trimBounds  // what is left of them
}

// A trimHold is one hold, or a call that wants it.
type trimHold struct {
	doing activity // idle, acquiring or holding
	trust int8
	call  trimCall // an acquisition, or Extend of what is held
}

// A trimCall is in flight if it has a length.
type trimCall struct {
	length int8 // the lease asked for, or what a trim leaves
	open   int8 // of a trim: ticks until its not-after has passed; above trimFor it is too early
	trust  int8 // what a lease is worth that was asked for at the time of sending
	answer answer
}

// A trimMessage is a trim without a caller.
type trimMessage struct{ leaves, open int8 }

// A trimEvent is what happens in a step.
type trimEvent string

func (e trimEvent) String() string { return string(e) }

// exploreTrims searches everything that can happen under one set of rules, or until it has seen what is wanted.
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

// moves hands every possible step from w to emit.
func (w trimWorld) moves(r trimRules, emit emitTrim) {
	for i := range w.g {
		w.hold(r, i, emit)
	}
	w.renew(emit)
	w.trimLease(r, emit)
	w.strays(r, emit)
	w.clocks(emit)
}

// hold: one is asked for, granted, extended, released.
func (w trimWorld) hold(r trimRules, i int, emit emitTrim) {
	g, n := w.g[i], w
	switch {
	case g.call.length > 0 && g.call.answer == none:
		if w.ttl > 0 { // else there is nothing to re-enter
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

// unheard: nothing is heard of a call for a lease.
func (w trimWorld) unheard(i int, emit emitTrim) {
	g := &w.g[i]
	if g.call = (trimCall{}); g.doing == acquiring {
		*g = trimHold{}
	}
	emit(w, "g%d hears nothing", i)
}

// turn reports whether nothing is under way that takes turns.
func (w *trimWorld) turn(r trimRules) bool {
	return !r.turns || w.trim.length == 0 && w.g[0].doing != acquiring && w.g[1].doing != acquiring
}

// shortens reports whether a trim that may be executed would make a lease of d shorter.
func (w *trimWorld) shortens(r trimRules, d int8) bool {
	return r.refuseLonger && (w.trim.length > 0 && w.trim.length < d || w.doubt > 0 && w.lowest < d)
}

// renew: the watchdog renews whatever is to be renewed, in one call that takes no turns.
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

// needed is what the longest hold needs of the lease from now on.
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

// trimLease: the session trims the lease, at any time. What the server refuses is sent again, as it was.
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

// silence: nothing was heard of the trim.
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

// strays: one is executed. (Of one that disappears nothing is seen but that.)
func (w trimWorld) strays(r trimRules, emit emitTrim) {
	if m := w.stray; m != (trimMessage{}) {
		w.stray = trimMessage{}
		a := r.runTrim(&w, m)
		emit(w, "stray trim(%d) is executed: %v", m.leaves, a)
	}
}

// clocks: the server's clock ticks first, the session's follows; the server's is set back.
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

// shift makes what is measured in the server's time last longer, or not as long.
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

// tickSession ages trust; a hold that is no longer trusted is over.
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
		*w = trimWorld{} // all is over
		return
	}
	back := w.bounds.setBack // for so long what is over may not be
	w.trim.open = max(w.trim.open, -back)
	m := &w.stray
	if m.open = max(m.open, -back); r.notAfter && m.open == -back || r.notBefore && m.open == always {
		*m = trimMessage{}
	}
	if w.doubt == 0 {
		w.lowest = 0
	}
}
