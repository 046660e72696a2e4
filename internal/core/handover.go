package core

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A lock that another call of the session waits for passes on inside the process, like a mutex: the wire owner stays,
// with the lease that the server has granted to it, and only the local owner changes. So everything that is under way
// for the wire owner, such as a renewal, an operator's force or a copy of its acquisition, stays with the claim, and
// applies to the owner that has the claim by then. Only the last one releases.
//
// The session does so for one turn, see [wait.Lines.HandOver]; then the lock goes back to the server, and to the
// waiters there.

// handOver ends the hold as released, and hands the lock over to the first call of the session that waits for it. It
// reports whether it has: there must be such a call, and nothing else that the owner has or does with the name. If that
// call has given up meanwhile, the second result is the hold that is to be released instead.
func (h *Single) handOver(now time.Duration) (done bool, instead *Single) {
	if !h.lock.HandsOver {
		return false, h
	}
	lines, name := h.lock.Session().Lines(), h.lock.Line()
	to, _ := lines.Accepts(name).(*Lock)
	if to == nil {
		return false, h
	}
	heir, contexts := h.passTo(to, now)
	if heir == nil {
		return false, h
	}
	contexts.EndAll(releasedEnd.err) // before anybody else has the lock
	if !lines.HandOver(name, heir, to.Length()) {
		return false, heir
	}
	if end := heir.ended.Load(); end != nil && end != releasedEnd { // it was lost before the line knew of it
		lines.Ended(name)
	}
	return true, heir
}

// passTo ends the hold as released and returns another one of its grant, which no owner has yet, and the contexts that
// are to end; nil if that cannot be.
func (h *Single) passTo(to *Lock, now time.Duration) (heir *Single, contexts *scope.Context) {
	g, c := h.grant, h.grant.claim
	owner := c.ownedBy()
	if owner != nil {
		owner.mu.Lock()
		defer owner.mu.Unlock()
	}
	c.Lock()
	alone := c.owner == owner && c.Refs <= 1 && c.Free()
	if !alone || !c.Passes(&g.Grant, &h.Hold, now, h.lock.Length()/12) || !h.ended.CompareAndSwap(nil, releasedEnd) {
		c.Unlock()
		return nil, nil
	}
	heir = new(Single)
	heir.init(to, g, now, h.Trust())
	c.Pass(&g.Grant, &heir.Hold)
	h.lock.keeper.dog.Add(g, 0) // at once, if it is not renewed any more because of MaxHold
	contexts = h.stop()
	if owner != nil {
		owner.claims.Remove(g.lock.claimKey())
		c.owner, c.Refs = nil, 0
	}
	c.Unlock()
	return heir, contexts
}

// inherit takes the hold that has been handed over to the call, and reports whether one has. It is the call's owner's
// from then on.
func (a *acquisition) inherit(take func(p *wait.Place) (gift any)) bool {
	if !a.lock.HandsOver || a.Place == nil || a.lock.Session().Closed() {
		return false
	}
	h, _ := take(a.Place).(*Single)
	switch {
	case h == nil || h.Err() != nil: // it was lost, before anybody had it
		return false
	case h.lock.claimKey() != a.lock.claimKey() || !a.becomes(h.grant.claim):
		h.forgo() // no other one is accepted, or this came again and again, for the rest of the turn
		return false
	}
	a.hold, a.Handed = h, true
	a.Learn(nil)
	return true
}

// becomes makes the call's owner that of a claim without an owner, and gives up whatever earlier attempts may have
// left. It cannot be done if other calls of the same owner want the name, too.
func (a *acquisition) becomes(c *claim) bool {
	mine := a.claim
	if !a.alone {
		owner := mine.owner
		owner.mu.Lock()
		defer owner.mu.Unlock()
		mine.Lock()
		alone := mine.Refs == 1 && !mine.Busy() && !mine.Holds()
		mine.Unlock()
		if !alone {
			return false
		}
		owner.claims.Remove(a.lock.claimKey())
		c.Lock()
		c.owner, c.Refs = owner, 1
		c.Unlock()
		owner.claims.Put(a.lock.claimKey(), c)
	}
	a.bequeath()
	a.claim = c
	return true
}

// forgo releases a hold in the background that was handed over to a call that has given up.
func (h *Single) forgo() {
	release := func() { _ = h.Release() }
	if !h.lock.Session().Start(release) {
		release()
	}
}
