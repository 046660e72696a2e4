package semaphore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	expireScript = script.Load("semaphore_expire")
	lifeScript   = script.LoadLook("count_life")
)

// Exists reports whether there is a semaphore, whatever its permits. It asks the master. It corresponds to isExists().
func (p *Semaphore) Exists(ctx context.Context) (bool, error) { return p.life().exists(ctx) }

// Expire makes the semaphore disappear in ttl from now, with every permit that was taken from it, whatever expiry it
// had before. It reports whether there is a semaphore; if there is none, it does nothing. ttl must be above 0;
// fractions of a millisecond round up. It blocks for a round trip. After [holdfast.ErrUnknown] it may have been done,
// or may still be, for a third of the session's lease, at most a minute. It corresponds to expire().
//
// Nothing is published when the semaphore disappears: Acquire waits until somebody sets permits again. A later
// [Semaphore.Release] creates a semaphore that has the permits given back and does not expire;
// [Semaphore.ReleaseIfExists] does not.
func (p *Semaphore) Expire(ctx context.Context, ttl time.Duration) (bool, error) {
	return p.life().expire(ctx, ttl)
}

// ExpireAt is [Semaphore.Expire] at a moment of the server's clock, in whole milliseconds. at must be from 1970 to
// 9999; if it has passed, the semaphore disappears at once. It corresponds to expire(instant) and expireAt().
func (p *Semaphore) ExpireAt(ctx context.Context, at time.Time) (bool, error) {
	return p.life().expireAt(ctx, at)
}

// ClearExpire removes the expiry of the semaphore. It reports whether there was a semaphore with one. Blocking and
// errors are those of [Semaphore.Expire]. It corresponds to clearExpire().
func (p *Semaphore) ClearExpire(ctx context.Context) (bool, error) { return p.life().clear(ctx) }

// RemainingTTL returns the time until the semaphore disappears: 0 if there is none, negative if it has no expiry. It
// asks the master. It corresponds to remainTimeToLive().
func (p *Semaphore) RemainingTTL(ctx context.Context) (time.Duration, error) {
	return p.life().remaining(ctx)
}

func (p *Semaphore) life() life { return life{object: &p.object} }

// Exists reports whether there is a semaphore, whatever its permits. It asks the master. It corresponds to isExists().
func (e *Expirable) Exists(ctx context.Context) (bool, error) { return e.life().exists(ctx) }

// Expire makes the semaphore disappear in ttl from now, with all permits, free and taken, whatever expiry it had
// before. It reports whether there is a semaphore; if there is none, it does nothing. ttl must be above 0; fractions of
// a millisecond round up. It blocks for a round trip. After [holdfast.ErrUnknown] it may have been done, or may still
// be, for a third of the session's lease, at most a minute. It corresponds to expire().
//
// Nothing is published when the semaphore disappears. Permits that are taken are lost then, however long their leases.
// Their holders learn of it by their next renewal, or at their release if they are not renewed, and Acquire waits. So
// if the semaphore is created anew before that, it may give out permits that others still trust.
func (e *Expirable) Expire(ctx context.Context, ttl time.Duration) (bool, error) {
	return e.life().expire(ctx, ttl)
}

// ExpireAt is [Expirable.Expire] at a moment of the server's clock, in whole milliseconds. at must be from 1970 to
// 9999; if it has passed, the semaphore disappears at once. It corresponds to expire(instant) and expireAt().
func (e *Expirable) ExpireAt(ctx context.Context, at time.Time) (bool, error) {
	return e.life().expireAt(ctx, at)
}

// ClearExpire removes the expiry of the semaphore, and taken permits stay as long as their leases. It reports whether
// there was a semaphore that would have disappeared, or whose permits would have. Blocking and errors are those of
// [Expirable.Expire]. It corresponds to clearExpire().
func (e *Expirable) ClearExpire(ctx context.Context) (bool, error) { return e.life().clear(ctx) }

// RemainingTTL returns the time until the semaphore disappears: 0 if there is none, negative if it has no expiry. It
// asks the master. It corresponds to remainTimeToLive(). [Expirable.RemainingLease] is the time left of one permit.
func (e *Expirable) RemainingTTL(ctx context.Context) (time.Duration, error) {
	return e.life().remaining(ctx)
}

func (e *Expirable) life() life {
	return life{object: &e.lock.Object, permits: []string{wire.PermitsKey(e.lock.Key())}}
}

// A life manages how long a semaphore of either kind exists.
type life struct {
	object  *session.Object
	permits []string // the key of those that are taken, if they have leases
}

func (l life) expire(ctx context.Context, ttl time.Duration) (bool, error) {
	const operation = "expire"
	if ttl <= 0 {
		return false, l.object.Fail(operation, fmt.Errorf("ttl is %v, must be above 0", ttl))
	}
	return l.set(ctx, operation, "after", lease.Millis(ttl))
}

func (l life) expireAt(ctx context.Context, at time.Time) (bool, error) {
	const operation = "expire at"
	if year := at.UTC().Year(); year < 1970 || year > 9999 {
		return false, l.object.Fail(operation, fmt.Errorf("at is %v, must be from 1970 to 9999", at))
	}
	return l.set(ctx, operation, "at", strconv.FormatInt(max(at.UnixMilli(), 1), 10))
}

func (l life) clear(ctx context.Context) (bool, error) {
	return l.set(ctx, "clear expire", "never", "")
}

func (l life) set(ctx context.Context, operation, when, ms string) (bool, error) {
	return l.object.InTime(ctx, operation, l.object.Session().NotAfter(), func(w script.Window) *script.Call {
		return script.NewCall(expireScript).Key(l.object.Key()).Key(l.permits...).Arg(when, ms).Int(w.NotAfter)
	})
}

func (l life) exists(ctx context.Context) (bool, error) {
	left, err := l.left(ctx, "exists")
	return err == nil && left != gone, err
}

func (l life) remaining(ctx context.Context) (time.Duration, error) {
	left, err := l.left(ctx, "remaining ttl")
	if err != nil || left == gone {
		return 0, err
	}
	return lease.Lasting(left), nil
}

// gone is the time left of something that does not exist.
const gone = -2

func (l life) left(ctx context.Context, operation string) (ms int64, err error) {
	return l.object.RunInt(ctx, operation, script.NewCall(lifeScript).Key(l.object.Key()))
}
