package rwreplaymodel_test

import "strings"

// A step is one thing that may happen next.
type step struct {
	who    string
	what   string
	msg    message
	then   string
	answer answer
	next   world
	wrong  violation // the step itself was a wrong decision
}

func (s step) String() string {
	words := []string{s.who}
	if s.what != "" {
		words = append(words, s.what)
	}
	if s.msg.verb != noVerb {
		words = append(words, s.msg.String())
	}
	if s.then != "" {
		words = append(words, s.then)
	}
	if s.answer != none {
		words = append(words, s.answer.String())
	}
	return strings.Join(words, " ")
}

var names = [...]string{"g0", "g1"}

// moves hands every possible step from w to emit.
func (w world) moves(r rules, emit func(step)) {
	for i := range w.g {
		w.reader(r, i, emit)
	}
	w.write(r, emit)
	w.network(r, emit)
	w.background(r, emit)
	w.others(emit)
	w.clock(emit)
}

// faulty is w with one fault less to come. It reports false when there are none.
func (w world) faulty() (world, bool) {
	w.bounds.faults--
	return w, w.bounds.faults >= 0
}

func (w world) reader(r rules, i int, emit func(step)) {
	switch g := w.g[i]; g.doing {
	case idle:
		n := w
		n.g[i].locks--
		if g.locks > 0 && w.held() && n.attempt(r, i) {
			emit(step{who: names[i], what: "sends", msg: n.g[i].msg, next: n})
		}
	case wanting:
		n := w
		if n.attempt(r, i) {
			emit(step{who: names[i], what: "sends", msg: n.g[i].msg, next: n})
		}
		n = w
		n.giveUp(r, i)
		emit(step{who: names[i], what: "gives up", next: n})
	case holding:
		n := w
		n.g[i].doing = ended
		emit(step{who: names[i], what: "ends its hold", next: n})
	case ended:
		n := w
		if n.release(r, i) {
			emit(step{who: names[i], what: "sends", msg: n.g[i].msg, next: n})
		}
		if n, ok := w.faulty(); ok {
			n.expired(r, i)
			emit(step{who: names[i], what: "has had no turn in time", next: n})
		}
	case owing:
		n := w
		n.pay(r, i)
		emit(step{who: names[i], what: "leaves its release to others", next: n})
	case acquiring, releasing:
		w.travel(r, i, emit)
	}
}

// travel: a request arrives and is executed, or stays behind in the network; its reply arrives, or is lost.
func (w world) travel(r rules, i int, emit func(step)) {
	g := w.g[i]
	if g.answer != none {
		n := w
		wrong := n.settle(r, i)
		emit(step{who: names[i], what: "hears", answer: g.answer, next: n, wrong: wrong})
		if g.answer == late {
			n = w
			n.giveUp(r, i)
			emit(step{who: names[i], what: "hears late and gives up", next: n})
		}
		w.silence(r, i, "loses the reply to", emit)
		return
	}
	n := w
	n.g[i].answer = r.run(&n.server, g.msg)
	emit(step{who: names[i] + "'s", msg: g.msg, then: "is executed:", answer: n.g[i].answer, next: n})
	if n = w; n.keep(g.msg) {
		n.silence(r, i, "leaves in the network", emit)
	}
}

// silence: nothing is heard of the attempt. (Of one that is dropped nothing is seen but that.)
func (w world) silence(r rules, i int, how string, emit func(step)) {
	n, ok := w.faulty()
	if !ok {
		return
	}
	g := w.g[i]
	if g.doing == releasing {
		again := n
		again.unanswered(r, i, true)
		emit(step{who: names[i], what: how, msg: g.msg, then: "and repeats it", next: again})
	}
	n.unanswered(r, i, false)
	emit(step{who: names[i], what: how, msg: g.msg, next: n})
}

// write: the writer gives up writing, which is a downgrade if it reads.
func (w world) write(r rules, emit func(step)) {
	n, v := w, &w.writer
	switch {
	case v.doing == holding:
		n.writer.doing = ended
		emit(step{who: "writer", what: "ends its hold", next: n})
	case v.doing == ended && (!r.serialised || !w.flying()):
		n.writer.doing, n.writer.msg, n.writer.sweeps = releasing, message{verb: releaseWrite}, n.writer.copies > 0
		emit(step{who: "writer", what: "sends", msg: n.writer.msg, next: n})
	case v.doing == releasing && v.answer == none:
		n.writer.answer = r.run(&n.server, v.msg)
		emit(step{who: "writer's", msg: v.msg, then: "is executed:", answer: n.writer.answer, next: n})
		if n = w; n.keep(v.msg) {
			n.writeSilence(r, "leaves in the network", emit)
		}
	case v.doing == releasing:
		n.sweepWrite(r)
		n.writer = writer{}
		wrong := fine
		if v.answer == nothing && !v.repeated {
			wrong = wrongErrLost
		}
		emit(step{who: "writer", what: "hears", answer: v.answer, next: n, wrong: wrong})
		w.writeSilence(r, "loses the reply to", emit)
	}
}

func (w world) writeSilence(r rules, how string, emit func(step)) {
	n, ok := w.faulty()
	if !ok {
		return
	}
	again := n
	again.writer.answer, again.writer.repeated = none, true
	emit(step{who: "writer", what: how, msg: w.writer.msg, then: "and repeats it", next: again})
	n.owe(message{verb: releaseWrite}, 0)
	n.sweepWrite(r)
	n.writer = writer{}
	emit(step{who: "writer", what: how, msg: w.writer.msg, next: n})
}

// sweepWrite has the write half released once more if a copy of its acquisition may be under way.
func (w *world) sweepWrite(r rules) {
	v := &w.writer
	if r.sweepRepeats && (v.copies > 0 || r.sweepFromSend && v.sweeps) {
		w.owe(message{verb: releaseWrite}, v.copies)
	}
}

// network: a stray is executed, or disappears.
func (w world) network(r rules, emit func(step)) {
	for i, m := range w.stray {
		if m == (message{}) {
			continue
		}
		n := w
		n.stray[i] = message{}
		emit(step{who: "stray", msg: m, then: "disappears", next: n})
		a := r.run(&n.server, m)
		emit(step{who: "stray", msg: m, then: "is executed:", answer: a, next: n})
	}
}

// background: a debt is paid, a count is set right. Either is repeated until it is answered.
func (w world) background(r rules, emit func(step)) {
	for i, d := range w.debt {
		if d == (debt{}) || d.wait > 0 {
			continue
		}
		paid := w
		paid.debt[i] = debt{}
		m := d.message()
		a := r.run(&paid.server, m)
		emit(step{who: "debt", msg: m, then: "is paid:", answer: a, next: paid})
		w.inDoubt(r, "debt", m, emit)
	}
	for i, f := range w.fix {
		if !f.due || f.wait > 0 || r.serialised && w.flying() {
			continue
		}
		n := w
		n.fix[i] = fix{}
		if w.session.returned&(1<<f.tenure) != 0 && !f.begun {
			emit(step{who: "correction", what: "is not needed", next: n})
			continue
		}
		m := w.left(r, f.tenure)
		a := r.run(&n.server, m)
		n.settleRelease(r, m, a, f.tenure, w.session.copies > 0) // nobody is told
		emit(step{who: "correction", msg: m, then: "is made:", answer: a, next: n})
		n = w
		n.fix[i].begun = true
		n.session.doubt()
		if m.count == 0 {
			n.session.returned |= 1 << f.tenure
		}
		n.inDoubt(r, "correction", m, emit)
	}
}

// inDoubt: a release in the background has no reply.
func (w world) inDoubt(r rules, who string, m message, emit func(step)) {
	n, ok := w.faulty()
	if !ok {
		return
	}
	executed := n
	r.run(&executed.server, m)
	emit(step{who: who, msg: m, then: "is executed and not answered", next: executed})
	if n.keep(m) {
		emit(step{who: who, msg: m, then: "stays in the network", next: n})
	}
}

// others: X takes a half and gives it back. Who reads last deletes what has no key.
func (w world) others(emit func(step)) {
	to := func(x someone, what string) {
		n := w
		n.server.x = x
		if x == nothingOfX && !n.server.writes && !n.server.alive() {
			n.server.reads = 0
		}
		emit(step{who: "X", what: what, next: n})
	}
	switch s := &w.server; s.x {
	case xReads:
		to(nothingOfX, "reads no more")
	case xWrites:
		to(nothingOfX, "writes no more")
	case nothingOfX:
		if !s.writing() {
			to(xReads, "reads")
		}
		if s.free() {
			to(xWrites, "writes")
		}
	}
}

// clock: not-afters pass.
func (w world) clock(emit func(step)) {
	age := func(ticks *int8) { *ticks = max(*ticks-1, min(*ticks, 0)) }
	for i := range w.g {
		age(&w.g[i].msg.open)
		age(&w.g[i].until)
	}
	for i := range w.stray {
		age(&w.stray[i].open)
	}
	for i := range w.debt {
		age(&w.debt[i].wait)
	}
	for i := range w.fix {
		age(&w.fix[i].wait)
	}
	age(&w.session.copies)
	age(&w.writer.copies)
	emit(step{who: "clock", what: "ticks", next: w})
}
