package model_test

import (
	"slices"
	"strings"
)

// A permEvent is what happens in a step.
type permEvent struct {
	who, what string
	waiter    waiter
	answer    answer
	then      string
}

func (e permEvent) String() string {
	words := []string{e.who, e.what, "", e.answer.String(), e.then}
	if e.waiter > 0 {
		words[2] = e.waiter.String()
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

type permEmit func(e permEvent, next *permWorld, wrong violation)

// explorePerm searches everything that can happen under a set of rules.
func explorePerm(r permRules, b permBounds, until ...violation) search {
	var k keyer
	return model[*permWorld, permEvent]{
		start: func() *permWorld { return startPerm(b) },
		moves: func(w *permWorld, emit func(permEvent, *permWorld, violation)) { w.moves(r, w.replicating(emit)) },
		tidy:  (*permWorld).tidy,
		key:   func(w *permWorld) ([]byte, left) { return permKey(&k, w) },
		check: func(w *permWorld, report func(violation)) { w.check(r, report) },
		drop:  (*permWorld).drop,
	}.explore(until...)
}

// replicating emits steps from w, of which a server that may take over has all but the last that wrote something.
func (w *permWorld) replicating(emit permEmit) permEmit {
	if w.bounds.fails == 0 {
		return emit
	}
	return func(e permEvent, n *permWorld, wrong violation) {
		if n.bounds.fails > 0 && n.server != w.server {
			n.replica = w.server
		}
		emit(e, n, wrong)
	}
}

// then emits a step.
func (w *permWorld) then(emit permEmit, e permEvent, do func(n *permWorld)) {
	n := w.clone()
	do(n)
	emit(e, n, fine)
}

// rarely is then, as often as a bound allows, of something of which nobody is told.
func (w *permWorld) rarely(emit permEmit, left func(b *permBounds) *int8, e permEvent, do func(n *permWorld)) {
	if *left(&w.bounds) > 0 {
		w.then(emit, e, func(n *permWorld) {
			*left(&n.bounds)--
			do(n)
			n.disturb()
		})
	}
}

func faults(b *permBounds) *int8  { return &b.faults }
func evicts(b *permBounds) *int8  { return &b.evicts }
func kills(b *permBounds) *int8   { return &b.kills }
func freezes(b *permBounds) *int8 { return &b.freezes }

// moves calls emit with every possible step from w, always in the same order.
func (w *permWorld) moves(r permRules, emit permEmit) {
	for i := range w.s {
		s, who := &w.s[i], permNames[i]
		switch {
		case s.dead:
			continue
		case s.frozen:
			w.then(emit, permEvent{who: who, what: "goes on"}, func(n *permWorld) { n.s[i].frozen = false })
		default:
			w.caller(r, i, emit)
			w.network(r, i, emit)
			if w.concerned(i) {
				w.ends(i, emit)
			}
		}
		if s.call == acquiring && s.answer == none {
			n := w.clone()
			wrong := n.executes(r, i)
			emit(permEvent{who: who, what: "acquire", waiter: s.ask.waiter, answer: n.s[i].answer}, n, wrong)
		}
	}
	for _, c := range w.stray.items() {
		n := w.clone()
		wrong := n.late(r, c)
		emit(permEvent{who: "late", what: "acquire", waiter: c.waiter}, n, wrong)
		if w.s[c.waiter.of()].dead {
			w.then(emit, permEvent{who: "no", what: "acquire", waiter: c.waiter}, func(n *permWorld) {
				n.stray.drop(func(other permCall) bool { return other == c })
			})
		}
	}
	for at, d := range w.debts.items() {
		s := &w.s[d.waiter.of()]
		if s.frozen || d.last && s.call == acquiring && s.ask.waiter == d.waiter {
			continue
		}
		e := permEvent{who: "debt", what: "leave", waiter: d.waiter}
		if d.gives {
			e.what = "gives back"
		}
		w.then(emit, e, func(n *permWorld) { n.pay(r, at) })
	}
	w.anybody(r, emit)
	w.time(emit)
}

// caller has the steps of a session's call, and of its permits.
func (w *permWorld) caller(r permRules, i int, emit permEmit) {
	s, who := &w.s[i], permNames[i]
	o := w.present(i)
	e := permEvent{who: who, waiter: o}
	step := func(what string, do func(n *permWorld)) {
		e.what = what
		w.then(emit, e, do)
	}
	switch {
	case s.call == idle:
		if w.more(i) {
			step("wants", func(n *permWorld) { n.wants(r, i) })
		}
	case s.call == wanting:
		step("calls", func(n *permWorld) { n.asking(i) })
		step("gives up", func(n *permWorld) { n.givesUp(i) })
	case s.answer == none:
		step("gives up in flight", func(n *permWorld) {
			n.leaveStray(i, true)
			n.givesUp(i)
		})
		e.what = "acquire"
		e.then = "is lost"
		w.rarely(emit, faults, e, func(n *permWorld) { n.unanswered(i) })
		if e.then = "has no reply"; w.stray.n < w.bounds.strays {
			w.rarely(emit, faults, e, func(n *permWorld) {
				n.leaveStray(i, false)
				n.unanswered(i)
			})
		}
	default:
		e.answer, e.then = s.answer, "is told"
		step("acquire", func(n *permWorld) { n.settle(i) })
		e.then = "is not told"
		w.rarely(emit, faults, e, func(n *permWorld) {
			if n.s[i].answer == granted && !n.bounds.ids {
				n.lost += n.n(o)
			}
			n.unanswered(i)
		})
	}
	for o := waiter(1); o < waiters; o++ {
		if s.holds.has(o) {
			w.then(emit, permEvent{who: who, what: "releases", waiter: o}, func(n *permWorld) { n.releases(r, o) })
		}
	}
}

// network has the steps of messages to a session, and of its subscriptions.
func (w *permWorld) network(r permRules, i int, emit permEmit) {
	s, who := &w.s[i], permNames[i]
	hears := func(what string, kind func(s *permSession) *bool) {
		if *kind(s) {
			w.then(emit, permEvent{who: who, what: what}, func(n *permWorld) {
				t := &n.s[i]
				*kind(t) = false
				t.look = t.call == wanting || t.call == acquiring && (t.look || r.looksAgain)
			})
		}
	}
	hears("is told", func(s *permSession) *bool { return &s.mail })
	hears("hears others", func(s *permSession) *bool { return &s.news })
	switch {
	case s.closed:
		return
	case s.down:
		w.then(emit, permEvent{who: who, what: "subscribes"}, func(n *permWorld) {
			n.s[i].down, n.s[i].look = false, n.s[i].call != idle
		})
		return
	}
	if w.concerned(i) {
		w.rarely(emit, faults, permEvent{who: who, what: "loses its subscriptions"}, func(n *permWorld) {
			t := &n.s[i]
			t.down, t.mail, t.news, t.heard, t.marked = true, false, false, false, false
		})
	}
	if w.settles(r, i) {
		w.then(emit, permEvent{who: who, what: "listens to others"}, func(n *permWorld) {
			t := &n.s[i]
			if first := t.heard == t.marked; first {
				t.heard, t.marked = r.channelFirst, !r.channelFirst
				return
			}
			t.heard, t.marked, t.look = true, true, t.look || r.looksThen
		})
	}
}

// concerned reports whether it matters what becomes of a session.
func (w *permWorld) concerned(i int) bool {
	s := &w.s[i]
	owes := func(d permDebt) bool { return d.waiter.of() == i }
	return s.call != idle || s.holds > 0 || w.more(i) || slices.ContainsFunc(w.debts.items(), owes)
}

// settles reports whether a session is still to listen to others: its call has waited for a while.
func (w *permWorld) settles(r permRules, i int) bool {
	s := &w.s[i]
	first := w.server.line.n > 0 && w.server.line.all[0] == w.present(i)
	listens := s.heard && s.marked
	all := r.allHear && !w.bounds.writers
	others := w.bounds.java > 0 && !w.bounds.reader || w.bounds.listens
	return others && !listens && s.call == wanting && s.stands && (all || first)
}

// ends has the steps of a session that ends or stops.
func (w *permWorld) ends(i int, emit permEmit) {
	who := permNames[i]
	w.rarely(emit, kills, permEvent{who: who, what: "dies"}, func(n *permWorld) { n.dies(i) })
	w.rarely(emit, freezes, permEvent{who: who, what: "stops"}, func(n *permWorld) {
		n.s[i].frozen = true
	})
	if s := &w.s[i]; !s.closed && w.bounds.closes > 0 && (s.call != acquiring || s.answer == none) {
		w.then(emit, permEvent{who: who, what: "closes"}, func(n *permWorld) {
			n.bounds.closes--
			n.closes(i)
		})
	}
}

// anybody has the steps of others: of X, and of an operator.
func (w *permWorld) anybody(r permRules, emit permEmit) {
	x, b := &w.x, &w.bounds
	step := func(what string, do func(n *permWorld)) { w.then(emit, permEvent{who: "X", what: what}, do) }
	tries := func(n *permWorld) {
		y := &n.x
		y.awake, y.asleep = false, n.server.free < b.java
		if !y.asleep {
			n.server.free -= b.java
			y.holds = true
		}
	}
	switch {
	case b.java == 0:
	case x.holds:
		step("releases", func(n *permWorld) {
			n.x.holds = false
			if b.reader && r.readerTells {
				n.release(r, b.java)
				return
			}
			n.server.free += b.java
			n.publish()
			if line := n.server.line; b.writers && !b.reader && line.n > 0 {
				if first := n.s[line.all[0].of()]; !first.heard || first.frozen {
					n.disturb() // they look in time
				}
			}
		})
	case x.awake:
		step("tries", tries)
	case x.asleep:
		step("gives up", func(n *permWorld) { n.x.asleep = false })
	case b.turns > 0:
		step("tries", func(n *permWorld) {
			n.bounds.turns--
			tries(n)
		})
	}
	operator := func(what string, do func(n *permWorld)) {
		w.then(emit, permEvent{who: "operator", what: what}, func(n *permWorld) {
			n.bounds.sizes--
			do(n)
		})
	}
	if b.sizes > 0 {
		operator("deletes the semaphore", func(n *permWorld) {
			n.total -= n.server.free
			n.server.free = 0
		})
		operator("adds a permit", func(n *permWorld) {
			n.total++
			n.release(r, 1)
		})
	}
}

// time has the steps of the server's clock, and of a server without memory.
func (w *permWorld) time(emit permEmit) {
	v := &w.server
	for _, o := range v.line.items() {
		s := &w.s[o.of()]
		if v.alive[o] > past && (s.dead || s.frozen || w.present(o.of()) != o) {
			w.then(emit, permEvent{who: "time", what: "is over of", waiter: o}, func(n *permWorld) {
				n.server.alive[o] = past
				n.disturb()
			})
		}
	}
	for o := waiter(1); o < waiters; o++ {
		s := &w.s[o.of()]
		lost := w.failed && !s.holds.has(o) && w.present(o.of()) != o
		if v.taken.has(o) && !v.over.has(o) && (s.dead || lost) {
			w.then(emit, permEvent{who: "lease", what: "is over of", waiter: o}, func(n *permWorld) {
				n.server.over.set(o, true)
				n.disturb()
			})
		}
	}
	if w.bounds.fails > 0 && w.replica != *v {
		w.then(emit, permEvent{who: "server", what: "fails over"}, (*permWorld).failOver)
	}
	if v.line.n > 0 {
		w.rarely(emit, evicts, permEvent{who: "server", what: "drops the line"}, func(n *permWorld) {
			n.server.line, n.server.alive = list[waiter]{}, [waiters]life{}
		})
		if v.some {
			w.rarely(emit, evicts, permEvent{who: "server", what: "drops that some stand there"}, func(n *permWorld) {
				n.server.some = false
			})
		}
		w.rarely(emit, evicts, permEvent{who: "server", what: "drops who is alive"}, func(n *permWorld) {
			n.server.alive = [waiters]life{}
		})
	}
}
