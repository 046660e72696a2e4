package owner

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// A lease on the server may be longer than anybody needs it: a hold with a longer lease than the others was released,
// or the server's clock, by which Redis counts, was set back. The name would stay locked for all that when its holder
// dies. So the lease is trimmed to the need of the longest hold.
//
// That shortens nobody's lease. Renewals always ask for the session's lease, and while anything is renewed no
// trim goes below that, counted from when the server executes it. Whatever else asks for a lease takes turns
// with trims; or, as Extend, which waits for no release, says so before. And while a trim whose outcome is
// not known may still be executed, nothing is asked for under the same wire owner that it would cut off: for
// twice as long as its window, as that is a matter of the server's clock, which may run more slowly than
// ours, or be set back. tests/model is the argument for all that.

// A trimming is a wire owner's trims that are under way, or that had no reply.
type trimming struct {
	wire  string
	sent  time.Duration // what the one under way leaves; 0: there is none
	most  time.Duration // what the shortest of those without a reply leaves,
	until time.Duration // which may be executed until then
}

// tooLong is by how much a lease may be longer than anybody needs it.
const tooLong = time.Second

// trims reports whether a lease of d under a wire owner may be made shorter by a trim that may yet be
// executed, and whether one is under way.
func (c *Claim[G, H]) trims(wire string, d, now time.Duration) (trims, underWay bool) {
	if c.notes == nil || c.notes.wire != wire {
		return false, false
	}
	t := &c.notes.trimming
	underWay = t.sent > 0
	return underWay && t.sent < d || t.until > now && t.most < d, underWay
}

// Ask records that a lease of d is asked for without the claim's turn: no trim goes below it until Asked. It
// is not to be asked for while a trim may make it shorter; if that is under way, its outcome is soon known.
func (c *Claim[G, H]) Ask(wire string, d, now time.Duration) (may, underWay bool) {
	trims, underWay := c.trims(wire, d, now)
	if !trims {
		n := c.note()
		n.asked = append(n.asked, d)
	}
	return !trims, underWay
}

// Asked ends what Ask began.
func (c *Claim[G, H]) Asked(d time.Duration) {
	i := slices.Index(c.notes.asked, d)
	c.notes.asked = slices.Delete(c.notes.asked, i, i+1)
}

// Slack reports whether the leases under g's wire owner may be too long, and returns the grants whose leases
// those are. Renewals ask for a lease of renewal.
func (c *Claim[G, H]) Slack(g *Grant[G, H], now, renewal time.Duration) (of []G) {
	most, until := c.needed(g, now, renewal), g.until
	if most == 0 {
		return nil
	}
	if c.has == nil {
		of = append(of, g.Of)
		if n := c.notes; n.leftOf == g.Wire && n.leftBy != g { // the other half, whose holds have their own leases
			until, of = max(until, n.leftBy.until), append(of, n.leftBy.Of)
		}
	}
	for half := range halves {
		if part := c.part(half); part != nil && part.Wire == g.Wire {
			until, of = max(until, part.until), append(of, part.Of)
		}
	}
	if until <= lease.Add(now, lease.Add(most, tooLong)) {
		return nil
	}
	return of
}

// Slackens reports whether a lease of g with that much left is too long.
func (c *Claim[G, H]) Slackens(g *Grant[G, H], lasts, now, renewal time.Duration) bool {
	return lasts > renewal+tooLong && lasts > lease.Add(c.needed(g, now, renewal), tooLong)
}

// needed returns the lease that the longest of all holds under g's wire owner needs, or 0 if there are none. When the
// owner has nothing any more, these are detached ones, of both halves.
func (c *Claim[G, H]) needed(g *Grant[G, H], now, renewal time.Duration) (d time.Duration) {
	if c.has == nil && c.notes != nil && c.notes.leftOf == g.Wire {
		d = max(c.notes.left-now, 0)
	}
	for half := range halves {
		if part := c.part(half); part != nil && part.Wire == g.Wire {
			d = max(d, part.most(now, renewal))
		}
	}
	if d > 0 && c.notes != nil {
		for _, asked := range c.notes.asked {
			d = max(d, asked)
		}
	}
	return d
}

// most is the lease with which no hold of g ends before its own, whatever renewals are under way.
func (g *Grant[G, H]) most(now, renewal time.Duration) (d time.Duration) {
	if g.renewed > 0 {
		d = renewal
	}
	for h := g.besides().detached; h != nil; h = h.next {
		d = max(d, h.forgotten()-now)
	}
	return max(d, g.needs(now))
}

// BeginTrim begins a trim of g's lease, and returns the lease to leave: as much as the longest hold under its wire
// owner needs. 0: there is nothing to trim.
func (c *Claim[G, H]) BeginTrim(g *Grant[G, H], now, renewal time.Duration) (most time.Duration) {
	if most = c.needed(g, now, renewal); most == 0 {
		return 0
	}
	n := c.note()
	if n.wire != g.Wire || n.until <= now {
		n.trimming = trimming{wire: g.Wire}
	}
	n.sent = most
	g.limitAcked(lease.Trust(now, most))
	g.marks &^= lengthened
	return most
}

// Trimmed records that the server has executed the trim: perhaps before a call that has made the lease longer.
func (c *Claim[G, H]) Trimmed(g *Grant[G, H], now time.Duration) {
	if !g.marks.any(lengthened) {
		g.until = max(min(g.until, lease.Add(now, c.notes.sent)), g.besides().doubted)
	}
	c.NotTrimmed()
}

// NotTrimmed records that the server has refused the trim.
func (c *Claim[G, H]) NotTrimmed() { c.notes.sent = 0 }

// TrimInDoubt records that the trim had no reply. The server may execute it for a window from when it was
// sent, by its own clock.
func (c *Claim[G, H]) TrimInDoubt(now, window time.Duration) {
	t := &c.notes.trimming
	if t.until == 0 || t.sent < t.most {
		t.most = t.sent
	}
	t.sent, t.until = 0, lease.Add(now, 2*window)
}
