package core

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/script"
)

// stood takes in that an attempt found the lock taken, and where it stands in a queue now.
func (a *acquisition) stood() {
	if a.stand {
		if a.answer.place == placeRegained || a.Stands && a.answer.place == placeNew {
			a.moved = a.answer.place
		}
		a.Stands = true
	}
}

// logPlace logs what an attempt has learned of the place in the queue.
func (a *acquisition) logPlace() {
	log, l, moved := a.lock.session.config.Logger, a.lock, a.moved
	a.moved = placeKept
	switch moved {
	case placeNew:
		log.Warn("holdfast: taken for dead, queued up anew", "kind", l.title(), "name", l.Name, "lease", l.queue.WaiterLease())
	case placeRegained:
		log.Warn("holdfast: dropped from the queue by another client, back in place", "kind", l.title(), "name", l.Name)
	}
}

// leave has the server forget the waiter before the call returns, if its ctx has not ended and
// that is quick: whoever asks again at once must not find a place of its own in the way.
func (a *acquisition) leave(ctx context.Context) {
	s := a.lock.session
	if !a.Stands || ctx.Err() != nil || s.isClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	call := a.lock.undo(a.Wire, a.Number)
	defer call.Free()
	if err := s.runner.Run(ctx, script.Return, call); err == nil && a.Copies == 0 {
		a.Stands = false
	}
}
