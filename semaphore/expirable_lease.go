package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adopt"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Forever is the lease of a permit that never expires: it is taken until somebody gives it back.
const Forever time.Duration = math.MaxInt64

// UpdateLease gives a permit a lease of d from now, longer or shorter, of at least 10 ms or [Forever]. It returns
// [holdfast.ErrNotHeld] if the permit is no longer taken or the id is invalid. It corresponds to updateLeaseTime().
//
// A hold of this session trusts the new lease. If the hold is renewed, its renewals go on with the session's lease,
// provided that the new lease lasts until the next one. A holder in another session is not told. If the new lease is
// longer, it stops trusting the permit when its old lease ends, and the permit stays taken; if shorter, it trusts the
// permit for too long.
//
// While the call is under way, a hold of this session trusts the shorter of the two leases: if no reply comes within
// that time, the hold is lost. After [holdfast.ErrUnknown] the lease may have been changed, or may still be, for a
// third of the lease that e gives, at most a minute. Until then, a hold of this session does not trust a longer lease.
// After any other error except [holdfast.ErrLost] nothing has changed.
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

// RemainingLease returns how long a permit stays taken if nobody renews or releases it. It is [Forever] if the lease
// has no end, or none within the 292 years of a Duration. It returns [holdfast.ErrNotHeld] if the permit is no longer
// taken or the id is invalid. It asks the master. It corresponds to getLeaseTime().
func (e *Expirable) RemainingLease(ctx context.Context, id string) (time.Duration, error) {
	const operation = "remaining lease"
	permit, err := permitOf(id)
	if err != nil {
		return 0, e.lock.Fail(operation, err)
	}
	look := script.NewCall(leaseExpirableScript).Key(wire.PermitsKey(e.lock.Key())).Arg(permit)
	left, err := e.lock.RunInt(ctx, operation, look)
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

// leaseOf returns a lease in the form that scripts take.
func leaseOf(d time.Duration) string {
	if d == Forever {
		return "0"
	}
	return lease.Millis(d)
}

// probing is how long an update looks for a connection that is up.
const probing = 5 * time.Second

// updateLease gives a permit a lease of d from now, whoever holds it. A hold of this session trusts it accordingly.
func (e *Expirable) updateLease(ctx context.Context, operation, permit string, d time.Duration) error {
	l := &e.lock
	call := func(w script.Window) *script.Call {
		return script.NewCall(updateExpirableScript).Key(wire.PermitsKey(l.Key())).Arg(leaseOf(d), permit).Within(w)
	}
	h := e.granted(permit).Live()
	if h == nil {
		s, until := l.Session(), time.Duration(0)
		sent := s.Now()
		done, err := l.InTime(ctx, operation, windowOf(l), call)
		switch {
		case done || errors.Is(err, holdfast.ErrUnknown):
			if !done {
				until = lease.Add(s.Now(), l.NotAfter())
			}
			adopt.ArrivalsOf(s).Then([]string{permit}, until, func(renewed time.Duration) {
				_ = e.updatedMeanwhile(permit, d, sent, renewed, until, err)
			})
			return e.updatedMeanwhile(permit, d, sent, sent, until, err)
		case err == nil:
			return l.Fail(operation, holdfast.ErrNotHeld)
		}
		return err
	}
	if err := l.Begin(ctx, operation); err != nil {
		return err
	}
	defer l.Session().Leave()
	leave, err := h.Enter(ctx)
	if err != nil {
		return l.Fail(operation, session.Stopped(ctx))
	}
	if e.granted(permit).Live() != h { // it has ended meanwhile, or was handed over
		leave()
		return e.updateLease(ctx, operation, permit, d)
	}
	defer leave()
	if err := e.update(ctx, &update{Single: h, d: d, doubt: l.NotAfter()}, call); err != nil {
		return l.FailIn(ctx, operation, session.Explain(ctx, err))
	}
	return nil
}

// granted is what this session has of a permit.
func (e *Expirable) granted(permit string) core.Granted { return e.lock.GrantedTo([]string{permit}) }

// updatedMeanwhile concerns a hold that has come into the session by a hand-over since the call was sent, whose outcome
// is err: success, or a doubt whether it is executed before until. That hand-over has asked for the lease at renewed.
// The call is not repeated: the first copy could come after the second one, and the caller may have gone.
func (e *Expirable) updatedMeanwhile(permit string, d, sent, renewed, until time.Duration, err error) error {
	s := e.lock.Session()
	ctx, cancel := s.Within(s.Now(), s.Bound())
	defer cancel()
	for {
		ours := e.granted(permit)
		h := ours.Live()
		if h == nil {
			return err
		}
		leave, late := h.Enter(ctx)
		if late != nil {
			ours.Forsake()
			return err
		}
		if e.granted(permit).Live() == h {
			defer leave()
			before, trust := h.Distrust(lease.Trust(max(sent, renewed), d)), time.Duration(0)
			if err == nil {
				until, trust = s.Now(), lease.Trust(sent, d)
			}
			h.Updated(d, before, until, sent, trust)
			if lost := h.Err(); err == nil && errors.Is(lost, holdfast.ErrLost) {
				return lost
			}
			return err
		}
		leave()
	}
}

// windowOf is for how long an update may be executed, by the server's clock. That may run more slowly than ours, or be
// set back, so one whose outcome is not known is reckoned with for twice as long.
func windowOf(l *core.Lock) time.Duration { return l.NotAfter() / 2 }

// update sends the call that updates a hold, until it has been sent on a connection that is up.
func (e *Expirable) update(ctx context.Context, u *update, call func(w script.Window) *script.Call) (err error) {
	l, end := &e.lock, time.Now().Add(probing)
	defer l.Checks().Since(l.Checks().Signs())
	var tries session.Tries
	for tries.Next(ctx) {
		var reply script.Reply
		err = l.Session().Runner().Timed(ctx, &reply, l.Key(), windowOf(l), func(w script.Window) *script.Call {
			// The server must not execute the first call on a connection that may be down: sending it, or finding out that it
			// cannot be sent, may take longer than the new lease.
			if !w.Stands {
				w.NotBefore, w.NotAfter = 0, 0
			}
			u.sending(w)
			return call(w)
		})
		again := false
		if again, err = u.ended(reply.Code == script.Granted, err); !again || !time.Now().Before(end) || u.Err() != nil {
			break
		}
	}
	return err
}
