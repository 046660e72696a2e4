package model_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// A keyer writes keys.
type keyer struct {
	w      *world
	b      []byte
	grants []*grant
	claims []int
}

// key is equal for worlds that differ only in what can no longer matter. Moments count from now on, and grants are
// numbered in the order in which they are met.
func (k *keyer) key(w *world) []byte {
	k.w, k.b, k.grants, k.claims = w, k.b[:0], k.grants[:0], k.claims[:0]
	s := &w.server
	k.add(int(s.owner), int(s.writes), int(s.reads), int(s.keys), int(s.keys>>8), int(s.ttl), int(s.x))
	k.flags(s.remains, w.ahead, w.emptied, w.undone, w.drift)
	k.add(int(w.drawn), int(w.bounds.faults))
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
	return k.b
}

func (k *keyer) add(all ...int) {
	b := k.b
	for _, n := range all {
		b = append(b, byte(n))
	}
	k.b = b
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

// trims adds what is known of trims, and of the bounds what is of leases.
func (k *keyer) trims(known owner.Known) {
	if known.Until <= k.w.now {
		known.Until, known.Most = 0, 0
	}
	k.add(ticks(known.Sent), ticks(known.Most), known.Asked, int(k.w.bounds.extends), int(k.w.bounds.setBack))
	k.moments(known.Until)
}

// claim adds a claim; the first time, with everything there is to know about it.
func (k *keyer) claim(of int) {
	if i := slices.Index(k.claims, of); i >= 0 {
		k.add(i + 1)
		return
	}
	k.claims = append(k.claims, of)
	c := k.w.claims[of]
	known := c.Known()
	if !c.Holds() && !k.w.flying(of) {
		known.Top, known.Floor = 0, 0 // nobody takes a number any more
	}
	k.add(len(k.claims), known.Top, known.Floor)
	if k.w.bounds.kind == leases {
		k.trims(known)
	}
	k.flags(known.Emptied)
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
		k.add(i + 1)
		return
	}
	k.grants = append(k.grants, g)
	s := g.State()
	k.add(len(k.grants), int(wireOf(g.Wire)), int(s.Half), s.Live)
	k.flags(s.Lost, s.Swept, s.Returned)
	k.claim(g.Of)
	if k.w.bounds.kind != leases || k.w.bounds.slack {
		k.moments(s.Until)
		k.flags(s.Lengthened && k.w.bounds.kind == leases)
	}
	k.moments(s.Copies)
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
	k.claim(g.claim)
	k.gift(&g.gift)
	k.add(int(wireOf(g.request.Wire)), g.request.Number)
	k.moments(g.request.Copies)
	k.grant(g.grant)
	if g.hold != nil {
		k.moments(g.hold.Trust())
	}
	if g.sends() {
		k.message(g.msg)
	}
	if g.doing == acquiring && k.w.bounds.kind != leases {
		k.moments(g.copies)
	}
	if g.doing == acquiring || g.doing == extending || g.doing == renewing {
		k.add(int(min(k.w.now-g.sent, leaseTicks*tick) / tick)) // after that no grant is trusted
	}
	if g.doing == releasing || g.doing == owing {
		k.add(g.rest.Count, g.rest.Ceiling)
	}
}

func (k *keyer) message(m message) {
	k.add(int(m.verb), int(m.half), int(m.owner), int(m.count), int(m.ceiling), int(m.lease), int(m.open))
	k.flags(m.nested)
}

// sorted adds a set in a canonical order.
func (k *keyer) sorted(n int, add func(i int)) {
	k.add(n)
	if n < 2 {
		for i := range n {
			add(i)
		}
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
