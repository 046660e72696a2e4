package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Permits are the holds of a [Lock] that has no owners. Each is known on the server by an id of its
// own, by which anybody may give it back.

// Acquire waits for n permits for at most limit, or until ctx ends: all of them, or none.
func (l *Lock) Acquire(ctx context.Context, operation string, n int, limit time.Duration) ([]*Hold, error) {
	a := acquisition{also: also{n: n - 1}}
	h, err := a.call(ctx, l, operation, limit)
	return a.public(h), err
}

// public are the permits that were granted as their users get them.
func (a *acquisition) public(h *Single) []*Hold {
	if h == nil {
		return nil
	}
	holds := make([]*Hold, 1, 1+len(a.also.holds))
	holds[0] = h.public()
	for _, other := range a.also.holds {
		holds = append(holds, other.public())
	}
	return holds
}

// all are the permits that were granted, of which h is the first.
func (a *acquisition) all(h *Single) []*Single {
	return append([]*Single{h}, a.also.holds...)
}

// UpdateLease runs a call that gives a permit a lease of d from now, to which the not-after is to be appended, with
// the replies of InTime. It is [ErrNotHeld] if nobody has it. Who holds it in this session trusts it accordingly.
func (l *Lock) UpdateLease(ctx context.Context, operation, wire string, d time.Duration, call func() *script.Call) error {
	h := l.GrantedTo([]string{wire}).first()
	if h == nil {
		done, err := l.InTime(ctx, operation, func(w script.Window) *script.Call { return call().Within(w) })
		if err == nil && !done {
			return l.Fail(operation, session.ErrNotHeld)
		}
		return err
	}
	if err := l.Begin(ctx, operation); err != nil {
		return err
	}
	defer l.session.Leave()
	c := h.tenure.claim
	if c.enter(ctx) != nil {
		return l.Fail(operation, session.Stopped(ctx))
	}
	defer c.leave()
	if err := h.update(ctx, d, call); err != nil {
		return l.Fail(operation, session.Explain(ctx, err))
	}
	return nil
}

// probing is for how long an update attempts to find a connection that stands.
const probing = 5 * time.Second

// update is UpdateLease of a hold of this session, whose turn it is.
func (h *Single) update(ctx context.Context, d time.Duration, call func() *script.Call) error {
	u, l, s := update{hold: h, d: d}, h.lock, h.lock.session
	end := s.Now() + probing
	for delay := session.FirstRetry; ; delay = min(2*delay, session.LastRetry) {
		reply, err := s.Runner().Timed(ctx, l.Key(), l.notAfter(), func(w script.Window) *script.Call {
			// The first call on a connection that may not stand is not to be executed: it may take longer than the new
			// lease until it is sent, or until it is known that it cannot be.
			if !w.Stands {
				w.NotBefore, w.NotAfter = 0, 0
			}
			u.begin(w)
			return call().Within(w)
		})
		lost := !u.serves && script.ClassOf(err) == script.Unknown && script.IsTemporary(err)
		err = u.end(reply.Code == script.Granted, err)
		if !lost || s.Now() >= end || h.Err() != nil || session.Pause(ctx, delay) != nil { // it has changed nothing
			return err
		}
	}
}

// An update gives a permit another lease. From when its call may be executed until its outcome is known the hold is
// trusted for the shorter one.
type update struct {
	hold   *Single
	d      time.Duration
	serves bool          // the call may be executed: else the server refuses it as late, and tells its time
	sent   time.Duration // if it serves
	before owner.Belief  // likewise
}

// begin is called right before a call with that window is sent; the one before it, if there was one, has been refused.
func (u *update) begin(w script.Window) {
	if u.serves {
		u.refused()
	}
	u.sent, u.serves = w.Sent, w.NotAfter > 0
	if u.serves {
		u.before = u.hold.distrust(lease.Trust(u.sent, u.d))
	}
}

// refused has the hold trusted as before a call that changed nothing.
func (u *update) refused() {
	u.hold.trustAgain(u.before, u.before.Unsure, u.before.Unsure, u.before.Until)
}

// end takes in how the call ended, and returns what that means.
func (u *update) end(done bool, err error) error {
	h, t := u.hold, u.hold.tenure
	s := h.lock.session
	class := script.ClassOf(err)
	switch now := s.Now(); {
	case !u.serves && (class == script.Unknown || class == script.Broken): // whatever became of it
		return &script.Failure{Class: script.Refused, Temporary: script.IsTemporary(err), Err: err}
	case class == script.Unknown || class == script.Broken: // it may be executed until then
		t.lasts(u.d)
		h.trustAgain(u.before, max(u.before.Unsure, lease.Add(now, h.lock.notAfter())), u.sent, 0)
		t.sweep()
	case err != nil && u.serves:
		u.refused()
	case err != nil:
	case !done:
		t.lose(u.sent)
		return session.ErrNotHeld
	default:
		t.lasts(u.d)
		h.trustAgain(u.before, max(u.before.Unsure, now), u.sent, lease.Trust(u.sent, u.d))
		t.sweep() // if the hold was lost meanwhile
		if lost := h.Err(); errors.Is(lost, session.ErrLost) {
			return lost
		}
	}
	return err
}

// distrust has the hold trusted until then at the most, and no longer by whatever else is under way.
// It returns what was believed before.
func (h *Single) distrust(until time.Duration) (before owner.Belief) {
	c := h.tenure.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	before = h.Distrust(until)
	if h.timer != nil {
		h.timer.Reset(h.remaining())
	}
	return before
}

// trustAgain ends that: what was sent at sent has the hold trusted until then, unless an earlier update may
// yet be executed after it; of other calls only those count that are sent from the moment unsure on.
func (h *Single) trustAgain(before owner.Belief, unsure, sent, until time.Duration) {
	c := h.tenure.claim
	c.mu.Lock()
	trusted := h.TrustAgain(before, h.lock.session.Now(), unsure, sent, until)
	if trusted {
		h.failure = nil
	}
	c.mu.Unlock()
	if !trusted {
		h.expire()
	}
}
