package model_test

import (
	"slices"
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
	claims []*claim // a grant is of one of them: it says of which
	of     [2]int   // which of them the owners have
	g      [4]goroutine
	debts  []debt    // to be paid again and again until it is answered; without a turn
	fixes  []fix     // counts to be corrected, likewise, but in turn
	stray  []message // sent, given up on, not executed yet
	now    time.Duration
	ahead  bool   // the server's clock has ticked, the session's not yet
	drawn  int8   // how many wire owners were handed out
	bounds bounds // how much of them is still to come

	dropped *dropped[world]        // of the search
	copier  owner.Copier[int, int] // which has made the claims, if the world is a copy

	emptied, undone bool // since the last grant the shared half was released, or an undo may have released it
	drift           bool // history: something may have left the server's count different from the session's
}

// A goroutine takes and releases a half, or is the session's: it renews, or trims. It has at most one operation in
// flight.
type goroutine struct {
	half    owner.Half
	locks   int8 // acquisitions left
	claim   int  // of its call
	gift    gift // which was handed over to its call
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
	extending // holding, and in flight
	renewing  // in flight
	trimming  // in flight
	detached  // the hold, for as long as it is trusted
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
	w := &world{bounds: b, claims: []*claim{new(claim)}, now: 100 * tick, dropped: new(dropped[world])}
	if b.other > 0 {
		w.claims, w.of[1] = append(w.claims, new(claim)), 1
		w.g[other].locks, w.g[other].claim = b.other, 1
	}
	for i := range w.bounds.locks {
		w.g[i].locks = b.locks[i]
		if b.kind.endless() {
			w.g[i].half = owner.Shared
		}
	}
	switch b.kind {
	case plain:
		if b.held {
			w.begin(r, 0)
			w.g[other].doing, w.g[other].locks = wanting, b.other-1
		}
	case beside:
		w.begin(r, 2)
	case shared, leases:
		w.begin(r, 0)
	}
	return w
}

// begin makes a goroutine hold its half. Copies of the acquisition may be in flight.
func (w *world) begin(r rules, i int) {
	w.drawn = 1
	g := &w.g[i]
	m := message{verb: acquire, half: g.half, owner: 1, count: 1, lease: w.length(i), open: openFor}
	r.run(&w.server, m)
	if g.request = (owner.Request{Wire: wires[1]}); w.keep(m) {
		g.request.Copies = w.now + openFor*tick
	}
	w.asks(g).Granted(&g.request)
	w.hold(r, i, w.now)
}

var wires = [...]string{"", "1", "2", "3", "4", "5", "6"}

func wireOf(name string) int8 {
	if name == "" {
		return 0
	}
	return int8(name[0] - '0')
}

// length is the lease that a goroutine asks for, in ticks.
func (w *world) length(i int) int8 {
	if w.bounds.kind == leases {
		return w.bounds.length[i]
	}
	return leaseTicks
}

// watched reports whether a goroutine's holds are renewed. Where leases do not differ, the session takes them for
// renewed, or they could not be handed over, but no renewal is sent.
func (w *world) watched(i int) bool { return w.bounds.kind != leases || w.bounds.watched[i] }

// trust is until when a hold is trusted that a call sent at that moment was granted.
func (w *world) trust(r rules, length int8, sent time.Duration) time.Duration {
	if w.bounds.kind.endless() {
		return forever
	}
	if r.margin {
		length -= safety
	}
	return sent + time.Duration(length)*tick
}

// leased is the latest end of a lease that the server has just given. In the worlds with two halves no lease runs
// out.
func (w *world) leased(ticks int8) time.Duration {
	if w.bounds.kind.endless() {
		return forever
	}
	return w.serverNow() + time.Duration(ticks)*tick
}

// serverNow is how late it may be by the server's clock, if that was not set back.
func (w *world) serverNow() time.Duration {
	if w.ahead {
		return w.now + tick
	}
	return w.now
}

// memory is how long the server remembers a call.
func (w *world) memory() time.Duration {
	if w.bounds.kind.endless() {
		return forever
	}
	return (leaseTicks + 1) * tick
}

// clone returns a copy that shares nothing with w.
func (w *world) clone() *world {
	n := w.dropped.blank()
	c, claims, debts, stray, fixes := n.copier, n.claims[:0], n.debts[:0], n.stray[:0], n.fixes[:0]
	*n = *w
	c.Reset()
	for _, of := range w.claims {
		claims = append(claims, c.Claim(of))
	}
	for i := range n.g {
		g := &n.g[i]
		g.gift.grant, g.gift.hold = c.Grant(g.gift.grant), c.Hold(g.gift.hold)
		g.grant, g.hold = c.Grant(g.grant), c.Hold(g.hold)
	}
	n.debts, n.stray, n.fixes = append(debts, w.debts...), append(stray, w.stray...), append(fixes, w.fixes...)
	for i := range n.fixes {
		n.fixes[i].grant = c.Grant(n.fixes[i].grant)
	}
	n.copier, n.claims = c, claims
	return n
}

// drop gives up a copy that nobody wants any more.
func (w *world) drop() { w.dropped.add(w) }

// idle ends whatever g was doing. What was handed over stays.
func (g goroutine) idle() goroutine {
	return goroutine{half: g.half, locks: g.locks, claim: g.claim, gift: g.gift}
}

// inFlight reports whether an operation is in flight that takes turns.
func (g *goroutine) inFlight() bool {
	return g.doing == acquiring || g.doing == releasing || g.doing == trimming
}

// sends reports whether anything is in flight.
func (g *goroutine) sends() bool { return g.inFlight() || g.doing == extending || g.doing == renewing }

// has reports whether g has a hold.
func (g *goroutine) has() bool { return g.doing == holding || g.doing == extending }

// believes reports whether g's program may think that it has its half.
func (g *goroutine) believes(now time.Duration) bool {
	return (g.has() || g.doing == detached) && g.hold.Trusted(now)
}

// claim is that of a grant.
func (w *world) claim(g *grant) *claim { return w.claims[g.Of] }

// asks is the claim of a goroutine's call.
func (w *world) asks(g *goroutine) *claim { return w.claims[g.claim] }

// claimOf is which claim a goroutine is about.
func (g *goroutine) claimOf() int {
	if g.grant != nil {
		return g.grant.Of
	}
	return g.claim
}

// flying reports whether an operation is in flight for a claim.
func (w *world) flying(of int) bool {
	return slices.ContainsFunc(w.g[:], func(g goroutine) bool { return g.inFlight() && g.claimOf() == of })
}

// turn reports whether the claim's turn is free.
func (w *world) turn(r rules, of int) bool { return !r.serialised || !w.flying(of) }

// keep leaves a copy of m in the network. It reports whether there was room. Where leases differ, there is none for
// what can only make them longer.
func (w *world) keep(m message) bool {
	room := w.room(m)
	if room {
		w.stray = append(w.stray, m)
	}
	return room
}

// room reports whether there is room for m in the network.
func (w *world) room(m message) bool {
	return len(w.stray) < int(w.bounds.strays) && (w.bounds.kind != leases || m.verb == trim)
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
	if w.bounds.kind != leases && !slices.Contains(w.fixes, f) {
		w.fixes = append(w.fixes, f)
	}
}

// tidy drops what can no longer matter.
func (w *world) tidy(r rules) {
	w.stray = slices.DeleteFunc(w.stray, func(m message) bool {
		switch m.verb {
		case acquire:
			return m.open == 0 && r.notAfter && r.notAfterToo
		case trim:
			return w.over(m, r)
		default:
			return w.harmless(m.owner, r)
		}
	})
	w.debts = slices.DeleteFunc(w.debts, func(d debt) bool {
		return d.Over(w.now) || w.harmless(wireOf(d.Wire), r)
	})
	if w.server.owner == 0 || !w.holds(w.server.owner) {
		w.drift = false
	}
	if w.bounds.kind == leases {
		w.tidyLeases()
	}
}

// holds reports whether a claim has the wire owner.
func (w *world) holds(o int8) bool {
	return slices.ContainsFunc(w.claims, func(c *claim) bool {
		own, other := c.Held(owner.Exclusive)
		return own != nil && own.Wire == wires[o] || other != nil && other.Wire == wires[o]
	})
}

// harmless reports whether a release of a wire owner changes nothing and never will: the server has nothing of it,
// and nothing can come.
func (w *world) harmless(o int8, r rules) bool {
	if !r.freshOwner || w.bounds.kind != plain || w.server.owner == o || w.holds(o) {
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
