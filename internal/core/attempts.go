package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
)

// callOnce is a whole call that makes one attempt.
func (a *acquisition) callOnce(ctx context.Context, l *Lock, operation string) (*Single, error) {
	if err := l.begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.session.calls.leave()
	a.init(ctx, l)
	defer a.unwind()
	h, err := a.once(ctx)
	return h, a.finish(ctx, operation, err)
}

// call is one that waits until ctx ends.
func (a *acquisition) call(ctx context.Context, l *Lock, operation string) (*Single, error) {
	if err := l.begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.session.calls.leave()
	a.init(ctx, l)
	defer a.unwind()
	h, err := a.wait(ctx, ctx)
	return h, a.finish(ctx, operation, err)
}

// callFor is one that waits for at most d, or until ctx ends.
func (a *acquisition) callFor(ctx context.Context, l *Lock, operation string, d time.Duration) (*Single, error) {
	if d <= 0 {
		return a.callOnce(ctx, l, operation)
	}
	end := WaitEnd(ctx, d)
	if end.IsZero() {
		return a.call(ctx, l, operation)
	}
	if err := l.begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.session.calls.leave()
	attempt, sleep, stop := waitUntil(ctx, end)
	defer stop()
	a.init(ctx, l)
	defer a.unwind()
	h, err := a.wait(attempt, sleep)
	return h, a.finish(ctx, operation, a.outwaited(ctx, end, err))
}

// once makes one attempt, repeated only while its reply is lost and it may still be executed. Nor is a
// reply waited for any longer.
func (a *acquisition) once(ctx context.Context) (h *Single, err error) {
	err = a.lock.session.once(ctx, a.lock.key, lease.NotAfter(a.lock.length()), func(ctx context.Context) (err error) {
		h, _, err = a.try(ctx)
		return err
	})
	return h, err
}

// once attempts something about a key for so long at the most, again only while the reply is lost.
func (s *Session) once(ctx context.Context, key string, limit time.Duration, attempt func(ctx context.Context) error) error {
	end, within := time.Now().Add(limit), ctx
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		// A connection that falls silent now ends by itself within a third of the session's lease; and a
		// context would be more than all else that an attempt allocates.
		if within == ctx && (limit < lease.NotAfter(s.config.Lease) || s.runner.Silent(key)) {
			bounded, stop := until(ctx, end)
			defer stop()
			within = bounded //nolint:fatcontext // once
		}
		err := attempt(within)
		switch {
		case errors.Is(err, errNoReply): // nor is it looked at whether it was sent, behind others of its owner
			return &script.Failure{Class: script.Unknown, Err: errNoReply}
		case script.ClassOf(err) != script.Unknown || !script.IsTemporary(err):
			return err
		case !time.Now().Add(delay).Before(end) || pause(within, delay) != nil:
			return err
		}
	}
}

// until is ctx, or one that ends then, if ctx may last longer.
func until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if earlier, ok := ctx.Deadline(); ok && !earlier.After(end) {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end, errNoReply)
}

// wait attempts until the lock is granted: at once if nobody of the session waits for it,
// then as the first of the session's line. Attempts end with ctx, sleep with sleep.
func (a *acquisition) wait(ctx, sleep context.Context) (*Single, error) {
	a.stand = a.lock.Leaver != nil
	if a.lock.Queue || a.lock.Shared {
		return a.waitAlone(ctx, sleep)
	}
	retry := time.Duration(0)
	if a.lock.session.lines.Empty(a.lock.line()) || a.reenters() {
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
func (a *acquisition) queue(ctx, sleep context.Context, retry time.Duration) (h *Single, err error) {
	var waited func() // told when the place has been left
	defer func() {
		if waited != nil {
			waited()
		}
	}()
	place := a.lock.session.lines.Join(a.lock.line(), a.lock.Backoff == nil, a.stand)
	if a.own == nil { // else nobody else can hold it
		a.claim.await(place)
	}
	defer func() {
		if a.own == nil {
			a.claim.forgo(place)
		}
		switch {
		case h == nil:
			place.Leave(0)
		case a.lock.Permits:
			place.LeaveSome(a.answer.next)
		case a.lock.Poll != nil: // others do not tell when they release it
			place.Leave(a.lock.Poll(1))
		default:
			place.Leave(h.lock.length())
		}
	}()
	waited = a.lock.waiting()
	for {
		if a.reenters() {
			err = place.Sleep(sleep, retry) // who is ahead may be waiting for this very owner
		} else {
			err = place.Wait(sleep, retry)
		}
		if err != nil {
			return nil, a.interrupted(sleep, err)
		}
		a.lock.woken(place.Cause())
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
func (a *acquisition) attempt(ctx context.Context) (h *Single, retry time.Duration, err error) {
	h, inTheWay, err := a.try(ctx)
	if err == nil {
		return h, 0, nil
	}
	retry, err = a.again(ctx, inTheWay, err, a.lock.Backoff)
	if err == nil && a.lock.Poll != nil {
		retry = min(retry, a.lock.Poll(a.attempts))
	}
	return nil, retry, err
}

// reenters reports whether the owner holds the lock by now, perhaps through another call.
func (a *acquisition) reenters() bool { return a.own == nil && a.claim.holds() }
