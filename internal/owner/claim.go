package owner

import "time"

// A Half is a part of a lock. Most locks have the first alone; the halves of a read-write lock share the
// wire owner.
type Half uint8

// The halves.
const (
	Exclusive Half = iota
	Shared         // by many owners; such a half is the other one's owner's to take, too
	halves
)

// A Claim is what one owner has of one name: at most one wire owner at a time, under which it holds the
// name. G and H are what the caller has around each grant and each hold.
type Claim[G, H any] struct {
	has   *Grant[G, H] // what is held
	notes *notes[G, H] // nil until a rule needs them
}

// notes are a claim's records of calls that are, or may be, under way, and the other half if it has both.
type notes[G, H any] struct {
	beside *Grant[G, H]
	asked  []time.Duration // leases that are asked for by calls that take no turns
	left   time.Duration   // detached holds under leftOf that are no part of it any more last until then
	leftOf string
	leftBy *Grant[G, H] // which has some of them
	trimming
	numbers
}

// note returns the claim's notes.
func (c *Claim[G, H]) note() *notes[G, H] {
	if c.notes == nil {
		c.notes = new(notes[G, H])
	}
	return c.notes
}

// part returns the grant of a half, or nil.
func (c *Claim[G, H]) part(half Half) *Grant[G, H] {
	switch {
	case c.has == nil || c.has.half == half:
		return c.has
	case c.notes == nil:
		return nil
	}
	return c.notes.beside
}

// setPart makes g, which may be nil, the grant of a half.
func (c *Claim[G, H]) setPart(half Half, g *Grant[G, H]) {
	switch {
	case c.has != nil && c.has.half != half:
		if g != nil || c.notes != nil {
			c.note().beside = g
		}
	case g == nil && c.notes != nil:
		c.has, c.notes.beside = c.notes.beside, nil
	default:
		c.has = g
	}
}

// Held returns the owner's grants of a half and of the other half; either may be nil.
func (c *Claim[G, H]) Held(half Half) (own, other *Grant[G, H]) {
	return c.part(half), c.part(1 - half)
}

// Holds reports whether the owner has anything of the name.
func (c *Claim[G, H]) Holds() bool { return c.has != nil }

// Believed returns the wire owner under which the owner holds a half, and how often, as far as is known
// here; "" and 0 if it does not.
func (c *Claim[G, H]) Believed(half Half, now time.Duration) (owner string, count int) {
	g := c.part(half)
	if g == nil {
		return "", 0
	}
	rare := g.besides()
	for h := g.live; h != nil; h = h.next {
		if h.Trusted(now) {
			count += rare.counts(h)
		}
	}
	if count == 0 {
		return "", 0
	}
	return g.Wire, count
}

// Add makes h a live hold of g, whose lease the server ends at the latest then. It reports whether it is the
// first one, and whether it is the first one that is renewed.
//
//nolint:revive // no control: renewed is what is counted
func (c *Claim[G, H]) Add(g *Grant[G, H], h *Hold[H], until time.Duration, renewed bool) (first, watch bool) {
	first = g.live == nil
	h.next, g.live = g.live, h
	g.until = max(g.until, until)
	g.marks &^= swept
	c.setPart(g.half, g)
	if renewed {
		g.renewed++
	}
	return first, renewed && g.renewed == 1
}

// Drop takes a hold out that has ended. A detached one counts until its lease is over. It reports whether it
// was the last one, and whether it was the last one that is renewed.
//
//nolint:revive // as above
func (c *Claim[G, H]) Drop(g *Grant[G, H], h *Hold[H], renewed, detached bool, now time.Duration) (last, unwatch bool) {
	at := &g.live
	for *at != h {
		at = &(*at).next
	}
	*at, h.next = h.next, nil
	if detached {
		g.forgetOver(now)
		rare := g.setRare()
		h.next, rare.detached = rare.detached, h
	}
	if renewed {
		g.renewed--
	}
	if g.renewed == 0 && g.rare != nil { // the next one that is renewed needs more than what replicas have
		g.rare.acked.Renewed = false
	}
	if last = g.live == nil; last {
		c.forget(g)
	}
	return last, renewed && g.renewed == 0
}

// forget takes a grant without live holds out of the claim, together with everything that was kept only because of it.
// Detached holds count along while the other half keeps the wire owner alive.
func (c *Claim[G, H]) forget(g *Grant[G, H]) {
	own, other := c.Held(g.half)
	alone := other == nil || other.live == nil
	if own == g && (g.besides().detached == nil || alone) {
		c.leave(g)
	}
	if other != nil && alone {
		c.leave(other)
	}
}

// leave takes a grant out whose holds have all ended here.
func (c *Claim[G, H]) leave(g *Grant[G, H]) {
	for h := g.besides().detached; h != nil; h = h.next {
		n := c.note()
		if n.leftOf != g.Wire {
			n.left, n.leftOf = 0, g.Wire
		}
		n.left, n.leftBy = max(n.left, h.forgotten()), g
	}
	c.setPart(g.half, nil)
}

// keeps reports whether the owner has anything under a wire owner.
func (c *Claim[G, H]) keeps(wire string) bool {
	for half := range halves {
		if part := c.part(half); part != nil && part.Wire == wire {
			return true
		}
	}
	return false
}

// doubt records that a release under the present wire owner may be executed at any time from now on.
func (c *Claim[G, H]) doubt() {
	if c.notes != nil {
		c.notes.doubt()
	}
}

// setEmptied notes whether nothing was to be left of a shared half since the last grant.
func (c *Claim[G, H]) setEmptied(emptied bool) {
	if c.notes != nil {
		c.notes.emptied = emptied
	}
}
