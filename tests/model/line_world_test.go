package model_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// Sessions wait for a lock in a line on the server, as in rlock_stand.lua. A release hands the lock to the first that
// lives, and a message tells its session. Each session has at most one call and one hold at a time. The calls have no
// owner in their context, so a claim has one grant with one hold, and is made anew for each question to internal/owner.

// A lineWorld is one state of everything.
type lineWorld struct {
	server  lineServer
	replica lineServer // what the server was before the last write; only if it may fail over
	s       [2]lineSession
	debts   list[lineDebt]
	stray   list[lineCall] // sent, given up on, not executed yet
	now     time.Duration
	ahead   bool // the server's clock has ticked, the session's not yet
	bounds  lineBounds
	excused uint16 // history: wire owners that lost the lock by force or a failover, until they are told that they wait
	failed  bool   // history: so what was given back may be there once more, until its lease is over

	dropped *dropped[lineWorld] // of the search
}

// A list has few items, and is copied with the world.
type list[T any] struct {
	n   int8
	all [4]T
}

func (l *list[T]) items() []T { return l.all[:l.n] }

func (l *list[T]) add(t T) {
	l.all[l.n] = t
	l.n++
}

// shift takes the first one out.
func (l *list[T]) shift() (t T) {
	t = l.all[0]
	l.n = int8(len(slices.Delete(l.items(), 0, 1)))
	return t
}

func (l *list[T]) drop(which func(T) bool) {
	l.n = int8(len(slices.DeleteFunc(l.items(), which)))
}

// A lineSession has a hold or none, and a call that waits or none.
type lineSession struct {
	calls int8 // still to come
	drawn int8 // how many wire owners were handed out
	down  bool // the subscription is
	dead  bool // the process is
	inbox list[note]

	call    activity // idle, wanting or acquiring
	request owner.Request
	mail    wire          // the session was told that this has the lock
	look    bool          // something has woken the call since it asked last
	sure    bool          // it has asked since the last thing happened of which nobody is told
	hears   bool          // it hears those, too, who do not know the line
	estate  owner.Request // a place in the line that a call has left to the next one

	ask    lineCall // in flight
	answer answer   // none: it is on its way to the server; else: on its way back
	first  bool     // the answer says that the waiter is to listen to others
	calm   bool     // nothing has happened since the answer of which nobody is told
	after  bool     // the wire owner had lost the lock by force before the answer
	sent   time.Duration
	copies time.Duration // until then copies of the call may be executed

	holds activity // idle, holding or releasing
	held  tenure
	gave  time.Duration // when the release was sent
}

// A tenure is what there is to know about a hold and its grant.
type tenure struct {
	wire                 wire
	trust, until, copies time.Duration
}

// A wire is a wire owner.
type wire int8

const (
	wiresEach      = 4
	others    wire = 2*wiresEach + 1 // who do not know the line
)

var wireNames = [...]string{"nobody", "a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "X"}

func (w wire) String() string { return wireNames[w] }

// of is whose wire owner it is.
func (w wire) of() int { return int(w-1) / wiresEach }

// wireCalled is the wire owner with a name, of a session's or none.
func wireCalled(name string) wire {
	if name == "" {
		return 0
	}
	return wire(wiresEach*(name[0]-'a') + name[1] - '0')
}

// A lineCall is a call that takes the lock or stands in its line.
type lineCall struct {
	wire  wire
	again bool // an earlier one of the wire owner's may have been executed
	open  int8 // ticks until its not-after has passed
	hears bool // the session hears if it is granted the lock; in the fair worlds
}

// A lineDebt is one of package owner.
type lineDebt struct {
	owner.Debt
	of     int8 // the session
	undo   bool // of a request that was given up
	leaves bool // paying it takes the waiter out of the line
}

// A note is a message to a session: that a wire owner has the lock, or one of these.
type note int8

const (
	noteFree   note = -1 - iota // the lock is free, and others may take it first
	noteFirst                   // who was in front has left the line
	noteOthers                  // on the lock's own channel: it is free
)

func (n note) String() string {
	if n > 0 {
		return fmt.Sprintf("%q", wire(n))
	}
	return [...]string{"", "free", "first", "0"}[-n]
}

func startLine(b lineBounds) *lineWorld {
	w := &lineWorld{bounds: b, now: 100 * tick, dropped: new(dropped[lineWorld])}
	for i := range w.s {
		w.s[i].calls = b.calls[i]
	}
	for i := range w.s {
		w.s[i].down = b.silent
	}
	if b.theirs {
		w.server.holder = others
		return w
	}
	first := &w.s[0]
	first.drawn, w.server.holder, w.server.ttl = 1, 1, leaseTicks
	w.begin(first, tenure{wire: 1, trust: w.now + (leaseTicks-safety)*tick, until: w.leased(leaseTicks)})
	return w
}

// clone returns a copy that shares nothing with w.
func (w *lineWorld) clone() *lineWorld {
	n := w.dropped.blank()
	*n = *w
	return n
}

// drop gives up a copy that nobody wants any more.
func (w *lineWorld) drop() { w.dropped.add(w) }

// begin makes a session hold the lock.
func (w *lineWorld) begin(s *lineSession, t tenure) { s.holds, s.held = holding, t }

func (w *lineWorld) serverNow() time.Duration {
	if w.ahead {
		return w.now + tick
	}
	return w.now
}

// leased is the latest end of a lease that the server has just given.
func (w *lineWorld) leased(ticks int8) time.Duration {
	return w.serverNow() + time.Duration(ticks)*tick
}

// lineMemory is how long the server may have something of a call. These worlds forget no debt.
const lineMemory = forever

// believes reports whether a session's program may think that it has the lock.
func (s *lineSession) believes(now time.Duration) bool {
	return s.holds == holding && now < s.held.trust
}

// disturb notes that something has happened of which nobody is told: a call finds out in time.
func (w *lineWorld) disturb() {
	for i := range w.s {
		w.s[i].sure, w.s[i].calm = false, false
	}
}

// claim is a claim of package owner that has what the tenure tells of.
func (t *tenure) claim(now time.Duration) (*claim, *grant, *hold) {
	c, g, h := new(claim), new(grant), new(hold)
	g.Begin(0, owner.Exclusive, t.wire.String(), 0, t.copies)
	h.Begin(0, now, t.trust)
	c.Add(g, h, t.until, true)
	return c, g, h
}

// tidy drops what can no longer matter.
func (w *lineWorld) tidy(r lineRules) {
	for i := range w.s {
		s := &w.s[i]
		if s.call == idle {
			s.request, s.look, s.sure, s.hears = owner.Request{}, false, false, false
		}
		if s.call != acquiring {
			s.ask, s.answer, s.first, s.calm, s.after, s.sent, s.copies = lineCall{}, none, false, false, false, 0, 0
		}
		if !w.bounds.wakes {
			s.look, s.sure, s.calm = s.call != idle, false, false
		}
		if s.holds == idle {
			s.held, s.gave = tenure{}, 0
		}
		if s.estate.Wire != "" && s.call == idle && s.holds != holding {
			w.giveUp(r, i, &s.estate, r.givesUpEstate)
		}
		if s.answer != none {
			s.ask.open, s.ask.again, s.ask.hears = 0, false, false
		}
		if r.ownMessage {
			if !s.awaits(s.mail) {
				s.mail = 0
			}
			s.inbox.drop(func(n note) bool {
				return n > 0 && !s.awaits(wire(n)) || n < 0 && (s.call == idle || !w.bounds.wakes)
			})
		}
	}
	w.stray.drop(func(c lineCall) bool { return c.open == 0 })
	w.debts.drop(func(d lineDebt) bool {
		return d.Over(w.now) || w.s[d.of].dead || !w.mayHave(wireCalled(d.Wire))
	})
	for o := wire(1); o < others; o++ {
		w.server.tidy(o)
		w.replica.tidy(o)
	}
}

// awaits reports whether a message matters that a wire owner has the lock.
func (s *lineSession) awaits(o wire) bool {
	name := o.String()
	return name == s.request.Wire || name == s.estate.Wire
}

// mayHave reports whether the server has anything of a wire owner, or may get it yet. If not, no debt of it matters.
func (w *lineWorld) mayHave(o wire) bool {
	if w.server.holder == o || w.server.stands(o) || w.s[o.of()].ask.wire == o ||
		w.bounds.fails > 0 && (w.replica.holder == o || w.replica.stands(o)) {
		return true
	}
	return slices.ContainsFunc(w.stray.items(), func(c lineCall) bool { return c.wire == o })
}

// server adds what a server has, but for what it has of each wire owner.
func (k *keyer) server(v *lineServer, fair bool) {
	k.wire(int8(v.holder))
	k.add(byte(v.ttl), flags(v.remains, v.over, v.gone))
	k.line(&v.line)
	if fair {
		k.line(&v.ours)
	}
}

func (k *keyer) line(l *list[wire]) {
	k.add(byte(l.n))
	for _, o := range l.items() {
		k.wire(int8(o))
	}
}

// lineKey is equal for worlds that differ only in what can no longer matter, and in what is left of the bounds. Moments
// count from now on, and the wire owners of a session that are about are numbered anew.
func lineKey(k *keyer, w *lineWorld) ([]byte, left) {
	k.now, k.b, k.wires = w.now, k.b[:0], k.wires[:0]
	b := &w.bounds
	k.add(flags(w.ahead, w.failed), byte(b.fails))
	if k.server(&w.server, b.fair); b.fails > 0 {
		k.server(&w.replica, b.fair)
	}
	since := func(then time.Duration) byte { // no trust lasts longer
		return byte(min(w.now-then, handedTicks*tick) / tick)
	}
	request := func(r *owner.Request) {
		k.wire(int8(wireCalled(r.Wire)))
		k.add(k.moment(r.Copies), flags(r.Stands), since(r.Stood))
	}
	var draws [len(w.s)]int8
	for i := range w.s {
		s := &w.s[i]
		if !s.dead {
			draws[i] = b.draws[i] - s.drawn
		}
		k.add(byte(s.inbox.n), byte(s.call), byte(s.holds),
			flags(s.down, s.dead, s.look, s.sure, s.hears, s.first, s.calm, s.after))
		for _, n := range s.inbox.items() {
			k.add(byte(min(n, 0)))
			k.wire(int8(max(n, 0)))
		}
		k.wire(int8(s.mail))
		request(&s.request)
		request(&s.estate)
		if s.call == acquiring {
			k.wire(int8(s.ask.wire))
			k.add(byte(s.ask.open), byte(s.answer),
				flags(s.ask.again, s.sent >= s.request.Copies, s.ask.hears), k.moment(s.copies), since(s.sent))
		}
		if s.holds != idle {
			k.wire(int8(s.held.wire))
			k.add(k.moment(s.held.trust), k.moment(s.held.until), k.moment(s.held.copies),
				flags(s.holds == releasing && s.held.copies > s.gave))
		}
	}
	k.sorted(int(w.stray.n), func(i int) {
		c := w.stray.all[i]
		k.wire(int8(c.wire))
		k.add(byte(c.open), flags(c.again, c.hears))
	})
	k.sorted(int(w.debts.n), func(i int) {
		d := w.debts.all[i]
		due, again, until := d.Terms()
		k.wire(int8(wireCalled(d.Wire)))
		k.add(k.moment(due), k.moment(again), k.moment(until), flags(d.undo, d.leaves))
	})
	k.waiters(w)
	return k.b, leftOf(w.s[0].calls, w.s[1].calls, draws[0], draws[1],
		b.faults, b.force, b.evicts, b.kills, b.pops, b.refuses, b.redisson)
}

// waiters numbers the wire owners, and adds what servers have of each.
func (k *keyer) waiters(w *lineWorld) {
	v, other := &w.server, &w.replica
	about := v.due | v.listed | v.hear
	if w.bounds.fails > 0 {
		about |= other.due | other.listed | other.hear
	} else {
		other = new(lineServer)
	}
	for _, at := range k.wires {
		about.set(wire(k.b[at]), true)
	}
	numbers := [...]byte{others: byte(others)}
	for o, next := wire(1), byte(0); o < others; o++ {
		if o%wiresEach == 1 {
			next = byte(o)
		}
		if about.has(o) {
			numbers[o], next = next, next+1
		}
	}
	for _, at := range k.wires {
		k.b[at] = numbers[k.b[at]]
	}
	for o := wire(1); o <= others; o++ {
		if !about.has(o) {
			continue
		}
		k.add(numbers[o], flags(o < others && w.excused&(1<<o) != 0, v.due.has(o), v.listed.has(o), v.hear.has(o),
			other.due.has(o), other.listed.has(o), other.hear.has(o)))
		if o < others {
			k.add(byte(v.alive[o]), byte(other.alive[o]))
		}
	}
}
