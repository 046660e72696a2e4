package semaphore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

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
	for delay := firstProbe; ; delay = min(2*delay, lastProbe) {
		reply, err := l.Session().Runner().Timed(ctx, l.Key(), lease.NotAfter(l.Length()), func(w script.Window) *script.Call {
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
