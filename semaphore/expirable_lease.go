package semaphore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Forever is the lease of a permit that never expires: it is taken until somebody gives it back.
const Forever time.Duration = math.MaxInt64

// UpdateLease gives a permit a lease of d from now, longer or shorter, of at least 10 ms or
// [Forever]. It is [holdfast.ErrNotHeld] if it is not taken any more, or the id is none. It corresponds to
// updateLeaseTime(). A hold of this session trusts the new lease; one that is renewed goes on being
// renewed, with the session's lease, if the new one lasts until then. Who holds it elsewhere does
// not know of it: with a longer lease it stops to trust the permit when its own is over, and the
// permit stays taken; with a shorter one it trusts the permit for too long. While the call is under
// way a hold of this session trusts the shorter lease: if no reply comes within it, the hold is lost.
// After [holdfast.ErrUnknown] it may have been done, or may be yet, for a third of the permit's lease,
// a minute at the most; so long a hold of this session trusts no longer lease. After any other error
// but [holdfast.ErrLost] nothing was changed.
func (e *Expirable) UpdateLease(ctx context.Context, id string, d time.Duration) error {
	const operation = "update lease"
	permit, err := permitOf(id)
	if err == nil && d < lease.Min {
		err = fmt.Errorf("lease is %v, must be at least %v", d, lease.Min)
	}
	if err != nil {
		return e.lock.Fail(operation, err)
	}
	return e.updateLease(ctx, operation, permit, d)
}

// RemainingLease returns how long a permit stays taken if nobody renews or releases it, [Forever] if
// it has no end, or none within the 292 years of a Duration. It is [holdfast.ErrNotHeld] if it is
// not taken any more, or the id is none. It asks the master. It corresponds to getLeaseTime().
func (e *Expirable) RemainingLease(ctx context.Context, id string) (time.Duration, error) {
	const operation = "remaining lease"
	permit, err := permitOf(id)
	if err != nil {
		return 0, e.lock.Fail(operation, err)
	}
	left, err := e.ask(ctx, operation, script.NewCall(leaseExpirableScript).Key(wire.PermitsKey(e.lock.Key())).Arg(permit))
	switch {
	case err != nil:
		return 0, err
	case left < 0 || left > int64(Forever/time.Millisecond):
		return Forever, nil
	case left == 0:
		return 0, e.lock.Fail(operation, holdfast.ErrNotHeld)
	}
	return time.Duration(left) * time.Millisecond, nil
}

// leaseOf is a lease as scripts take it.
func leaseOf(d time.Duration) string {
	if d == Forever {
		return "0"
	}
	return lease.Millis(d)
}

// Probing is for how long an update attempts to find a connection that stands, after these delays.
const (
	probing    = 5 * time.Second
	firstProbe = 5 * time.Millisecond
	lastProbe  = 500 * time.Millisecond
)

// updateLease gives a permit a lease of d from now, whoever has it. A hold of this session trusts it accordingly.
func (e *Expirable) updateLease(ctx context.Context, operation, permit string, d time.Duration) error {
	l := &e.lock
	call := func(w script.Window) *script.Call {
		return script.NewCall(updateExpirableScript).Key(wire.PermitsKey(l.Key())).Arg(leaseOf(d), permit).Within(w)
	}
	u := l.GrantedTo([]string{permit}).Update(d)
	if u == nil {
		done, err := l.InTime(ctx, operation, call)
		if err == nil && !done {
			return l.Fail(operation, holdfast.ErrNotHeld)
		}
		return err
	}
	if err := l.Begin(ctx, operation); err != nil {
		return err
	}
	defer l.Session().Leave()
	leave, err := u.Enter(ctx)
	if err != nil {
		return l.Fail(operation, session.Stopped(ctx))
	}
	defer leave()
	if err := e.update(ctx, u, call); err != nil {
		return l.Fail(operation, session.Explain(ctx, err))
	}
	return nil
}

// update sends the call that updates a hold, until it has been sent on a connection that stands.
func (e *Expirable) update(ctx context.Context, u *core.Update, call func(w script.Window) *script.Call) error {
	l, end := &e.lock, time.Now().Add(probing)
	limit := lease.NotAfter(l.Length())
	for delay := firstProbe; ; delay = min(2*delay, lastProbe) {
		var reply script.Reply
		err := l.Session().Runner().Timed(ctx, &reply, l.Key(), limit, func(w script.Window) *script.Call {
			// The first call on a connection that may not stand is not to be executed: it may take longer than the new
			// lease until it is sent, or until it is known that it cannot be.
			if !w.Stands {
				w.NotBefore, w.NotAfter = 0, 0
			}
			u.Sending(w)
			return call(w)
		})
		again, err := u.Sent(reply.Code == script.Granted, err)
		if !again || !time.Now().Before(end) || u.Err() != nil || session.Pause(ctx, delay) != nil {
			return err
		}
	}
}
