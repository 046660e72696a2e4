package owner

import "time"

// A Copier copies claims, grants and holds, each once, for a search that goes on from one state in several ways.
type Copier[G, H any] struct {
	claims copies[Claim[G, H]]
	notes  copies[notes[G, H]]
	rares  copies[rare[H]]
	grants copies[Grant[G, H]]
	holds  copies[Hold[H]]
}

// copies are n pairs of a value and its copy. Behind them are copies that may be overwritten.
type copies[T any] struct {
	n     int
	pairs [][2]*T
}

// of returns where the copy of a value is, or goes to.
func (c *copies[T]) of(from *T) (to *T, done bool) {
	for i := range c.pairs[:c.n] {
		if pair := &c.pairs[i]; pair[0] == from {
			return pair[1], true
		}
	}
	if c.n == len(c.pairs) {
		c.pairs = append(c.pairs, [2]*T{nil, new(T)})
	}
	pair := &c.pairs[c.n]
	c.n++
	pair[0] = from
	return pair[1], false
}

// Reset makes p begin anew. It overwrites its former copies, as memory of its own for every state takes long.
func (p *Copier[G, H]) Reset() {
	p.claims.n, p.notes.n, p.rares.n, p.grants.n, p.holds.n = 0, 0, 0, 0, 0
}

// Claim is the copy of a claim.
func (p *Copier[G, H]) Claim(c *Claim[G, H]) *Claim[G, H] {
	to, done := p.claims.of(c)
	if done {
		return to
	}
	to.has = p.Grant(c.has)
	if to.notes = nil; c.notes != nil {
		to.notes, _ = p.notes.of(c.notes)
		asked := to.notes.asked[:0]
		*to.notes = *c.notes
		to.notes.asked = append(asked, c.notes.asked...)
		to.notes.beside, to.notes.leftBy = p.Grant(c.notes.beside), p.Grant(c.notes.leftBy)
	}
	return to
}

// Grant is the copy of a grant, nil of nil.
func (p *Copier[G, H]) Grant(g *Grant[G, H]) *Grant[G, H] {
	if g == nil {
		return nil
	}
	to, done := p.grants.of(g)
	if !done {
		*to = *g
		to.live = p.Hold(g.live)
		if g.rare != nil {
			to.rare, _ = p.rares.of(g.rare)
			*to.rare = *g.rare
			to.rare.detached = p.Hold(g.rare.detached)
		}
	}
	return to
}

// Hold is the copy of a hold, and of those that follow it; nil of nil.
func (p *Copier[G, H]) Hold(h *Hold[H]) *Hold[H] {
	if h == nil {
		return nil
	}
	to, done := p.holds.of(h)
	if !done {
		to.Of, to.next, to.acquired, to.unsure = h.Of, p.Hold(h.next), h.acquired, h.unsure
		to.trust.Store(h.trust.Load())
	}
	return to
}

// Known is all that a claim's rules know of calls that may be under way.
type Known struct {
	Top, Floor int
	Emptied    bool
	Trim       string        // the wire owner
	Sent, Most time.Duration // which trims leave
	Until      time.Duration
	Asked      int // how many leases are asked for
}

// Known returns what the claim's rules know.
func (c *Claim[G, H]) Known() Known {
	n := c.notes
	if n == nil {
		return Known{}
	}
	return Known{n.top, n.floor, n.emptied, n.wire, n.sent, n.most, n.until, len(n.asked)}
}

// A State is all that the rules know of a grant besides its holds.
type State struct {
	Copies, Until, Doubted time.Duration
	Renewed                int
	Lost, Swept, Returned  bool
	Lengthened             bool
	Live, Detached         int
	Half                   Half
}

// State returns what the rules know of g.
func (g *Grant[G, H]) State() State {
	s := State{
		Copies: g.besides().copies, Until: g.until, Doubted: g.besides().doubted, Renewed: int(g.renewed), Half: g.half,
		Lost: g.marks.any(lost), Swept: g.marks.any(swept), Returned: g.Returned(), Lengthened: g.marks.any(lengthened),
	}
	for h := g.live; h != nil; h = h.next {
		s.Live++
	}
	for h := g.besides().detached; h != nil; h = h.next {
		s.Detached++
	}
	return s
}

// Terms are when a debt is due, when it is once more after that (0: never), and when the server has forgotten it.
func (d *Debt) Terms() (due, again, until time.Duration) { return d.due, d.again, d.until }
