package semaphore

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// TrySetPermits creates the semaphore with n permits, n from 0 to 2^53 - 1. It reports whether it did: false says that
// there is one already, whatever its permits. Permits that are taken though the server has lost their number, as by an
// eviction, are among the n. Like all methods that neither take a permit nor wait for one, it blocks for a round trip,
// or as long as [holdfast.Mutex.Locked] may. After [holdfast.ErrUnknown] it may have been done, or may still be, for a
// third of the lease, at most a minute. It corresponds to trySetPermits().
func (e *Expirable) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return e.resize(ctx, "try set permits", n, "1")
}

// SetPermits sets the number of permits, free and taken, to n, n from 0 to 2^53 - 1, and creates the semaphore if there
// is none. Permits that are taken stay taken, so the number of free ones may be negative for a while. It corresponds to
// setPermits(). After [holdfast.ErrUnknown] it may have been done, or may still be, for a third of the lease, at most a
// minute.
func (e *Expirable) SetPermits(ctx context.Context, n int) error {
	_, err := e.resize(ctx, "set permits", n)
	return err
}

// resize sets the number of permits, and reports whether it had to.
func (e *Expirable) resize(ctx context.Context, operation string, n int, onlyNew ...string) (changed bool, err error) {
	if n < 0 || n > wire.MaxCount {
		return false, e.lock.Fail(operation, fmt.Errorf("permits are %d, must be from 0 to 2^53 - 1", n))
	}
	changed, err = e.lock.InTime(ctx, operation, e.lock.NotAfter(), func(w script.Window) *script.Call {
		return e.permits.publishing(e.call(resizeExpirableScript).Int(int64(n))).Int(w.NotAfter).Arg(onlyNew...)
	})
	if changed {
		e.lock.Wake()
	}
	return changed, err
}

// AddPermits makes the semaphore larger by n, or smaller if n is below 0, and creates it if there is none. Permits that
// are taken stay taken, so the number of free ones may be negative for a while. An expiry stays as it is. It
// corresponds to addPermits(). After [holdfast.ErrUnknown] it may have been done, or may still be.
func (e *Expirable) AddPermits(ctx context.Context, n int) error {
	const operation = "add permits"
	if n < -wire.MaxCount || n > wire.MaxCount {
		return e.lock.Fail(operation, fmt.Errorf("permits are %d, must be from -(2^53 - 1) to 2^53 - 1", n))
	}
	c := e.permits.publishing(script.NewCall(addExpirableScript).Key(e.lock.Key()).Int(int64(n)))
	return e.lock.Run(ctx, operation, c, func() error { return e.lock.Given(c) })
}

// Permits returns how many permits the semaphore has, free and taken; 0 if there is none. Like the methods below, it
// asks the master, and first reclaims permits whose leases have ended. It corresponds to getPermits().
func (e *Expirable) Permits(ctx context.Context) (int, error) {
	free, taken, err := e.count(ctx, "permits")
	return free + taken, err
}

// AvailablePermits returns how many permits are free: 0 if there is no semaphore, and a negative number if it was made
// smaller than the number of permits taken. It corresponds to availablePermits().
func (e *Expirable) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := e.count(ctx, "available permits")
	return free, err
}

// AcquiredPermits returns how many permits are taken. It corresponds to acquiredPermits().
func (e *Expirable) AcquiredPermits(ctx context.Context) (int, error) {
	_, taken, err := e.count(ctx, "acquired permits")
	return taken, err
}

// count counts the permits, in several calls if many leases are over.
func (e *Expirable) count(ctx context.Context, operation string) (free, taken int, err error) {
	for more := true; more && err == nil; {
		c := e.permits.publishing(e.call(countExpirableScript))
		err = e.lock.Run(ctx, operation, c, func() error {
			n, err := c.ReadInts(nil)
			switch more = len(n) == 1; {
			case err != nil:
				return err
			case more && n[0] == -3:
			case len(n) == 2:
				free, taken = int(n[0]), int(n[1])
			default:
				return c.Unexpected()
			}
			return nil
		})
	}
	return free, taken, err
}

// Delete removes the semaphore with all permits that are taken, and reports whether there was one. Holds of this
// session are lost at once, even if the outcome is unknown; others learn of it by their next renewal, or at their
// release if they are not renewed. Waiters keep waiting until a semaphore is created. After [holdfast.ErrUnknown] the
// semaphore may have been removed, or may still be, for a third of the lease, at most a minute; holds that this session
// is granted meanwhile learn of it by then. It corresponds to delete().
func (e *Expirable) Delete(ctx context.Context) (bool, error) {
	ours := e.lock.Granted() // not what is granted while the reply is on its way
	was, err := e.lock.InTime(ctx, "delete", e.lock.NotAfter(), func(w script.Window) *script.Call {
		return e.call(deleteScript).Int(w.NotAfter)
	})
	switch {
	case was:
		ours.Lose()
	case errors.Is(err, holdfast.ErrUnknown):
		ours.Forsake()
	}
	e.lock.Session().Freed(was, err, e.lock.NotAfter())
	return was, err
}
