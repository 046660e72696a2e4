package owner

import "time"

// A Copier copies claims, grants and holds, each once, for a search that goes on from one state in several ways.
type Copier[G, H any] struct {
	grants [][2]*Grant[G, H]
	holds  [][2]*Hold[H]
}

// Claim is the copy of a claim.
func (p *Copier[G, H]) Claim(c *Claim[G, H]) *Claim[G, H] {
	to := &Claim[G, H]{parts: [halves]*Grant[G, H]{p.Grant(c.parts[0]), p.Grant(c.parts[1])}}
	if c.notes != nil {
		notes := *c.notes
		notes.asked = append([]time.Duration(nil), notes.asked...)
		to.notes = &notes
	}
	return to
}

// Grant is the copy of a grant, nil of nil.
func (p *Copier[G, H]) Grant(g *Grant[G, H]) *Grant[G, H] {
	if g == nil {
		return nil
	}
	for _, pair := range p.grants {
		if pair[0] == g {
			return pair[1]
		}
	}
	to := *g
	to.live, to.detached = p.Hold(g.live), p.Hold(g.detached)
	p.grants = append(p.grants, [2]*Grant[G, H]{g, &to})
	return &to
}

// Hold is the copy of a hold, and of those that follow it; nil of nil.
func (p *Copier[G, H]) Hold(h *Hold[H]) *Hold[H] {
	if h == nil {
		return nil
	}
	for _, pair := range p.holds {
		if pair[0] == h {
			return pair[1]
		}
	}
	to := &Hold[H]{Of: h.Of, next: p.Hold(h.next), acquired: h.acquired, unsure: h.unsure}
	to.trust.Store(h.trust.Load())
	p.holds = append(p.holds, [2]*Hold[H]{h, to})
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

// Known tells what the claim's rules know.
func (c *Claim[G, H]) Known() Known {
	n := c.notes
	if n == nil {
		return Known{}
	}
	return Known{n.top, n.floor, n.emptied, n.wire, n.sent, n.most, n.until, len(n.asked)}
}

// A State is all that the rules know of a grant besides its holds.
type State struct {
	Copies, Until         time.Duration
	Renewed               int
	Lost, Swept, Returned bool
	Lengthened            bool
	Live, Detached        int
	Half                  Half
}

// State tells what the rules know of g.
func (g *Grant[G, H]) State() State {
	s := State{
		Copies: g.copies, Until: g.until, Renewed: int(g.renewed), Half: g.half,
		Lost: g.lost, Swept: g.swept, Returned: g.returned, Lengthened: g.lengthened,
	}
	for h := g.live; h != nil; h = h.next {
		s.Live++
	}
	for h := g.detached; h != nil; h = h.next {
		s.Detached++
	}
	return s
}

// Terms are when a debt is due, when it is once more after that (0: never), and when the server has forgotten it.
func (d *Debt) Terms() (due, again, until time.Duration) { return d.due, d.again, d.until }
