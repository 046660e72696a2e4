package model_test

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Sessions wait for permits of a semaphore in a line on the server. A release tells the first ones for whom there is
// room, and each of them takes by a call of its own. Nobody is granted anything, so these worlds have no clock: a
// waiter that does not call is taken for dead at any time, and the not-after of a call passes when its debt is paid.

// A permWorld is one state of everything.
type permWorld struct {
	server  permServer
	replica permServer // what the server was before the last write; only if it may fail over
	s       [permSessions]permSession
	x       permOther
	debts   list[permDebt]
	stray   list[permCall]
	bounds  permBounds
	total   int8 // permits there should be
	loose   int8 // taken, and who has taken them is still to know
	lost    int8 // … and will never
	failed  bool // history: so what was given back may be taken once more, until its lease is over

	dropped *dropped[permWorld] // of the search
}

// A waiter is a call that may have a place in the line; 0: none. Its wire owner is "<session>:<number>".
type waiter int8

func (o waiter) of() int     { return int(o-1) / callsOfOne }
func (o waiter) number() int { return int(o-1) % callsOfOne }

func (o waiter) String() string {
	return fmt.Sprintf("%s%d", permNames[o.of()], o.number()+1)
}

const waiters = permSessions*callsOfOne + 1

var permNames = [...]string{"A", "B", "C"}

// A permSession has a call that waits or none, and permits.
type permSession struct {
	drawn  int8 // how many calls have begun
	down   bool // the subscription is
	dead   bool // the process is
	frozen bool
	closed bool

	call   activity // idle, wanting or acquiring
	sent   bool     // it has asked before
	copies bool     // … and a copy of that may come
	stands bool     // it has been told that it waits
	look   bool     // something has woken it since it asked last
	sure   bool     // it has asked since the last thing happened of which nobody is told
	mail   bool     // a message to the session is on its way
	news   bool     // so is one on Redisson's channel
	heard  bool     // the session is subscribed to that
	marked bool     // and to the channel that says so

	ask    permCall
	answer answer // none: the call is on its way to the server; else: on its way back
	calm   bool   // nothing has happened since the answer of which nobody is told

	holds  waiterSet
	doubts waiterSet // those of holds of which a copy of the acquisition may come
}

// A waiterSet is a set of waiters.
type waiterSet uint8

func (s waiterSet) has(o waiter) bool { return s&(1<<o) != 0 }

func (s *waiterSet) set(o waiter, in bool) {
	*s &^= 1 << o
	if in {
		*s |= 1 << o
	}
}

// A permCall is a call that takes permits or stands in the line.
type permCall struct {
	waiter waiter
	stand  bool // or it stands nowhere
	back   bool // its caller has given up, and gives back what it takes
}

// A permOther knows nothing of the line: it takes what is free, and else sleeps until it hears a message.
type permOther struct {
	asleep, awake bool // it waits
	holds         bool
}

// A permDebt is something that a session owes the server.
type permDebt struct {
	waiter waiter
	gives  bool // permits back; else the waiter leaves
	again  bool // and leaves once more
	last   bool // that is now: no copy of its calls can come any more
}

func startPerm(b permBounds) *permWorld {
	w := &permWorld{bounds: b, total: b.free, dropped: new(dropped[permWorld])}
	w.server.free, w.replica.free = b.free, b.free
	for i := range w.s {
		w.s[i].down = b.silent
	}
	return w
}

// clone returns a copy that shares nothing with w.
func (w *permWorld) clone() *permWorld {
	n := w.dropped.blank()
	*n = *w
	return n
}

// drop gives up a copy that nobody wants any more.
func (w *permWorld) drop() { w.dropped.add(w) }

// n is how many permits a waiter wants.
func (w *permWorld) n(o waiter) int8 { return w.bounds.wants[o.of()][o.number()] }

// present is the session's call; 0: there is none.
func (w *permWorld) present(i int) waiter {
	s := &w.s[i]
	if s.call == idle || s.dead {
		return 0
	}
	return waiter(i*callsOfOne + int(s.drawn))
}

// disturb notes that something has happened of which nobody is told: a call finds out in time.
func (w *permWorld) disturb() {
	for i := range w.s {
		w.s[i].sure, w.s[i].calm = false, false
	}
}

// tidy drops what can no longer matter.
func (w *permWorld) tidy() {
	for i := range w.s {
		s := &w.s[i]
		if s.call == idle {
			s.sent, s.copies, s.stands, s.look, s.sure, s.mail, s.news = false, false, false, false, false, false, false
		}
		if s.call != acquiring {
			s.ask, s.answer, s.calm = permCall{}, none, false
		}
		if s.call == idle && (s.dead || s.closed || !w.more(i)) { // its subscriptions linger, and matter to nobody
			s.heard, s.marked = false, false
		}
	}
	w.debts.drop(func(d permDebt) bool { return w.s[d.waiter.of()].dead || !d.gives && !w.mayHave(d.waiter) })
}

// more reports whether the session has another call to come.
func (w *permWorld) more(i int) bool {
	s := &w.s[i]
	return !s.dead && !s.closed && s.drawn < callsOfOne && w.bounds.wants[i][s.drawn] > 0
}

// mayHave reports whether the server has anything of a waiter, or may get it yet. If not, no debt of it matters.
func (w *permWorld) mayHave(o waiter) bool {
	return w.server.stands(o) || w.server.taken.has(o) || w.mayCome(o) ||
		w.bounds.fails > 0 && (w.replica.stands(o) || w.replica.taken.has(o))
}

// mayCome reports whether a call of a waiter's is on its way.
func (w *permWorld) mayCome(o waiter) bool {
	s := &w.s[o.of()]
	return s.call == acquiring && s.ask.waiter == o && s.answer == none ||
		slices.ContainsFunc(w.stray.items(), func(c permCall) bool { return c.waiter == o })
}

// permKey is equal for worlds that differ only in what can no longer matter, in what is left of the bounds, and in the
// order of sessions that want the same.
func permKey(k *keyer, w *permWorld) ([]byte, left) {
	k.b = k.b[:0]
	v, other, b := &w.server, &w.replica, &w.bounds
	k.add(byte(v.free), byte(v.line.n), byte(other.free), byte(other.line.n), byte(w.total-w.lost), byte(w.loose),
		byte(b.fails), flags(v.some, other.some, w.x.asleep, w.x.awake, w.x.holds, w.failed))
	for i, n := 0, 0; i < permSessions; i += n {
		n = 1
		for i+n < permSessions && b.wants[i+n] == b.wants[i] {
			n++
		}
		k.sorted(n, func(j int) { k.session(w, i+j) })
	}
	return k.b, leftOf(b.turns, b.faults, b.evicts, b.kills, b.freezes, b.closes, b.sizes)
}

// session adds a session, and all that there is of it elsewhere.
func (k *keyer) session(w *permWorld, i int) {
	s := &w.s[i]
	k.add(byte(s.drawn), byte(s.call), byte(s.answer),
		flags(s.down, s.dead, s.frozen, s.closed, s.sent, s.copies, s.stands, s.look),
		flags(s.sure, s.mail, s.news, s.heard, s.marked, s.calm, s.ask.stand))
	for o := waiter(i*callsOfOne + 1); o.of() == i; o++ {
		k.add(flags(s.holds.has(o), s.doubts.has(o)))
		k.permits(&w.server, o)
		k.permits(&w.replica, o)
		strays, debts := uint16(0), uint32(0) // how many of each kind, in four bits
		for _, c := range w.stray.items() {
			if c.waiter == o {
				strays += 1 << (4 * flags(c.stand, c.back))
			}
		}
		for _, d := range w.debts.items() {
			if d.waiter == o {
				debts += 1 << (4 * flags(d.gives, d.again, d.last))
			}
		}
		k.b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(k.b, strays), debts)
	}
}

// permits adds what a server has of a waiter.
func (k *keyer) permits(v *permServer, o waiter) {
	k.add(byte(slices.Index(v.line.items(), o)), byte(v.alive[o]), flags(v.taken.has(o), v.over.has(o)))
}
