package model_test

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// A keyer writes keys.
type keyer struct {
	w      *world
	now    time.Duration
	b      []byte
	grants []*grant
	claims []int
	wires  []int // where wire owners stand
}

// key is equal for worlds that differ only in what can no longer matter, and in what is left of the bounds. Moments
// count from now on. Grants are numbered in the order in which they are met, and wire owners that are about in that in
// which they were handed out.
func (k *keyer) key(w *world) ([]byte, left) {
	k.w, k.now, k.b, k.grants, k.claims, k.wires = w, w.now, k.b[:0], k.grants[:0], k.claims[:0], k.wires[:0]
	s, b := &w.server, &w.bounds
	k.wire(s.owner)
	k.add(byte(s.writes), byte(s.reads), byte(s.keys), byte(s.keys>>8), byte(s.ttl), byte(s.x),
		flags(s.remains, w.ahead, w.emptied, w.undone, w.drift))
	for _, of := range w.of {
		k.claim(of)
	}
	for i := range w.g {
		k.goroutine(&w.g[i])
	}
	k.sorted(len(w.stray), func(i int) { k.message(w.stray[i]) })
	k.sorted(len(w.debts), func(i int) {
		d := w.debts[i]
		due, again, until := d.Terms()
		k.wire(wireOf(d.Wire))
		k.add(byte(d.half), byte(d.Ceiling), k.moment(due), k.moment(again), k.moment(until), flags(d.undo, d.skip))
	})
	for _, f := range w.fixes {
		k.grant(f.grant)
	}
	k.sorted(len(w.fixes), func(i int) {
		k.grant(w.fixes[i].grant)
		k.add(k.moment(w.fixes[i].due), flags(w.fixes[i].begun))
	})
	k.renumber()
	return k.b, leftOf(w.g[0].locks, w.g[1].locks, w.g[other].locks, b.faults, b.renew, b.extends)
}

// wire adds a wire owner, or 0.
func (k *keyer) wire(o int8) {
	k.wires = append(k.wires, len(k.b))
	k.add(byte(o))
}

// renumber numbers the wire owners that are about from 1. It leaves the order of sets as it is.
func (k *keyer) renumber() {
	var numbers [len(wires)]byte
	for _, at := range k.wires {
		numbers[k.b[at]] = 1
	}
	numbers[0] = 0
	for o := range numbers[1:] {
		numbers[o+1] += numbers[o]
	}
	for _, at := range k.wires {
		k.b[at] = numbers[k.b[at]]
	}
}

func (k *keyer) add(all ...byte) { k.b = append(k.b, all...) }

// flags are at most eight flags.
func flags(all ...bool) (n byte) {
	for i, set := range all {
		if set {
			n |= 1 << i
		}
	}
	return n
}

// moment is how many ticks it is until a moment; 0 is none, 1 is past or now.
func (k *keyer) moment(then time.Duration) byte {
	switch then {
	case 0:
		return 0
	case forever:
		return 255
	default:
		return 1 + byte(max(0, then-k.now)/tick)
	}
}

// trims adds what is known of trims, and how far the server's clock may be set back.
func (k *keyer) trims(known owner.Known) {
	if known.Until <= k.w.now {
		known.Until, known.Most = 0, 0
	}
	k.add(byte(ticks(known.Sent)), byte(ticks(known.Most)), byte(known.Asked))
	k.add(byte(k.w.bounds.setBack), k.moment(known.Until))
}

// claim adds a claim; the first time, with everything there is to know about it.
func (k *keyer) claim(of int) {
	if i := slices.Index(k.claims, of); i >= 0 {
		k.add(byte(i + 1))
		return
	}
	k.claims = append(k.claims, of)
	c := k.w.claims[of]
	known := c.Known()
	if !c.Holds() && !k.w.flying(of) {
		known.Top, known.Floor = 0, 0 // nobody takes a number any more
	}
	k.add(byte(len(k.claims)), byte(known.Top), byte(known.Floor), flags(known.Emptied))
	if k.w.bounds.kind == leases {
		k.trims(known)
	}
	for half := range owner.Half(2) {
		g, _ := c.Held(half)
		k.grant(g)
	}
}

// grant adds a grant; the first time, with everything there is to know about it.
func (k *keyer) grant(g *grant) {
	if g == nil {
		k.add(0)
		return
	}
	if i := slices.Index(k.grants, g); i >= 0 {
		k.add(byte(i + 1))
		return
	}
	k.grants = append(k.grants, g)
	s := g.State()
	k.add(byte(len(k.grants)))
	k.wire(wireOf(g.Wire))
	k.add(byte(s.Half), byte(s.Live), flags(s.Lost, s.Swept, s.Returned), k.moment(s.Copies))
	k.claim(g.Of)
	if k.w.bounds.kind != leases || k.w.bounds.slack {
		k.add(k.moment(s.Until), k.moment(s.Doubted), flags(s.Lengthened && k.w.bounds.kind == leases))
	}
	early := byte(0) // whose release may have been sent before a copy came
	for i := range k.w.g {
		if o := &k.w.g[i]; o.doing == releasing && o.grant == g && s.Copies > o.sent {
			early |= 1 << i
		}
	}
	k.add(early)
}

func (k *keyer) goroutine(g *goroutine) {
	k.add(byte(g.doing), byte(g.way), byte(g.answer), byte(g.gone),
		flags(g.repeated, g.doubted))
	if g.doing == idle {
		return
	}
	k.claim(g.claim)
	k.gift(&g.gift)
	k.wire(wireOf(g.request.Wire))
	k.add(byte(g.request.Number), k.moment(g.request.Copies))
	k.grant(g.grant)
	if g.hold != nil {
		k.add(k.moment(g.hold.Trust()))
	}
	if g.sends() {
		k.message(g.msg)
	}
	if g.doing == acquiring && k.w.bounds.kind != leases {
		k.add(k.moment(g.copies))
	}
	if g.doing == acquiring || g.doing == extending || g.doing == renewing {
		k.add(byte(min(k.w.now-g.sent, leaseTicks*tick) / tick)) // after that no grant is trusted
	}
	if g.doing == releasing || g.doing == owing {
		k.add(byte(g.rest.Count), byte(g.rest.Ceiling))
	}
}

func (k *keyer) message(m message) {
	k.wire(m.owner)
	k.add(byte(m.verb), byte(m.half), byte(m.count), byte(m.ceiling), byte(m.lease), byte(m.open),
		flags(m.nested))
}

// sorted adds a set of n items in a canonical order. All of them take the same space.
func (k *keyer) sorted(n int, add func(i int)) {
	k.add(byte(n))
	start := len(k.b)
	for i := range n {
		add(i)
		size := (len(k.b) - start) / (i + 1)
		for at := len(k.b) - size; at > start; at -= size {
			before, one := k.b[at-size:at], k.b[at:at+size]
			if string(before) <= string(one) {
				break
			}
			for j := range one {
				before[j], one[j] = one[j], before[j]
			}
		}
	}
}
