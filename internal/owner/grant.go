package owner

import (
	"iter"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// forever is a moment that does not come.
const forever time.Duration = math.MaxInt64

// A Grant is one outermost acquisition with all that is nested in it: the time for which one wire owner has a name, or
// one half of it. The watchdog renews grants, not holds.
type Grant[G, H any] struct {
	Of    G // what the caller has around it
	Wire  string
	Token int64 // fencing token

	live    *Hold[H]      // a list
	rare    *rare[H]      // nil until a rule needs it
	until   time.Duration // the server's lease ends at the latest then
	renewed int32         // how many live holds are
	heard   uint16        // how many clients the server told of its release, this one included, as far as that counts
	half    Half
	marks   marks
}

// rare is what few grants have.
type rare[H any] struct {
	detached   *Hold[H]      // a list of holds that live on the server without us
	copies     time.Duration // of its acquisition, may be executed until then; 0: there are none
	doubted    time.Duration // until when the server's lease lasts if a call without a reply is executed late; 0: none
	acked      Acked         // by replicas
	correcting bool          // a duty that the server refused is tried again from time to time
	guarding   int           // how many calls may still be executed that the wire owner guards
	leaves     string        // the wire owner of a place in the line that is given up with it; "": of none
	move[H]
}

// marks record what has happened to a grant.
type marks uint8

const (
	lost       marks = 1 << iota // one of the holds was, rather than released or detached
	swept                        // the remains of a loss are being given back
	returned                     // a release of the last hold was executed, or may have been
	lengthened                   // a call since the last trim began may have made the lease longer
	passed                       // by one owner to another
	together                     // other names have had the wire owner as well
)

// any reports whether one of some marks is there.
func (m marks) any(some marks) bool { return m&some != 0 }

// Begin makes g the grant of a wire owner. Copies of the call may be executed until copies.
func (g *Grant[G, H]) Begin(of G, half Half, wire string, token int64, copies time.Duration) {
	g.Of, g.half, g.Wire, g.Token = of, half, wire, token
	g.setCopies(copies)
}

// besides is what g has of what few grants have.
func (g *Grant[G, H]) besides() rare[H] {
	if g.rare == nil {
		return rare[H]{}
	}
	return *g.rare
}

// setRare returns that for a change.
func (g *Grant[G, H]) setRare() *rare[H] {
	if g.rare == nil {
		g.rare = new(rare[H])
	}
	return g.rare
}

// Acked is what replicas have of a grant.
type Acked struct {
	Until   time.Duration // when a lease ends; 0: they have none
	Renewed bool          // one that is renewed
}

// Acked is what replicas have, to be read and changed.
func (g *Grant[G, H]) Acked() *Acked { return &g.setRare().acked }

// limitAcked records that a call may be executed which leaves a lease until then, and replicas have no longer one.
func (g *Grant[G, H]) limitAcked(until time.Duration) {
	if g.rare != nil {
		g.rare.acked.Until = min(g.rare.acked.Until, until)
	}
}

func (g *Grant[G, H]) setCopies(until time.Duration) {
	if until != g.besides().copies {
		g.setRare().copies = until
	}
}

// Passes reports whether h, which is about to be released, can be followed by a hold of another owner without a call:
// it is the only one that the server knows under the wire owner, no release of the wire owner was or may have been
// sent, it is trusted for long enough, and it has no fencing token, since each owner must get a token of its own.
// Nor may a guarded call be under way, which would be executed for the other owner, nor may the wire owner have been
// granted other names.
func (c *Claim[G, H]) Passes(g *Grant[G, H], h *Hold[H], now, long time.Duration) bool {
	_, other := c.Held(g.half)
	rare := g.besides()
	return g.live == h && h.next == nil && rare.detached == nil && other == nil && c.notes == nil &&
		rare.more == 0 && g.renewed == 1 && !g.marks.any(lost|returned|together) && !rare.correcting && rare.guarding == 0 &&
		h.unsure == 0 && g.Token == 0 && !g.Over(now) && now+long <= h.Trust()
}

// Pass has heir follow the live hold, which [Claim.Passes]. The server's lease and copies of calls under the wire owner
// are its from then on.
func (c *Claim[G, H]) Pass(g *Grant[G, H], heir *Hold[H]) {
	g.live = heir
	g.marks |= passed
}

// Together records that one call has granted that many names to the wire owner. None of several may become another
// owner's: on the server the two would be one, which seems to have all of them, and deadlocks that are none are found.
func (g *Grant[G, H]) Together(names int) {
	if names > 1 {
		g.marks |= together
	}
}

// Leaves records that a wire owner's place in the line is given up, which its session had for the next one of its
// calls. The last release is to leave it, too: else it would hand the lock to nobody.
func (g *Grant[G, H]) Leaves(wire string) {
	if wire != "" {
		g.setRare().leaves = wire
	}
}

// Passed reports whether the grant has been another owner's.
func (g *Grant[G, H]) Passed() bool { return g.marks.any(passed) }

// Since is from when on the wire owner stands for h, a hold of g, and not for those of other owners before; 0: always.
func (g *Grant[G, H]) Since(h *Hold[H]) time.Duration {
	if g.Passed() {
		return h.acquired
	}
	return g.besides().since
}

// Live are the live holds. They may be ended only afterwards.
func (g *Grant[G, H]) Live() iter.Seq[H] {
	return func(yield func(H) bool) {
		for h := g.live; h != nil; h = h.next {
			if !yield(h.Of) {
				return
			}
		}
	}
}

// remaining are the holds that the server is to have: the live ones, and the detached ones whose leases are
// not over.
func (g *Grant[G, H]) remaining(now time.Duration) iter.Seq[*Hold[H]] {
	return func(yield func(*Hold[H]) bool) {
		for h := g.live; h != nil; h = h.next {
			if !yield(h) {
				return
			}
		}
		for h := g.besides().detached; h != nil; h = h.next {
			if now <= h.forgotten() && !yield(h) {
				return
			}
		}
	}
}

// forgetOver takes out the detached holds whose leases are over.
func (g *Grant[G, H]) forgetOver(now time.Duration) {
	if g.rare == nil {
		return
	}
	for at := &g.rare.detached; *at != nil; {
		if now > (*at).forgotten() {
			*at = (*at).next
		} else {
			at = &(*at).next
		}
	}
}

// Count is the hold count that the server should have.
func (g *Grant[G, H]) Count(now time.Duration) (n int) {
	rare := g.besides()
	if rare.away > 0 {
		return rare.away
	}
	for h := range g.remaining(now) {
		n += rare.counts(h)
	}
	return n
}

// needs is the shortest lease from now with which no hold ends before its own.
func (g *Grant[G, H]) needs(now time.Duration) (d time.Duration) {
	for h := range g.remaining(now) {
		if left := h.Trust() - now; left > 0 {
			d = max(d, lease.For(left))
		}
	}
	return d
}

// Lasts records that the server's lease may last until then, because of a call that has just returned.
func (g *Grant[G, H]) Lasts(until time.Duration) {
	g.marks |= lengthened
	if until > g.until {
		g.until = until
		g.marks &^= swept
	}
}

// MayLast is Lasts because of a call without a reply, which may be executed after a trim as well.
func (g *Grant[G, H]) MayLast(until time.Duration) {
	g.Lasts(until)
	g.setRare().doubted = max(g.besides().doubted, until)
}

// Over reports whether the server's lease is over.
func (g *Grant[G, H]) Over(now time.Duration) bool { return g.until <= now }

// Watched reports whether any live hold is renewed.
func (g *Grant[G, H]) Watched() bool { return g.renewed > 0 }

// Rests is until when all live holds are trusted.
func (g *Grant[G, H]) Rests() (until time.Duration) {
	until = forever
	for h := g.live; h != nil; h = h.next {
		until = min(until, h.Trust())
	}
	return until
}

// Lose records that one of the holds was lost.
func (g *Grant[G, H]) Lose() { g.marks |= lost }

// Gone records that the server has nothing of the grant, so that there is nothing to give back.
func (g *Grant[G, H]) Gone() { g.until = 0 }

// Returned reports whether a release of the last hold was executed, or may have been.
func (g *Grant[G, H]) Returned() bool { return g.marks.any(returned) }

// Heard is how many clients were told of the release of the last hold, this one included.
func (g *Grant[G, H]) Heard() int { return int(g.heard) }

// SetCorrecting notes whether somebody tries a refused correction again now and then, and reports whether
// that is new.
func (g *Grant[G, H]) SetCorrecting(correcting bool) (changed bool) {
	if changed = g.besides().correcting != correcting; changed {
		g.setRare().correcting = correcting
	}
	return changed
}

// Copies is until when copies of its acquisition may be executed.
func (g *Grant[G, H]) Copies() time.Duration { return g.besides().copies }

// Guarding counts calls in and out that the server executes only if it has the wire owner.
func (g *Grant[G, H]) Guarding(calls int) { g.setRare().guarding += calls }
