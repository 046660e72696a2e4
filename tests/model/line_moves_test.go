package model_test

import (
	"slices"
	"strings"
)

const handedToNobody violation = "the lock is handed to a session that is known not to hear of it"

// A lineEvent is what happens in a step.
type lineEvent struct {
	who, what string
	wire      wire
	note      note
	answer    answer
	then      string
}

func (e lineEvent) String() string {
	words := []string{e.who, e.what, "", e.note.String(), e.answer.String(), e.then}
	if e.wire > 0 {
		words[2] = e.wire.String()
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

type lineEmit func(e lineEvent, next *lineWorld, wrong violation)

var sessionNames = [...]string{"A", "B"}

// exploreLine searches everything that can happen under a set of rules.
func exploreLine(r lineRules, b lineBounds, until ...violation) search {
	var k keyer
	return model[*lineWorld, lineEvent]{
		start: func() *lineWorld { return startLine(b) },
		moves: func(w *lineWorld, emit func(lineEvent, *lineWorld, violation)) { w.moves(r, w.replicating(emit)) },
		tidy:  func(w *lineWorld) { w.tidy(r) },
		key:   func(w *lineWorld) ([]byte, left) { return lineKey(&k, w) },
		check: (*lineWorld).check,
		drop:  (*lineWorld).drop,
	}.explore(until...)
}

// replicating emits steps from w, of which a server that may take over has all but the last that wrote something.
func (w *lineWorld) replicating(emit lineEmit) lineEmit {
	if w.bounds.fails == 0 {
		return emit
	}
	return func(e lineEvent, n *lineWorld, wrong violation) {
		if n.bounds.fails > 0 && n.ahead == w.ahead && n.server != w.server {
			n.replica = w.server
		}
		emit(e, n, wrong)
	}
}

// then emits a step.
func (w *lineWorld) then(emit lineEmit, e lineEvent, do func(n *lineWorld)) {
	n := w.clone()
	do(n)
	emit(e, n, fine)
}

// faulty is then with one fault less to come, if there are any left.
func (w *lineWorld) faulty(emit lineEmit, e lineEvent, do func(n *lineWorld)) {
	if w.bounds.faults > 0 {
		w.then(emit, e, func(n *lineWorld) {
			n.bounds.faults--
			do(n)
			n.disturb()
		})
	}
}

// moves calls emit with every possible step from w, always in the same order.
func (w *lineWorld) moves(r lineRules, emit lineEmit) {
	for i := range w.s {
		if w.s[i].dead {
			continue
		}
		w.caller(r, i, emit)
		w.asked(r, i, emit)
		w.holder(r, i, emit)
		w.network(r, i, emit)
	}
	for _, c := range w.stray.items() {
		w.then(emit, lineEvent{who: "late", what: "stand", wire: c.wire}, func(n *lineWorld) {
			n.stray.drop(func(other lineCall) bool { return other == c })
			n.stand(r, c)
		})
	}
	for at := range w.debts.items() {
		if d := &w.debts.all[at]; d.Due() <= w.now {
			w.passing(emit, lineEvent{who: "undo", wire: wireCalled(d.Wire)}, func(n *lineWorld, free bool) violation {
				return n.pay(r, at, free)
			})
		}
	}
	w.anybody(r, emit)
	if w.ahead {
		w.then(emit, lineEvent{who: "session's", what: "clock ticks"}, func(n *lineWorld) { n.tickSession(r) })
	} else {
		w.then(emit, lineEvent{who: "server's", what: "clock ticks"}, (*lineWorld).tickServer)
	}
}

// passing emits a step in which the lock may pass on: where others wait, it may be left to anybody.
func (w *lineWorld) passing(emit lineEmit, e lineEvent, do func(n *lineWorld, toAnybody bool) violation) {
	n := w.clone()
	wrong := do(n, false)
	emit(e, n, wrong)
	if w.bounds.java && w.server.line.n > 0 && w.server.holder > 0 {
		n, e := w.clone(), e
		wrong, e.then = do(n, true), "and leaves the lock to anybody"
		emit(e, n, wrong)
	}
}

// caller has the steps of a session's call, but for those of the server and the network.
func (w *lineWorld) caller(r lineRules, i int, emit lineEmit) {
	s, who := &w.s[i], sessionNames[i]
	switch s.call {
	case idle:
		if s.calls > 0 && (s.holds != holding || w.bounds.inside) {
			w.then(emit, lineEvent{who: who, what: "wants the lock"}, func(n *lineWorld) { n.wants(r, i) })
		}
		return
	case acquiring:
		if s.answer == none && s.holds == idle { // its ctx ends
			w.then(emit, lineEvent{who: who, what: "gives up in flight"}, func(n *lineWorld) {
				n.leaveStray(i)
				n.unanswered(i)
				n.giveUp(r, i, &n.s[i].request, true)
				n.s[i].call = idle
			})
		}
		return
	default:
	}
	n := w.clone()
	// No call stands in a line before the session is subscribed.
	subscribed := !s.down || s.request.Wire != "" || w.bounds.fair
	if read := s.mail == 0 || w.bounds.inside || !r.mailFirst; subscribed && read && n.asking(r, i) {
		emit(lineEvent{who: who, what: "calls stand", wire: n.s[i].ask.wire}, n, fine)
	} else {
		n.drop()
	}
	w.then(emit, lineEvent{who: who, what: "gives up"}, func(n *lineWorld) {
		n.giveUp(r, i, &n.s[i].request, true)
		n.s[i].call = idle
	})
	if s.calls > 0 && s.request.Stands && !w.bounds.fair { // another one has waited here
		w.then(emit, lineEvent{who: who, what: "gives up and leaves its place"}, func(n *lineWorld) {
			n.succeeds(r, i)
		})
	}
	if s.mail > 0 && s.holds == idle {
		w.then(emit, lineEvent{who: who, what: "begins", wire: s.mail}, func(n *lineWorld) { n.handed(r, i) })
	}
	if s.holds == holding && w.bounds.inside && !w.bounds.fair && s.believes(w.now) {
		if c, g, h := s.held.claim(w.now); c.Passes(g, h, w.now, 1) {
			w.then(emit, lineEvent{who: who, what: "hands over inside"}, func(n *lineWorld) { n.handOver(r, i) })
		}
	}
}

// leaveStray leaves a copy of the call in flight in the network, if there is room.
func (w *lineWorld) leaveStray(i int) {
	if w.stray.n < w.bounds.strays {
		w.stray.add(w.s[i].ask)
	}
}

// asked has the steps of a call in flight.
func (w *lineWorld) asked(r lineRules, i int, emit lineEmit) {
	s, who := &w.s[i], sessionNames[i]
	e := lineEvent{who: who, what: "stand", wire: s.ask.wire}
	switch {
	case s.call != acquiring:
	case s.answer == none:
		n := w.clone()
		a := &n.s[i]
		a.answer, a.first = n.stand(r, s.ask)
		a.calm, a.after = true, n.excused&(1<<s.ask.wire) != 0
		done := e
		done.answer = a.answer
		emit(done, n, fine)
		e.then = "has no reply"
		if w.stray.n < w.bounds.strays {
			w.faulty(emit, e, func(n *lineWorld) {
				n.leaveStray(i)
				n.unanswered(i)
			})
		}
		e.then = "is lost"
		w.faulty(emit, e, func(n *lineWorld) { n.unanswered(i) })
	case s.answer != granted || s.holds == idle:
		e.answer, e.then = s.answer, "is told"
		w.then(emit, e, func(n *lineWorld) { n.settle(r, i) })
		e.then = "is not told"
		w.faulty(emit, e, func(n *lineWorld) { n.unanswered(i) })
	}
}

// holder has the steps of a session's hold.
func (w *lineWorld) holder(r lineRules, i int, emit lineEmit) {
	s, who := &w.s[i], sessionNames[i]
	e := lineEvent{who: who, what: "release", wire: s.held.wire}
	switch s.holds {
	case holding:
		e.what = "releases"
		w.then(emit, e, func(n *lineWorld) { n.ends(i) })
	case releasing:
		w.passing(emit, e, func(n *lineWorld, free bool) (wrong violation) {
			a, wrong := n.release(r, s.held.wire, false, free)
			n.settleRelease(r, i, a)
			return wrong
		})
		e.then = "is lost"
		w.faulty(emit, e, func(n *lineWorld) { n.releaseInDoubt(r, i) })
		e.then = "is not told"
		w.faulty(emit, e, func(n *lineWorld) {
			n.release(r, s.held.wire, false, false)
			n.releaseInDoubt(r, i)
		})
	default:
	}
}

// network has the steps of messages to a session, and of its subscription.
func (w *lineWorld) network(r lineRules, i int, emit lineEmit) {
	s, who := &w.s[i], sessionNames[i]
	if s.inbox.n > 0 {
		e := lineEvent{who: who, what: "hears", note: s.inbox.all[0]}
		w.then(emit, e, func(n *lineWorld) { n.told(r, i) })
	}
	if s.down {
		w.then(emit, lineEvent{who: who, what: "subscribes again"}, func(n *lineWorld) {
			n.s[i].down, n.s[i].look = false, n.s[i].call != idle
		})
	} else {
		w.faulty(emit, lineEvent{who: who, what: "loses its subscription"}, func(n *lineWorld) {
			n.s[i].down, n.s[i].inbox = true, list[note]{}
		})
	}
	if w.bounds.kills > 0 {
		w.then(emit, lineEvent{who: who, what: "dies"}, func(n *lineWorld) {
			n.bounds.kills--
			n.dies(i)
		})
	}
}

// anybody has the steps of others: of those who do not know the line, of an operator, and of a server without memory.
func (w *lineWorld) anybody(r lineRules, emit lineEmit) {
	v := &w.server
	if w.bounds.fair {
		w.redisson(r, emit)
	}
	switch {
	case v.holder == 0 && w.bounds.java:
		w.then(emit, lineEvent{who: "X", what: "takes the lock"}, func(n *lineWorld) { n.server.holder = others })
	case v.holder == others && !w.bounds.fair:
		w.then(emit, lineEvent{who: "X", what: "releases the lock"}, func(n *lineWorld) {
			n.server.holder = 0
			n.tellOthers()
		})
	}
	if w.bounds.force > 0 && v.holder > 0 {
		w.passing(emit, lineEvent{who: "force"}, func(n *lineWorld, free bool) violation {
			n.bounds.force--
			n.excused |= 1 << v.holder
			return n.pass(r, free)
		})
	}
	if w.bounds.fails > 0 && w.replica != (lineServer{}) {
		w.then(emit, lineEvent{who: "server", what: "fails over"}, func(n *lineWorld) { n.failOver(r) })
	}
	if w.bounds.evicts > 0 && v.line.n > 0 && !w.bounds.fair {
		w.then(emit, lineEvent{who: "server", what: "drops the line"}, func(n *lineWorld) {
			n.bounds.evicts--
			n.server.line = list[wire]{}
			n.disturb()
		})
		w.then(emit, lineEvent{who: "server", what: "drops who is alive"}, func(n *lineWorld) {
			n.bounds.evicts--
			n.server.alive = [others]int8{}
			n.disturb()
		})
	}
}
