package owner

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// Remaining says which holds of a wire owner a release leaves.
type Remaining struct {
	Owner string
	Count int
	Leave string // the wire owner of a place in the line that the last release is to give up, see [Grant.Leaves]
	// The lease that these need if the owner has detached ones alone, of both halves; else 0.
	Detached time.Duration
	// Of a shared lock besides, whose holds are numbered on the server:
	Ceiling int           // a higher count is newer than this release; 0: none is
	Lease   time.Duration // the least lease that the remaining holds need; 0 if there are none
}

// A Released is what a release has done.
type Released struct {
	Outcome
	Heard int64 // how many clients were told, if it freed the name
}

// An Outcome is that of a release.
type Outcome uint8

// The outcomes.
const (
	Absent Outcome = iota // the server has nothing of this wire owner
	Lowered
	Freed
)

// ReadReleased is what the reply of a script says: 0, 1, or 2 and how many clients were told.
func ReadReleased(reply int64) Released {
	outcome := Outcome(min(max(reply, 0), int64(Freed)))
	return Released{outcome, max(reply-int64(Freed), 0)}
}

// A Duty is what the session must still tell the server in the background.
type Duty struct {
	Correct bool          // under the claim's turn, how many holds are left by then
	Then    time.Duration // not before
	Debt    Debt          // if it has a wire owner
}

// Remaining returns the holds that a release of g leaves, as they are now. If the wire owner has lived on, a later
// grant may have taken over from a lost one. Nor is a hold left where an older release, which may yet be executed,
// would take it.
func (c *Claim[G, H]) Remaining(g *Grant[G, H], now time.Duration) Remaining {
	if later := c.part(g.half); later != nil && later.Wire == g.Wire {
		later.setCopies(max(later.besides().copies, g.besides().copies)) // whose release is to see to them
		g = later
	}
	r := Remaining{Owner: g.Wire, Count: g.Count(now), Leave: g.besides().leaves}
	if g.half == Shared {
		r.Ceiling = c.ceiling(g)
		r.Lease = g.needs(now)
		if r.Count > 0 && c.notes != nil {
			r.Count = max(r.Count, c.notes.floor+1)
		}
	}
	if c.has == nil {
		r.Detached = c.needed(g, now, 0)
	}
	return r
}

// ceiling is the highest number that a hold of a shared half may have now; 0 when the wire owner gets no
// holds any more.
func (c *Claim[G, H]) ceiling(g *Grant[G, H]) int {
	if g.half != Shared || !c.keeps(g.Wire) {
		return 0
	}
	return c.note().highest()
}

// InDoubt records that a release may have been executed, or may still be, and nobody knows; or that one of the last
// hold was refused, and becomes a debt.
func (c *Claim[G, H]) InDoubt(g *Grant[G, H], remaining Remaining) {
	c.doubtOf(g)
	if remaining.Count == 0 {
		c.SetReturned(g, 0)
	}
}

// doubtOf records that a release of g may be executed at any time from now on, and returns the ceiling that
// it is to have.
func (c *Claim[G, H]) doubtOf(g *Grant[G, H]) (ceiling int) {
	if ceiling = c.ceiling(g); ceiling > 0 {
		c.notes.doubt()
	}
	return ceiling
}

// Replied records what a release that was sent then has done, and returns what it means. That is Absent only if the
// hold was gone before: not if the release was forestalled, by an earlier copy of it, or, where grants follow each
// other under one wire owner, by what gave another one back. The debt is to be owed after that.
func (c *Claim[G, H]) Replied(
	g *Grant[G, H], remaining Remaining, sent, now time.Duration, done Released, memory time.Duration,
) (means Outcome, again Debt) {
	means = done.Outcome
	if means == Absent && (g.Returned() || g.half == Shared && c.notes != nil && c.notes.emptied) {
		means = Freed
	}
	if means == Absent && g.besides().away > 0 { // another session has it, or has given it back
		means = Lowered
	}
	if remaining.Count == 0 || means == Absent {
		c.SetReturned(g, done.Heard)
		again = c.Recheck(g, sent, now, memory)
	}
	return means, again
}

// SetReturned records that a release of the last hold was executed, or may have been, and how many clients
// were told.
func (c *Claim[G, H]) SetReturned(g *Grant[G, H], heard int64) {
	g.marks |= returned
	g.heard = uint16(min(heard, math.MaxUint16))
	if g.half == Shared {
		c.setEmptied(true)
	}
	if g.live == nil && c.part(g.half) == g { // it was there for detached holds alone, whose leases are over
		c.setPart(g.half, nil)
	}
}

// Recheck returns the debt of giving a wire owner back once more. Its release was sent then, and a copy of its
// acquisition may have been executed since, or may still be: it would find the lock free. The server remembers what a
// copy does for memory.
func (c *Claim[G, H]) Recheck(g *Grant[G, H], sent, now, memory time.Duration) Debt {
	copies := g.besides().copies
	if copies <= sent {
		return Debt{}
	}
	return expect(g.Wire, c.doubtOf(g), copies, now, memory)
}

// Missed returns what must be done about a grant of which a call that was sent then has found nothing: a copy of its
// acquisition may yet be executed. The caller has no turn, so a shared half may have a newer hold, or get one from a
// call that is under way: those are to stay.
func (c *Claim[G, H]) Missed(g *Grant[G, H], sent, now, memory time.Duration) Duty {
	if copies := g.besides().copies; g.half == Shared && copies > sent {
		return Duty{Correct: true, Then: copies}
	}
	return Duty{Debt: c.Recheck(g, sent, now, memory)}
}

// Owe returns what must be done about a release that was refused, or whose outcome is not known: the last one is a
// debt, which takes away no more than the release would have; a nested one is repeated under the claim's turn, with
// what is true by then. Also if the server has nothing of g any more, a copy of its acquisition may yet be executed,
// which the server remembers for memory.
func (c *Claim[G, H]) Owe(g *Grant[G, H], remaining Remaining, now, memory time.Duration) Duty {
	if remaining.Count > 0 {
		return Duty{Correct: true}
	}
	until := g.until
	if copies := g.besides().copies; copies > 0 {
		until = max(until, lease.Add(copies, memory))
	}
	if g.besides().away > 0 { // the session that it has moved to may have made the lease longer
		until = forever
	}
	return Duty{Debt: g.Return(remaining.Ceiling, now, until)}
}

// Return returns the debt of giving back g, which nobody holds any more, unless it has more than ceiling holds by then.
// The server forgets it by itself at until.
func (g *Grant[G, H]) Return(ceiling int, now, until time.Duration) Debt {
	return Debt{Wire: g.Wire, Ceiling: ceiling, due: now, delay: firstDelay, again: g.besides().copies, until: until}
}

// Lost is Lose of a hold, and Sweep. If h was not renewed, the server keeps the name until its lease is over.
//
//nolint:revive // renewed is no control: it was so
func (c *Claim[G, H]) Lost(g *Grant[G, H], h *Hold[H], renewed bool, now time.Duration, others bool) Duty {
	g.Lose()
	if renewed {
		return c.Sweep(g, now, others)
	}
	return c.sweep(g, now, max(now+time.Second, h.forgotten()), others)
}

// Sweep returns what must be done about the remains of a lost grant: the name would stay locked for the longest of its
// leases though its last hold, with a shorter one, is gone. If others can find the claim, a re-entry may be under way.
func (c *Claim[G, H]) Sweep(g *Grant[G, H], now time.Duration, others bool) Duty {
	return c.sweep(g, now, now+time.Second, others)
}

// sweep is Sweep of what the server does not let go of by itself until soon.
func (c *Claim[G, H]) sweep(g *Grant[G, H], now, soon time.Duration, others bool) Duty {
	if !g.marks.any(lost) || g.marks.any(returned|swept) || g.Count(now) > 0 {
		return Duty{}
	}
	g.marks |= swept // once is enough
	switch {
	case g.until <= soon && (g.until == 0 || !c.kept(g)):
		return Duty{}
	case others:
		return Duty{Correct: true}
	}
	g.marks |= returned // a release that is on its way finds nothing then, and has not lost it
	return Duty{Debt: g.Return(0, now, g.until)}
}

// kept reports whether the server does not let go of g when its lease is over, because the other half is held
// under the same wire owner.
func (c *Claim[G, H]) kept(g *Grant[G, H]) bool {
	other := c.part(1 - g.half)
	return g.half != Shared && other != nil && other.Wire == g.Wire
}
