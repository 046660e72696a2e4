package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// Live is a hold that the session has; nil if it has none.
func (gs Granted) Live() *Single {
	for _, g := range gs.grants {
		if live := g.live(); len(live) > 0 {
			return live[0]
		}
	}
	return nil
}

// Enter waits for the turn of the hold's owner, which is to be left.
func (h *Single) Enter(ctx context.Context) (leave func(), err error) {
	c := h.grant.claim
	return c.Leave, c.Enter(ctx)
}

// Distrust makes the hold trusted at most until then, whatever else is under way, before a call is sent that may make
// its lease shorter. It returns the trust from before.
func (h *Single) Distrust(until time.Duration) (before owner.Belief) {
	g := h.grant
	g.claim.Lock()
	defer g.claim.Unlock()
	before = g.Distrust(&h.Hold, until)
	h.resetTimer()
	g.lock.keeper.dog.Sooner(g, g.Rests()) // nothing else looks at what is not renewed, or not any more
	return before
}

// TrustAgain ends that: a call sent at sent makes the hold trusted until then, unless an earlier update may still be
// executed after it; of other calls only those count that are sent from the moment unsure on.
func (h *Single) TrustAgain(before owner.Belief, unsure, sent, until time.Duration) {
	h.believe(func(now time.Duration) bool { return h.Hold.TrustAgain(before, now, unsure, sent, until) })
}

// Updated is TrustAgain after a call sent at sent has given the hold a lease of d, or may have.
func (h *Single) Updated(d time.Duration, before owner.Belief, unsure, sent, until time.Duration) {
	h.grant.lasts(d)
	h.TrustAgain(before, max(before.Unsure, unsure), sent, until)
	h.grant.sweep() // if the hold was lost meanwhile
}

// Gone ends the hold as lost, with those nested with it: a call that was sent then has found nothing of it.
func (h *Single) Gone(sent time.Duration) { h.grant.lose(sent) }
