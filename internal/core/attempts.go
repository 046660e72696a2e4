package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// once makes one attempt, repeated only while its reply is lost and it may still be executed.
func (a *acquisition) once(ctx context.Context) (*Hold, error) {
	end := a.lock.session.now() + lease.NotAfter(a.lock.length())
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		h, _, err := a.try(ctx)
		if script.ClassOf(err) != script.Unknown || !script.IsTemporary(err) {
			return h, err
		}
		if a.lock.session.now()+delay >= end || pause(ctx, delay) != nil {
			return nil, err
		}
	}
}

// wait attempts until the lock is granted: at once if nobody of the session waits for it,
// then as the first of the session's line. Attempts end with ctx, sleep with sleep.
func (a *acquisition) wait(ctx, sleep context.Context) (*Hold, error) {
	a.stand = a.lock.Leaver != nil
	if a.lock.Queue || a.lock.Shared {
		return a.waitAlone(ctx, sleep)
	}
	retry := time.Duration(0)
	if a.lock.session.lines.Empty(a.lock.Channel) || a.reenters() {
		h, next, err := a.attempt(ctx)
		if h != nil || err != nil {
			return h, err
		}
		retry = next
	}
	return a.queue(ctx, sleep, retry)
}

// queue waits in the session's line, first until retry has passed, and attempts when it is
// this call's turn to look.
func (a *acquisition) queue(ctx, sleep context.Context, retry time.Duration) (h *Hold, err error) {
	place := a.lock.session.lines.Join(a.lock.Channel, a.lock.Backoff == nil, a.stand)
	a.claim.await(place)
	defer func() {
		a.claim.forgo(place)
		taken := time.Duration(0)
		if h != nil {
			taken = h.lock.length()
		}
		place.Leave(taken)
	}()
	for {
		if a.reenters() {
			err = place.Sleep(sleep, retry) // who is ahead may be waiting for this very owner
		} else {
			err = place.Wait(sleep, retry)
		}
		if err != nil {
			return nil, a.interrupted(ctx, err)
		}
		if !place.Head() && !a.reenters() {
			continue
		}
		h, retry, err = a.attempt(ctx)
		if h != nil || err != nil {
			return h, err
		}
	}
}

// attempt tries once. Without a hold and without an error, it is to be tried again after a
// wake-up or after retry: the lock is taken, or something failed that may pass.
func (a *acquisition) attempt(ctx context.Context) (h *Hold, retry time.Duration, err error) {
	h, inTheWay, err := a.try(ctx)
	a.attempts++
	if err == nil {
		return h, 0, nil
	}
	retry, err = a.again(ctx, inTheWay, err)
	return nil, retry, err
}

// again decides after which time an attempt that failed is worth another; or it is not.
func (a *acquisition) again(ctx context.Context, inTheWay time.Duration, why error) (time.Duration, error) {
	switch {
	case errors.Is(why, ErrBusy):
		a.trouble, a.delay = nil, 0
		if backoff := a.lock.Backoff; backoff != nil {
			return max(backoff(a.attempts), time.Millisecond), nil
		}
		return wait.Interval(inTheWay), nil
	case script.IsTemporary(why) && ctx.Err() == nil:
		a.trouble = why
		a.delay = min(max(2*a.delay, firstRetry), lastRetry)
		a.lock.session.config.Logger.Info("holdfast: waiting for the server", "kind", a.lock.title(), "name", a.lock.Name, "error", why)
		return wait.Interval(a.delay), nil
	}
	return 0, why
}

// outwaited is the error of a call whose time to wait is over while its ctx has not ended: no
// end of a context of ours may be taken for it.
func (a *acquisition) outwaited(err error) error {
	f, ok := err.(*script.Failure) //nolint:errorlint // as in explain
	switch {
	case !ok || !errors.Is(f, errWaited) && !errors.Is(f, context.DeadlineExceeded):
		return err
	case f.Class == script.Unknown: // cut off under way
		return &script.Failure{Class: script.Unknown, Err: errWaited}
	}
	return cmp.Or(a.trouble, ErrBusy) // not even sent
}

// reenters reports whether the owner holds the lock by now, perhaps through another call.
func (a *acquisition) reenters() bool { return a.own == nil && a.claim.holds() }

// interrupted is why a wait ended, with what the last attempt failed of.
func (a *acquisition) interrupted(ctx context.Context, why error) error {
	switch {
	case errors.Is(why, wait.ErrClosed):
		return ErrClosed
	case errors.Is(why, errWaited):
		return cmp.Or(a.trouble, ErrBusy)
	case a.trouble == nil:
		return stopped(ctx)
	case script.ClassOf(a.trouble) == script.Unknown:
		return fmt.Errorf("%w; last attempt: %w", stopped(ctx), unknown(a.trouble))
	}
	return fmt.Errorf("%w; last attempt: %w", stopped(ctx), a.trouble)
}
