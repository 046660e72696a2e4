// Package tusd locks the uploads of a tusd server that runs in several processes. It is an example: copy it.
package tusd

import (
	"context"
	"errors"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// A Locker is a [handler.Locker].
type Locker struct{ Session *holdfast.Session }

// NewLock returns the lock of an upload.
func (l Locker) NewLock(id string) (handler.Lock, error) {
	return &lock{upload: rlock.New(l.Session, "upload:"+id, nil)}, nil
}

type lock struct {
	upload *rlock.Mutex
	hold   *holdfast.Hold
}

// Lock takes the lock, and asks whoever has it to give way; a second later whoever has it by then.
func (l *lock) Lock(ctx context.Context, requestUnlock func()) error {
	hold, err := l.upload.TryLock(ctx)
	for errors.Is(err, holdfast.ErrBusy) {
		if _, err = l.upload.Ask(ctx); err == nil {
			hold, err = l.upload.TryLockFor(ctx, time.Second)
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return handler.ErrLockTimeout
	case err != nil:
		return err
	}
	l.hold = hold
	held := hold.Context(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-hold.Asked():
			requestUnlock()
		case <-held.Done():
			if !errors.Is(context.Cause(held), holdfast.ErrNotHeld) { // lost, or its session is closed
				requestUnlock() // or two requests would write
			}
		}
	}()
	return nil
}

func (l *lock) Unlock() error { return l.hold.Release() }
