// Package adopt takes over what another session has acquired: what it has let go of without a release, or hands over.
package adopt

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Hold returns a hold of the lock under the wire owner that has it. It extends the lease to that of the lock, and takes
// nothing that is free: then it fails with [session.ErrNotHeld]. After another error the wire owner still has whatever
// it had.
func Hold(ctx context.Context, l *core.Lock, operation, wire string) (hold *core.Hold, err error) {
	if err := l.Begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.Session().Leave()
	done := l.Acquiring(ctx)
	h, err := adopt(ctx, l, wire)
	if err != nil {
		err = l.FailIn(ctx, operation, session.Explain(ctx, err))
	}
	returned := false
	defer func() { // if the user's observer panics, or ends the goroutine
		if !returned && h != nil {
			_ = h.Detach()
		}
	}()
	if h != nil {
		h.Observe(ctx)
		hold = h.Public()
	}
	if done != nil {
		done(session.Acquired{Attempts: 1, Err: err})
	}
	returned = true
	return hold, err
}

func adopt(ctx context.Context, l *core.Lock, wire string) (*core.Single, error) {
	claims := claimsOf(ctx, l)
	h, err := extend(ctx, l, claims, wire)
	if err != nil {
		claims.Drop()
	}
	return h, err
}

// claimsOf are those of ctx's owner to the lock, or of a fresh owner.
func claimsOf(ctx context.Context, l *core.Lock) *core.Claims {
	owner := core.OwnerOf(ctx)
	if owner == nil || l.Wires.Ownerless {
		owner = core.OwnerOf(core.NewOwner(ctx))
	}
	return owner.Claims([]*core.Lock{l})
}

// extend extends the lease of the wire owner, as a renewal does.
func extend(ctx context.Context, l *core.Lock, claims *core.Claims, wire string) (*core.Single, error) {
	leave, err := claims.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if claims.Held() > 0 {
		return nil, session.ErrAlreadyHeld
	}
	s := l.Session()
	checks := l.Checks()
	signs := checks.Signs()
	var holds []*core.Single
	err = s.Once(ctx, l.Key(), l.NotAfter(), func(ctx context.Context) error {
		sent := s.Now()
		lasts, err := renew(ctx, l, l.Length(), wire)
		if err == nil && lasts <= 0 {
			err = session.ErrNotHeld
		}
		if err == nil {
			holds, err = claims.Begin(wire, sent, s.Now(), 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	checks.Since(signs)
	return holds[0], nil
}

// renew makes the lease last for at least that long from now, and returns for how long it does; 0: the wire owner has
// none.
func renew(ctx context.Context, l *core.Lock, least time.Duration, wire string) (lasts time.Duration, err error) {
	millis := l.Millis() // which needs no memory
	if least != l.Length() {
		millis = lease.Millis(least)
	}
	n, _, err := l.Renew(ctx, script.Take, wire, millis)
	if n == 1 { // it was extended; else it lasts longer
		return least, err
	}
	return lease.Lasting(n), err
}
