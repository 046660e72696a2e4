package core

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
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
	log, l, moved := a.lock.session.Logger(), a.lock, a.moved
	a.moved = placeKept
	switch moved {
	case placeNew:
		log.Warn("holdfast: taken for dead, queued up anew", "kind", l.Title(), "name", l.Name, "lease", l.queue.WaiterLease())
	case placeRegained:
		log.Warn("holdfast: dropped from the queue by another client, back in place", "kind", l.Title(), "name", l.Name)
	}
}

// leave has the server forget the waiter before the call returns, if its ctx has not ended and
// that is quick: whoever asks again at once must not find a place of its own in the way.
func (a *acquisition) leave(ctx context.Context) {
	s := a.lock.session
	if !a.Stands || ctx.Err() != nil || s.Closed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, session.Grace)
	defer cancel()
	call := a.lock.undo(a.Wire, a.Number)
	defer call.Free()
	if err := s.Runner().Run(ctx, script.Return, call); err == nil && a.Copies == 0 {
		a.Stands = false
	}
}
