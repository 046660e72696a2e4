package owner

import (
	"errors"
	"fmt"
	"time"
)

// Why a grant has to stay where it is.
var (
	errOtherHalf = errors.New("its owner has the other half as well, so release that first")
	errDetached  = errors.New("a hold nested with it was detached, and lasts as long as its lease")
	errTogether  = errors.New("one command took it together with other locks, and so they have one owner on the server")
	errDoubt     = errors.New("the outcome of another call of its owner is not known, and concerns it as well")
)

// EarlyError is why a grant cannot move yet, and for how long: a copy of its acquisition may be executed until then.
// That might stand in the line under a name that only this session knows, and delay all behind it.
type EarlyError time.Duration

func (e EarlyError) Error() string {
	return fmt.Sprintf("a copy of its acquisition may still be executed for %v", time.Duration(e))
}

// A move is what a grant has to do with another session.
type move[H any] struct {
	away int      // how many holds have moved there, under the wire owner: they count here for ever
	all  *Hold[H] // stands for all that have come from there,
	more int      // for that many besides itself

	since time.Duration // before that, the wire owner stood for other holds than those that have come from there; 0: never
}

// Stays returns why g, whose wire owner has a turn, cannot move to another session; nil if it can. Nobody there would
// know of a call that may still be executed.
func (c *Claim[G, H]) Stays(g *Grant[G, H], now time.Duration) error {
	g.forgetOver(now)
	_, other := c.Held(g.half)
	rare := g.besides()
	switch {
	case other != nil && other.Count(now) > 0:
		return errOtherHalf
	case rare.detached != nil:
		return errDetached
	case g.marks.any(together):
		return errTogether
	case g.marks.any(returned) || rare.correcting || rare.guarding > 0:
		return errDoubt
	case c.notes != nil && (c.notes.floor > 0 || len(c.notes.asked) > 0): // a longer lease would be unknown there
		return errDoubt
	}
	trims, _ := c.trims(g.Wire, forever, now)
	for h := g.live; h != nil; h = h.next {
		trims = trims || h.unsure > now
	}
	if trims {
		return errDoubt
	}
	if rare.copies > now {
		return EarlyError(rare.copies - now)
	}
	return nil
}

// Move makes g, which does not stay, another session's: its holds, which are then to end, count for h there, the only
// hold of a grant that has begun with the wire owner and the token. Moments there are what then says. Nothing is to be
// given back for g itself any more.
func (g *Grant[G, H]) Move(to *Grant[G, H], h *Hold[H], now time.Duration, then func(time.Duration) time.Duration) {
	n, rare, there := g.Count(now), g.setRare(), to.setRare()
	there.move = move[H]{all: h, more: n - 1}
	if since := g.Since(g.outermost()); since != 0 {
		there.since = then(since)
	}
	if rare.doubted > 0 {
		there.doubted = then(rare.doubted)
	}
	there.acked = rare.acked
	if rare.acked.Until > 0 {
		there.acked.Until = then(rare.acked.Until)
	}
	to.until = then(g.until)
	g.until, rare.doubted = 0, 0
	rare.move = move[H]{away: n}
}

// outermost is the live hold that began first.
func (g *Grant[G, H]) outermost() *Hold[H] {
	h := g.live
	for h.next != nil {
		h = h.next
	}
	return h
}

// counts is for how many h counts.
func (m *move[H]) counts(h *Hold[H]) int {
	if h == m.all {
		return 1 + m.more
	}
	return 1
}
