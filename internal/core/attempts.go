package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
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
	if err == nil {
		return h, 0, nil
	}
	retry, err = a.again(ctx, inTheWay, err, a.lock.Backoff)
	return nil, retry, err
}

// reenters reports whether the owner holds the lock by now, perhaps through another call.
func (a *acquisition) reenters() bool { return a.own == nil && a.claim.holds() }
