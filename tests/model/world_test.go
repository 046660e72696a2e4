package model_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// The session's state is that of package owner; each goroutine knows its grant and its hold.
type (
	claim = owner.Claim[int, int]
	grant = owner.Grant[int, int]
	hold  = owner.Hold[int]
)

// A world is one state of everything.
type world struct {
	server server
	claim  *claim
	g      [3]goroutine
	debts  []debt    // to be paid again and again until it is answered; without a turn
	fixes  []fix     // counts to be corrected, likewise, but in turn
	stray  []message // sent, given up on, not executed yet
	now    time.Duration
	ahead  bool   // the server's clock has ticked, the session's not yet
	drawn  int8   // how many wire owners were handed out
	bounds bounds // how much of them is still to come

	emptied, undone bool // since the last grant the shared half was released, or an undo may have released it
	drift           bool // history: something may have left the server's count different from the session's
}

// A goroutine takes and releases a half. It has at most one operation in flight.
type goroutine struct {
	half    owner.Half
	locks   int8 // acquisitions left
	doing   activity
	request owner.Request // wanting or acquiring
	way     owner.Way     // acquiring
	grant   *grant        // re-entered, entered beside, or had
	hold    *hold
	rest    owner.Remaining // releasing or owing

	msg      message // in flight
	answer   answer  // none: msg is on its way to the server; otherwise: on its way back
	sent     time.Duration
	copies   time.Duration // until then copies of msg, an acquisition, may be executed
	repeated bool          // an earlier attempt at the release has had no reply

	gone    cause // history: how the hold vanished from the server
	doubted bool  // history: the acquisition was repeated
}

type activity int8

const (
	idle      activity = iota
	wanting            // between two attempts
	acquiring          // in flight
	holding
	ended     // given up here, and the release waits for its turn
	releasing // in flight
	owing     // the release had no reply, and somebody will repeat it
)

// A cause is a legitimate reason for a hold to vanish. A script of the session itself is none.
type cause int8

const (
	notGone cause = iota
	expired
	forced
)

// A debt is one of package owner, with what the model needs to know about it.
type debt struct {
	owner.Debt
	half owner.Half
	undo bool // for an acquisition that was given up
	skip bool // it is skipped the first time it is due
}

// A fix is a release that tells the server what is true when it is sent.
type fix struct {
	grant *grant
	due   time.Duration
	begun bool // it was sent before
}

func start(r rules, b bounds) *world {
	w := &world{bounds: b, claim: new(claim), now: 100 * tick}
	for i := range w.bounds.locks {
		w.g[i].locks = b.locks[i]
		if b.kind != plain {
			w.g[i].half = owner.Shared
		}
	}
	switch b.kind {
	case plain:
	case beside:
		w.begin(r, 2)
	case shared:
		w.begin(r, 0)
	}
	return w
}

// begin makes a goroutine hold its half. Copies of the acquisition may be in flight.
func (w *world) begin(r rules, i int) {
	w.drawn = 1
	g := &w.g[i]
	m := message{verb: acquire, half: g.half, owner: 1, count: 1, open: openFor}
	r.run(&w.server, m)
	w.stray = append(w.stray, m)
	g.request = owner.Request{Wire: wires[1], Copies: w.now + openFor*tick}
	w.claim.Granted(&g.request)
	w.hold(r, i, w.now)
}

var wires = []string{"", "1", "2", "3", "4", "5", "6"}

func wireOf(name string) int8 { return int8(slices.Index(wires, name)) }

// leased is the latest end of a lease that the server has just given. In the worlds with two halves no lease runs
// out.
func (w *world) leased() time.Duration {
	switch {
	case w.bounds.kind != plain:
		return forever
	case w.ahead:
		return w.now + (leaseTicks+1)*tick
	}
	return w.now + leaseTicks*tick
}

// memory is how long the server remembers a call.
func (w *world) memory() time.Duration {
	if w.bounds.kind != plain {
		return forever
	}
	return (leaseTicks + 1) * tick
}

// clone returns a copy that shares nothing with w.
func (w *world) clone() *world {
	var c owner.Copier[int, int]
	n := *w
	n.claim = c.Claim(w.claim)
	for i := range n.g {
		n.g[i].grant = c.Grant(n.g[i].grant)
		n.g[i].hold = c.Hold(n.g[i].hold)
	}
	n.debts, n.stray, n.fixes = slices.Clone(w.debts), slices.Clone(w.stray), slices.Clone(w.fixes)
	for i := range n.fixes {
		n.fixes[i].grant = c.Grant(n.fixes[i].grant)
	}
	return &n
}

// idle ends whatever g was doing.
func (g goroutine) idle() goroutine { return goroutine{half: g.half, locks: g.locks} }

func (g *goroutine) inFlight() bool { return g.doing == acquiring || g.doing == releasing }

// believes reports whether g's program may think that it has its half.
func (g *goroutine) believes(now time.Duration) bool {
	return g.doing == holding && g.hold.Trusted(now)
}

// flying reports whether an operation is in flight.
func (w *world) flying() bool {
	return slices.ContainsFunc(w.g[:], func(g goroutine) bool { return g.inFlight() })
}

// turn reports whether the claim's turn is free.
func (w *world) turn(r rules) bool { return !r.serialised || !w.flying() }

// keep leaves a copy of m in the network. It reports whether there was room.
func (w *world) keep(m message) bool {
	if len(w.stray) >= int(w.bounds.strays) {
		return false
	}
	w.stray = append(w.stray, m)
	return true
}

// faulty returns a world like w with one fault less to come; nil if there are none left.
func (w *world) faulty() *world {
	if w.bounds.faults == 0 {
		return nil
	}
	n := w.clone()
	if n.bounds.faults < unlimited {
		n.bounds.faults--
	}
	return n
}

// owe adds a debt, unless there is an equal one.
func (w *world) owe(half owner.Half, d owner.Debt, undo bool, r rules) {
	if d.Wire == "" {
		return
	}
	if !r.ceilings {
		d.Ceiling = 0
	}
	_, again, _ := d.Terms()
	owed := debt{Debt: d, half: half, undo: undo, skip: undo && again > 0 && !r.undoAtOnce}
	if !slices.Contains(w.debts, owed) {
		w.debts = append(w.debts, owed)
	}
}

func (w *world) correct(g *grant, due time.Duration) {
	f := fix{grant: g, due: due}
	if !slices.Contains(w.fixes, f) {
		w.fixes = append(w.fixes, f)
	}
}

// tidy drops what can no longer matter.
func (w *world) tidy(r rules) {
	w.stray = slices.DeleteFunc(w.stray, func(m message) bool {
		if m.verb == acquire {
			return m.open == 0 && r.notAfter && r.notAfterToo
		}
		return w.harmless(m.owner, r)
	})
	w.debts = slices.DeleteFunc(w.debts, func(d debt) bool {
		return d.Over(w.now) || w.harmless(wireOf(d.Wire), r)
	})
	if w.server.owner == 0 || wires[w.server.owner] != w.wire() {
		w.drift = false
	}
}

// wire is the claim's wire owner; "" if it has none.
func (w *world) wire() string {
	for half := range owner.Half(2) {
		if g, _ := w.claim.Held(half); g != nil {
			return g.Wire
		}
	}
	return ""
}

// harmless reports whether a release of a wire owner changes nothing and never will: the server has nothing of it,
// and nothing can come.
func (w *world) harmless(o int8, r rules) bool {
	if !r.freshOwner || w.bounds.kind != plain || w.server.owner == o || w.wire() == wires[o] {
		return false
	}
	for _, m := range w.stray {
		if m.verb == acquire && m.owner == o {
			return false
		}
	}
	for i := range w.g {
		if g := &w.g[i]; g.inFlight() && g.msg.owner == o || g.request.Wire == wires[o] {
			return false
		}
	}
	return true
}

// quiet reports whether nothing is left to happen but the passing of time and new calls.
func (w *world) quiet() bool {
	for i := range w.g {
		if w.g[i].doing != idle {
			return false
		}
	}
	return len(w.stray)+len(w.debts)+len(w.fixes) == 0
}

// key is equal for worlds that differ only in what can no longer matter. Moments count from now on, and grants are
// numbered in the order in which they are met.
func (w *world) key() string {
	k := keyer{w: w, b: make([]byte, 0, 256)}
	s := &w.server
	k.add(int(s.owner), int(s.writes), int(s.reads), int(s.keys), int(s.keys>>8), int(s.ttl), int(s.x))
	k.flags(s.remains, w.ahead, w.emptied, w.undone, w.drift)
	k.add(int(w.drawn), int(w.bounds.faults))
	known := w.claim.Known()
	if !w.claim.Holds() && !w.flying() {
		known.Top, known.Floor = 0, 0 // nobody takes a number any more
	}
	k.add(known.Top, known.Floor)
	k.flags(known.Emptied)
	for half := range owner.Half(2) {
		g, _ := w.claim.Held(half)
		k.grant(g)
	}
	for i := range w.g {
		k.goroutine(&w.g[i])
	}
	k.sorted(len(w.stray), func(i int) { k.message(w.stray[i]) })
	k.sorted(len(w.debts), func(i int) {
		d := w.debts[i]
		due, again, until := d.Terms()
		k.add(int(wireOf(d.Wire)), int(d.half), d.Ceiling)
		k.moments(due, again, until)
		k.flags(d.undo, d.skip)
	})
	for _, f := range w.fixes {
		k.grant(f.grant)
	}
	k.sorted(len(w.fixes), func(i int) {
		k.grant(w.fixes[i].grant)
		k.moments(w.fixes[i].due)
		k.flags(w.fixes[i].begun)
	})
	return string(k.b)
}

// A keyer writes a key.
type keyer struct {
	w      *world
	b      []byte
	grants []*grant
}

func (k *keyer) add(all ...int) {
	for _, n := range all {
		k.b = append(k.b, byte(n))
	}
}

func (k *keyer) flags(all ...bool) {
	n := 0
	for i, set := range all {
		if set {
			n |= 1 << i
		}
	}
	k.add(n)
}

// moments adds how many ticks it is until each moment; 0 is none, 1 is past or now.
func (k *keyer) moments(all ...time.Duration) {
	for _, then := range all {
		switch then {
		case 0:
			k.add(0)
		case forever:
			k.add(255)
		default:
			k.add(1 + int(max(0, then-k.w.now)/tick))
		}
	}
}

// grant adds a grant; the first time, with everything there is to know about it.
func (k *keyer) grant(g *grant) {
	if g == nil {
		k.add(0)
		return
	}
	if i := slices.Index(k.grants, g); i >= 0 {
		k.add(i + 1)
		return
	}
	k.grants = append(k.grants, g)
	s := g.State()
	k.add(len(k.grants), int(wireOf(g.Wire)), int(s.Half), s.Live)
	k.flags(s.Lost, s.Swept, s.Returned)
	k.moments(s.Copies, s.Until)
	for i := range k.w.g {
		o := &k.w.g[i] // its release may have been sent before a copy came
		k.flags(o.doing == releasing && o.grant == g && s.Copies > o.sent)
	}
}

func (k *keyer) goroutine(g *goroutine) {
	k.add(int(g.locks), int(g.doing), int(g.way), int(g.answer), int(g.gone))
	k.flags(g.repeated, g.doubted)
	if g.doing == idle {
		return
	}
	k.add(int(wireOf(g.request.Wire)), g.request.Number)
	k.moments(g.request.Copies)
	k.grant(g.grant)
	if g.hold != nil {
		k.moments(g.hold.Trust())
	}
	if g.inFlight() {
		k.message(g.msg)
	}
	if g.doing == acquiring {
		k.moments(g.copies)
		k.add(int(min(k.w.now-g.sent, leaseTicks*tick) / tick)) // after that no grant is trusted
	}
	if g.doing == releasing || g.doing == owing {
		k.add(g.rest.Count, g.rest.Ceiling)
	}
}

func (k *keyer) message(m message) {
	k.add(int(m.verb), int(m.half), int(m.owner), int(m.count), int(m.ceiling), int(m.open))
	k.flags(m.nested)
}

// sorted adds a set in a canonical order.
func (k *keyer) sorted(n int, add func(i int)) {
	k.add(n)
	if n == 0 {
		return
	}
	all, at := make([]string, n), len(k.b)
	for i := range n {
		add(i)
		all[i] = string(k.b[at:])
		k.b = k.b[:at]
	}
	slices.SortFunc(all, cmp.Compare[string])
	for _, one := range all {
		k.b = append(k.b, one...)
	}
}

func (m message) String() string {
	half := ""
	if m.half == owner.Shared {
		half = " shared"
	}
	switch m.verb {
	case acquire:
		return fmt.Sprintf("acquire%s(#%d→%d)", half, m.owner, m.count)
	case release:
		text := fmt.Sprintf("release%s(#%d→%d)", half, m.owner, m.count)
		if m.ceiling > 0 {
			text += ", ceiling " + strconv.Itoa(int(m.ceiling))
		}
		return text
	}
	return ""
}
