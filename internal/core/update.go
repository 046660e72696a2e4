package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// An Update gives a hold another lease. From when its call may be executed until its outcome is known the hold is
// trusted for the shorter one.
type Update struct {
	*Single
	d      time.Duration
	serves bool          // the call may be executed; otherwise the server refuses it as late, and says its time
	sent   time.Duration // if it serves
	before owner.Belief  // the trust before the call, if it serves
}

// Update is one of a hold that the session has; nil if it has none.
func (gs Granted) Update(d time.Duration) *Update {
	for _, g := range gs.grants {
		if live := g.live(); len(live) > 0 {
			return &Update{Single: live[0], d: d}
		}
	}
	return nil
}

// Enter waits for the turn of the hold's owner, which is to be left.
func (u *Update) Enter(ctx context.Context) (leave func(), err error) {
	c := u.grant.claim
	return c.Leave, c.Enter(ctx)
}

// Sending is called right before a call with that window is sent; the one before it, if any, has been refused.
func (u *Update) Sending(w script.Window) {
	if u.serves {
		u.refused()
	}
	u.sent, u.serves = w.Sent, w.NotAfter > 0
	if u.serves {
		u.before = u.distrust(lease.Trust(u.sent, u.d))
	}
}

// refused makes the hold trusted as before a call that changed nothing.
func (u *Update) refused() {
	u.trustAgain(u.before, u.before.Unsure, u.before.Unsure, u.before.Until)
}

// Sent records how the call ended, and returns what that means, and whether another may be sent, as this one was lost
// and had no effect.
func (u *Update) Sent(done bool, err error) (again bool, _ error) {
	g, class := u.grant, script.ClassOf(err)
	lost := class == script.Unknown || class == script.Broken
	switch now := u.lock.Session().Now(); {
	case lost && !u.serves: // whatever became of it
		err = &script.Failure{Class: script.Refused, Temporary: script.IsTemporary(err), Err: err}
		return class == script.Unknown && script.IsTemporary(err), err
	case lost: // it may be executed until then
		g.lasts(u.d)
		u.trustAgain(u.before, max(u.before.Unsure, lease.Add(now, u.lock.notAfter())), u.sent, 0)
		g.sweep()
	case err != nil && u.serves:
		u.refused()
	case err != nil:
	case !done:
		g.lose(u.sent)
		return false, session.ErrNotHeld
	default:
		g.lasts(u.d)
		u.trustAgain(u.before, max(u.before.Unsure, now), u.sent, lease.Trust(u.sent, u.d))
		g.sweep() // if the hold was lost meanwhile
		if lost := u.Err(); errors.Is(lost, session.ErrLost) {
			return false, lost
		}
	}
	return false, err
}

// distrust makes the hold trusted at most until then, whatever else is under way. It returns the trust from before.
func (h *Single) distrust(until time.Duration) (before owner.Belief) {
	c := h.grant.claim
	c.Lock()
	defer c.Unlock()
	before = h.Distrust(until)
	h.resetTimer()
	return before
}

// trustAgain ends that: a call sent at sent makes the hold trusted until then, unless an earlier update may still be
// executed after it; of other calls only those count that are sent from the moment unsure on.
func (h *Single) trustAgain(before owner.Belief, unsure, sent, until time.Duration) {
	c := h.grant.claim
	c.Lock()
	trusted := h.TrustAgain(before, h.lock.Session().Now(), unsure, sent, until)
	if trusted {
		h.setFailure(nil)
	}
	c.Unlock()
	if !trusted {
		h.expire()
	}
}
