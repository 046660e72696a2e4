package replaymodel_test

import "strings"

// A step is one thing that may happen next.
type step struct {
	who    string
	msg    message
	what   string
	answer answer
	next   world
	wrong  violation // the step itself was a wrong decision
}

func (s step) String() string {
	words := []string{s.who}
	if s.msg.verb != noVerb {
		words = append(words, s.msg.String())
	}
	if s.what != "" {
		words = append(words, s.what)
	}
	if s.answer != none {
		words = append(words, s.answer.String())
	}
	return strings.Join(words, " ")
}

var (
	names = [...]string{"g0", "g1"}
	sends = [...]string{"g0 sends", "g1 sends"}
	whose = [...]string{"g0's", "g1's"}
	undos = [...]string{"g0's undoing", "g1's undoing"}
)

// label names what g has in flight: a release by its program, or one that takes an acquisition back.
func (g goroutine) label(i int) string {
	if g.doing == undoing {
		return undos[i]
	}
	return whose[i]
}

// moves hands every possible step from w to emit.
func (w world) moves(r rules, emit func(step)) {
	for i, g := range w.g {
		switch {
		case g.doing == idle || g.doing == holding:
			w.call(r, i, emit)
		case g.answer == none:
			w.travel(r, i, emit)
		default:
			w.reply(r, i, emit)
		}
	}
	w.network(r, emit)
	if !w.bounds.alone {
		w.others(emit)
	}
	w.clocks(r, emit)
}

// call: the goroutine takes the lock, or releases its hold.
func (w world) call(r rules, i int, emit func(step)) {
	g := &w.g[i]
	if g.doing == idle && g.locks > 0 && w.lock(r, i) {
		emit(step{who: sends[i], msg: g.msg, next: w})
	} else if g.doing == holding && w.unlock(r, i) {
		emit(step{who: sends[i], msg: g.msg, next: w})
	}
}

// travel: a request arrives and is executed, or its caller hears nothing and it stays behind in the network.
func (w world) travel(r rules, i int, emit func(step)) {
	n := w
	g := &n.g[i]
	g.answer = r.run(&n.server, g.msg)
	if g.answer == granted {
		g.gone = notGone
	}
	if g.answer == done {
		n.drift = false
	}
	emit(step{who: g.label(i), msg: g.msg, what: "is executed:", answer: g.answer, next: n})

	n = w
	if n.keep(w.g[i].msg) {
		n.silence(r, i, "stalls", emit)
	}
	w.silence(r, i, "is dropped", emit)
}

// reply: the reply arrives, or is lost.
func (w world) reply(r rules, i int, emit func(step)) {
	n := w
	wrong := n.settle(r, i)
	emit(step{who: names[i], what: "hears", answer: w.g[i].answer, next: n, wrong: wrong})
	w.silence(r, i, "loses its reply", emit)
}

// silence: nothing is heard of the attempt, which is made again or is the last.
func (w world) silence(r rules, i int, lost string, emit func(step)) {
	for _, repeat := range []bool{true, false} {
		g := w.g[i]
		if repeat && !g.mayRepeat() || !repeat && !g.mayGiveUp() {
			continue
		}
		n, what := w, lost+" and is given up"
		if repeat {
			what = lost + " and is sent again"
		}
		n.unanswered(r, i, repeat)
		emit(step{who: g.label(i), msg: g.msg, what: what, next: n})
	}
}

// network: a stray is executed, or disappears; a planned sweep is made.
func (w world) network(r rules, emit func(step)) {
	for i, m := range w.stray {
		if m == (message{}) {
			continue
		}
		n := w
		n.stray[i] = message{}
		n.sortStrays()
		emit(step{who: "stray", msg: m, what: "disappears", next: n})
		before := n.server
		a := r.run(&n.server, m)
		if before.owner != n.server.owner {
			n.doubt(m.owner)
		}
		n.drift = n.drift || before.count != n.server.count
		emit(step{who: "stray", msg: m, what: "is executed:", answer: a, next: n})
	}
	for o := owner(1); o <= w.session.drawn; o++ {
		if w.maySweep(r, o) {
			n := w
			n.sweepOwner(r, o)
			emit(step{who: "session", what: "sweeps " + o.String(), next: n})
		}
	}
}

// others: X takes the lock and gives it back; an operator frees ours by force.
func (w world) others(emit func(step)) {
	n := w
	switch w.server.owner {
	case nobody:
		n.server = server{owner: other, count: 1}
		emit(step{who: "X", what: "acquires", next: n})
	case other:
		n.server = server{}
		emit(step{who: "X", what: "releases", next: n})
	default:
		n.vanish(forced)
		emit(step{who: "force", what: "unlocks", next: n})
	}
}

// clocks: the server's clock ticks first, the session's follows.
func (w world) clocks(r rules, emit func(step)) {
	if w.ahead {
		w.tickSession()
		emit(step{who: "session's", what: "clock ticks", next: w})
		return
	}
	w.tickServer()
	emit(step{who: "server's", what: "clock ticks", next: w})
}

// tickServer ages what is measured in the server's time: the key, and every not-after.
func (w *world) tickServer() {
	w.ahead = true
	for i := range w.g {
		w.g[i].msg.open = max(0, w.g[i].msg.open-1)
	}
	for i := range w.stray {
		w.stray[i].open = max(0, w.stray[i].open-1)
	}
	w.sortStrays()
	for o, ticks := range w.sweep {
		if ticks > 1 {
			w.sweep[o]--
		}
	}
	if w.server.ttl > 0 {
		w.server.ttl--
		if w.server.ttl == 0 {
			w.vanish(expired)
		}
	}
}

// tickSession ages trust; a hold that is no longer trusted is over, whatever the server has.
func (w *world) tickSession() {
	w.ahead = false
	for i, g := range w.g {
		w.g[i].trust = max(0, g.trust-1)
		if g.doing == holding && w.g[i].trust == 0 {
			w.g[i] = g.rest()
			w.session.count--
			w.lapse(g.msg.owner)
		}
	}
}

// vanish removes our key, and notes why for those who rely on it.
func (w *world) vanish(why cause) {
	for i, g := range w.g {
		relies := g.doing == holding || g.doing == releasing && g.answer == none || g.doing == acquiring && g.answer == granted
		if relies && g.msg.owner == w.server.owner {
			w.g[i].gone = why
		}
	}
	w.server, w.drift = server{}, false
}
