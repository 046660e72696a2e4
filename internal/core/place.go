package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// placed records that an attempt found the lock taken, and its place in the queue, if it has one.
func (a *acquisition) placed(stands bool) {
	switch {
	case a.lock.lined:
		a.waits(stands && a.answer.place() >= 0)
		a.Stands = a.Stands || stands // without a line, readers may wait behind it all the same
	case stands:
		a.answer.moved = moved{place: int32(a.answer.place()), stood: a.Stands || a.answer.moved.stood}
		a.hears = a.answer.others()
		a.Waits(a.answer.Sent, a.answer.signs)
	}
}

// moved takes what a reply says of a waiter's place.
type moved struct {
	place int32 // one of the few that the script lists
	stood bool  // already before
}

// tellPlace tells the queue what has become of the place in it.
func (a *acquisition) tellPlace() {
	if m := a.answer.moved; m.place != 0 {
		a.answer.moved = moved{}
		a.lock.apart().Moved(int64(m.place), m.stood)
	}
}

// leave makes the server forget the waiter before the call returns, if its ctx has not ended and that is quick, also if
// the call woke up late: a caller that asks again at once must not find its own place in the way.
func (a *acquisition) leave(ctx context.Context, over time.Duration) {
	s := a.lock.Session()
	if !a.Stands || a.Stood == 0 || ctx.Err() != nil || s.Closed() { // 0: perhaps it does not stand
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(session.Grace, max(over-s.Now(), session.Grace/5)))
	defer cancel()
	call := a.lock.Undo(a.Wire, int(a.Number))
	defer call.Free()
	a.Stands = s.Runner().Run(ctx, script.Return, call) != nil || a.Copies > 0
}
