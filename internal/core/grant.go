package core

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/checks"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/turn"
)

// A grant is an [owner.Grant] with its place in the session's watchdog.
type grant struct {
	lease.Entry // the watchdog's notes
	lock        *Lock
	claim       *claim

	owner.Grant[*grant, *Single] // guarded by the claim's mutex, but for Of and Wire
}

// Group says with which grants this one may be renewed in one call.
func (g *grant) Group() lease.Group {
	return lease.Group{Script: g.lock.protocol.Renewal(), Slot: g.lock.slot}
}

// subject is what the server is asked about the grant.
func (g *grant) subject() checks.Subject {
	return checks.Subject{
		Group: g.Group(), Protocol: g.lock.protocol, Key: g.lock.Key(), Wire: g.Wire, Lasts: g.lasting(),
	}
}

// lasting compares with what is believed now. (Of the keys of read holds, some may be on another node.)
func (g *grant) lasting() checks.Lasts {
	l, c := g.lock, g.claim
	c.Lock()
	believed := g.Believed()
	c.Unlock()
	return func(sent, d time.Duration) {
		if d == 0 {
			g.lose(sent)
			return
		}
		c.Lock()
		defer c.Unlock()
		if !l.Shared && g.Forgot(believed, lease.Add(l.Session().Now(), d), lease.Trust(sent, d)) {
			for h := range g.Live() {
				h.resetTimer()
			}
			l.keeper.dog.Sooner(g, g.Rests())
		}
	}
}

// add makes h, granted by a call sent at sent, a live hold of the grant.
func (g *grant) add(h *Single, sent time.Duration) {
	k, c := g.lock.keeper, g.claim
	c.Lock()
	first, watch := c.Add(&g.Grant, &h.Hold, lease.Add(h.Acquired(), h.lock.Length()), h.watched())
	if watch {
		k.dog.Add(g, sent)
	} else if !g.Watched() {
		k.dog.Rest(g, g.Rests())
	}
	var waits []turn.Waker
	if first {
		if g.lock.Wires.Ownerless { // a permit, which anybody may ask for
			k.permits.Add(g.Wire, g)
		}
		waits = c.Waits()
	}
	c.Unlock()
	for _, w := range waits {
		w.Wake() // calls of the same owner: they may re-enter now
	}
}

// drop takes an ended hold out and returns its contexts, which are to end, too. It gives the claim's mutex back.
func (g *grant) drop(h *Single) (contexts *scope.Context) {
	k, c := g.lock.keeper, g.claim
	last, unwatch := c.Drop(&g.Grant, &h.Hold, h.watched(), h.ended.Load() == detachedEnd, k.session.Now())
	if last {
		k.dog.Remove(g)
		if g.lock.Wires.Ownerless {
			k.permits.Remove(g.Wire)
		}
	} else if unwatch {
		k.dog.Rest(g, g.Rests())
	} else if h.watched() {
		k.dog.Add(g, 0) // MaxHold may have ended its renewals because of h
	}
	contexts = h.stop()
	owned := c.owner != nil
	if last && g.Passed() {
		g.Leaves(k.session.Lines().Ended(g.lock.Line()))
	}
	c.Unlock()
	if owned {
		c.unref(g.lock)
	}
	return contexts
}

// remaining returns the holds that a release leaves, as they are now.
func (g *grant) remaining() kind.Remaining {
	g.claim.Lock()
	defer g.claim.Unlock()
	return g.claim.Remaining(&g.Grant, g.lock.Session().Now())
}

// sweep gives back what a lost grant may leave behind.
func (g *grant) sweep() {
	g.do(func() owner.Duty { return g.claim.Sweep(&g.Grant, g.lock.Session().Now(), g.claim.owner != nil) })
}

// do carries out in the background what a rule demands.
func (g *grant) do(rule func() owner.Duty) {
	g.claim.Lock()
	duty := rule()
	g.claim.Unlock()
	if duty.Correct {
		g.correct(duty.Then)
	}
	g.lock.owe(duty.Debt)
}

// look ends the holds whose trust has ended, if nobody has noticed before. It returns when the next one's does; 0 if
// none is held.
func (g *grant) look() (next time.Duration) {
	for _, h := range g.live() {
		if h.Err() == nil && (next == 0 || h.Trust() < next) {
			next = h.Trust()
		}
	}
	return next
}

// live returns the live holds.
func (g *grant) live() (live []*Single) {
	g.claim.Lock()
	defer g.claim.Unlock()
	return slices.Collect(g.Live())
}

// lose ends every hold: a call that was sent then has found nothing of this wire owner on the server.
func (g *grant) lose(sent time.Duration) {
	g.claim.Lock()
	g.Gone()
	for h := range g.Live() {
		if h.trusted() { // else it was lost before, of that
			h.setFailure(nil)
		}
	}
	g.claim.Unlock()
	for _, h := range g.live() {
		h.lose()
	}
	g.do(func() owner.Duty { return g.claim.Missed(&g.Grant, sent, g.lock.Session().Now(), g.lock.memory()) })
}

// lasts records that a call which has just returned extended the server's lease, or may have.
func (g *grant) lasts(length time.Duration) {
	g.claim.Lock()
	g.Lasts(lease.Add(g.lock.Session().Now(), length))
	g.claim.Unlock()
}
