// Package p21 is an upload that its user may continue on another server: the one that has it gives way.
package p21

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

var ErrGaveWay = errors.New("somebody else continues the upload")

// Upload stores parts until there are no more, or somebody else asks for the upload.
func Upload(ctx context.Context, l *rlock.Mutex, store func(context.Context) (more bool, err error)) error {
	hold, err := l.TryLock(ctx)
	if errors.Is(err, holdfast.ErrBusy) {
		if _, err := l.Ask(ctx); err != nil {
			return err
		}
		hold, err = l.Lock(ctx)
	}
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)
	for {
		select {
		case <-hold.Asked():
			return ErrGaveWay
		default:
		}
		if more, err := store(ctx); err != nil || !more {
			return err
		}
	}
}
