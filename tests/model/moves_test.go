package model_test

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// An event is what happens in a step.
type event struct {
	who    string
	what   string
	msg    message
	then   string
	answer answer
}

func (e event) String() string {
	words := []string{e.who, e.what, e.msg.String(), e.then, e.answer.String()}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// emit takes a step. The next world is the search's from then on, which may overwrite it at once.
type emit func(e event, next *world, wrong violation)

var (
	names    = [...]string{"g0", "g1", "third", "fourth"}
	requests = [...]string{"g0's", "g1's", "third's", "fourth's"}
)

// other is the goroutine of another owner, in a world that has one.
const other = 2

// moves calls emit with every possible step from w, always in the same order.
func (w *world) moves(r rules, emit emit) {
	for i := range w.g {
		w.call(r, i, emit)
	}
	w.network(r, emit)
	w.background(r, emit)
	if w.bounds.kind == leases {
		w.upkeep(r, emit)
	}
	w.renewShared(emit)
	if !w.bounds.alone {
		w.others(emit)
	}
	w.clocks(r, emit)
}

// call has the steps of a goroutine that takes its half or gives it back.
func (w *world) call(r rules, i int, emit emit) {
	g := &w.g[i]
	switch g.doing {
	case idle:
		if g.locks > 0 && (w.bounds.kind == plain || w.claims[0].Holds()) {
			n := w.clone()
			n.g[i].locks--
			if n.g[i].doing = wanting; w.bounds.other > 0 {
				n.g[i].claim = n.callOf(i)
				emit(event{who: names[i], what: "stands in line"}, n.clone(), fine)
			}
			n.sends(r, i, emit)
		}
	case wanting:
		if g.gift.grant != nil {
			w.handed(r, i, emit)
			return
		}
		w.clone().sends(r, i, emit)
		n := w.clone()
		n.giveUp(r, i)
		n.g[i] = n.g[i].idle()
		emit(event{who: names[i], what: "gives up"}, n, fine)
	case holding:
		if w.bounds.kind == leases {
			w.keepOrEnd(r, i, emit)
			return
		}
		n := w.clone()
		n.end(i)
		emit(event{who: names[i], what: "ends its hold"}, n, fine)
		w.handOver(r, i, emit)
	case ended:
		if w.turn(r, g.grant.Of) {
			n := w.clone()
			n.release(r, i)
			emit(event{who: names[i], what: "sends", msg: n.g[i].msg}, n, fine)
		}
		if n := w.faulty(); n != nil {
			n.outOfTurn(r, i)
			emit(event{who: names[i], what: "has had no turn in time"}, n, fine)
		}
	case owing:
		n := w.clone()
		n.pay(r, i)
		emit(event{who: names[i], what: "leaves its release to others"}, n, fine)
	case acquiring, releasing, extending, renewing, trimming:
		w.travel(r, i, emit)
	}
}

// sends has the step of an attempt to acquire, if there is anything to send.
func (w *world) sends(r rules, i int, emit emit) {
	if !w.attempt(r, i) {
		w.drop()
		return
	}
	emit(event{who: names[i], what: "sends", msg: w.g[i].msg}, w, w.crosses(i))
}

// travel has the steps of a request: it arrives and is executed, or stays in the network; its reply arrives, or is
// lost.
func (w *world) travel(r rules, i int, emit emit) {
	g := &w.g[i]
	if g.answer != none {
		n := w.clone()
		wrong := n.settle(r, i, g.answer == late)
		emit(event{who: names[i], what: "hears", answer: g.answer}, n, wrong)
		if g.answer == late {
			n = w.clone()
			n.settle(r, i, false)
			n.giveUp(r, i)
			n.stop(r, i)
			emit(event{who: names[i], what: "hears late and gives up"}, n, fine)
			if n = w.faulty(); n != nil {
				n.settle(r, i, false)
				emit(event{who: names[i], what: "hears late and waits"}, n, fine)
			}
		}
		w.silence(r, i, "loses the reply to", emit)
		return
	}
	if g.doing == releasing && w.bounds.faults > 0 {
		n := w.faulty()
		n.refused(r, i)
		emit(event{who: requests[i], msg: g.msg, then: "is refused"}, n, fine)
	}
	n := w.clone()
	m := &n.g[i]
	m.answer = r.run(&n.server, g.msg)
	if m.answer == granted {
		m.gone = notGone
	}
	n.settled(g.msg, m.answer)
	emit(event{who: requests[i], msg: g.msg, then: "is executed:", answer: m.answer}, n, fine)
	if w.keep(g.msg) {
		w.silence(r, i, "leaves in the network", emit)
		w.stray = w.stray[:len(w.stray)-1]
	}
	w.silence(r, i, "drops", emit)
}

// silence has the steps after an attempt without a reply.
func (w *world) silence(r rules, i int, how string, emit emit) {
	msg := w.g[i].msg
	n := w.faulty()
	if n == nil {
		return
	}
	if w.g[i].doing == releasing {
		again := n.clone()
		again.unanswered(r, i, true)
		emit(event{who: names[i], what: how, msg: msg, then: "and repeats it"}, again, fine)
	}
	n.unanswered(r, i, false)
	emit(event{who: names[i], what: how, msg: msg}, n, fine)
}

// network has the steps of a stray: it is executed, or disappears.
func (w *world) network(r rules, emit emit) {
	for i, m := range w.stray {
		n := w.clone()
		n.stray = slices.Delete(n.stray, i, i+1)
		gone := n.clone()
		emit(event{who: "stray", msg: m, then: "disappears"}, gone, fine)
		a := n.execute(r, m)
		emit(event{who: "stray", msg: m, then: "is executed:", answer: a}, n, fine)
	}
}

// settled notes that a release has set the count right, unless it was too low.
func (w *world) settled(m message, a answer) {
	if a == done && w.server.writes == m.count {
		w.drift = false
	}
}

// inTheDark notes that, because a reply was lost, nobody knows what a release under the wire owner of g would have
// found.
func (w *world) inTheDark(g *grant) {
	concerns := func(other *grant) bool {
		return other != nil && other.Wire == g.Wire && other.State().Half == g.State().Half
	}
	for i := range w.g {
		w.g[i].doubted = w.g[i].doubted || concerns(w.g[i].grant)
		w.g[i].gift.doubted = w.g[i].gift.doubted || concerns(w.g[i].gift.grant)
	}
}

// execute executes a request that nobody in this world waits for.
func (w *world) execute(r rules, m message) answer {
	before := w.server
	a := r.run(&w.server, m)
	// It may have brought back a key that an operator had removed, which no reply can tell.
	if before.owner != w.server.owner || !before.alive() && w.server.alive() {
		for i := range w.g {
			if g := &w.g[i]; g.inFlight() && g.msg.owner == m.owner || g.grant != nil &&
				g.grant.Wire == wires[m.owner] {
				g.doubted = true
			}
			if t := &w.g[i].gift; t.grant != nil && t.grant.Wire == wires[m.owner] {
				t.doubted = true
			}
		}
	}
	w.drift = w.drift || before.writes != w.server.writes
	return a
}

// background has the steps that pay a debt or correct a count. Both are repeated until they are answered.
func (w *world) background(r rules, emit emit) {
	for i, d := range w.debts {
		if d.Due() > w.now {
			continue
		}
		n := w.clone()
		m := message{verb: release, half: d.half, owner: wireOf(d.Wire), ceiling: int8(d.Ceiling)}
		paid := &n.debts[i]
		paid.skip = false
		paid.Paid()
		if d.undo && !r.undoAgain && !d.skip {
			n.debts = slices.Delete(n.debts, i, i+1)
		}
		if d.skip {
			emit(event{who: "debt", msg: m, then: "is not paid at once"}, n, fine)
			continue
		}
		a := n.execute(r, m)
		emit(event{who: "debt", msg: m, then: "is paid:", answer: a}, n, fine)
		if n = w.faulty(); n != nil {
			n.unheard(r, "debt", m, emit)
		}
	}
	for i, f := range w.fixes {
		if f.due > w.now || !w.turn(r, f.grant.Of) {
			continue
		}
		n := w.clone()
		has := n.fixes[i].grant
		if has.Returned() && !f.begun {
			n.fixes = slices.Delete(n.fixes, i, i+1)
			emit(event{who: "correction", what: "is not needed"}, n, fine)
			continue
		}
		rest := n.rest(r, has)
		m := r.messageOf(has.State().Half, rest)
		if lost := w.faulty(); lost != nil {
			has := lost.fixes[i].grant
			lost.fixes[i].begun = true
			lost.inDoubt(has, lost.rest(r, has))
			lost.unheard(r, "correction", m, emit)
		}
		n.fixes = slices.Delete(n.fixes, i, i+1)
		a := r.run(&n.server, m)
		n.settled(m, a)
		n.inTheDark(has)
		wrong := fine
		if n.released(r, has, rest, n.now, a) == owner.Absent && r.correctLoss {
			wrong = n.lose(r, has, n.now)
		}
		emit(event{who: "correction", msg: m, then: "is made:", answer: a}, n, wrong)
	}
}

// unheard has the steps of a background release without a reply.
func (w *world) unheard(r rules, who string, m message, emit emit) {
	n := w.clone()
	n.execute(r, m)
	emit(event{who: who, msg: m, then: "is executed and not answered"}, n, fine)
	if !w.keep(m) {
		w.drop()
		return
	}
	emit(event{who: who, msg: m, then: "stays in the network"}, w, fine)
}

// others has the steps of X, which takes a half and gives it back, and deletes holds without a key if it reads last;
// and of an operator, who frees our lock by force.
func (w *world) others(emit emit) {
	to := func(x someone, what string) {
		n := w.clone()
		s := &n.server
		s.x = x
		if x == nothingOfX && s.owner > 0 && s.writes == 0 && !s.alive() {
			s.clear()
		}
		emit(event{who: "X", what: what}, n, fine)
	}
	switch s := &w.server; {
	case w.bounds.force:
	case s.x == xReads:
		to(nothingOfX, "reads no more")
	case s.x == xWrites:
		to(nothingOfX, "writes no more")
	case s.x == nothingOfX:
		if w.bounds.kind != plain && !s.writing() {
			to(xReads, "reads")
		}
		if s.free() {
			to(xWrites, "writes")
		}
	}
	if w.bounds.kind == plain && w.server.owner > 0 || w.bounds.renew > 0 && w.bounds.force && w.server.alive() {
		n := w.clone()
		n.vanish(forced)
		emit(event{who: "force", what: "unlocks"}, n, fine)
	}
}
