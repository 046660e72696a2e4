package semaphore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adopt"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Release gives permits back by their ids, which [holdfast.Hold.ID] and Java's acquire return: all of them, or none. It
// returns [holdfast.ErrNotHeld] if one of them is not taken: it was given back before, its lease has ended, or no
// permit has that id. A hold of one of these permits is lost. A holder in this session is told at once; one elsewhere
// learns of it by its next renewal, or at its release if it is not renewed. A hold is best given back by its own
// Release. It corresponds to release(permitId) and release(permitsIds); tryRelease is the same.
//
// It is sent even if ctx has ended, because the permits would stay taken otherwise, and returns within a third of the
// session's lease and within 5 s. A permit can come back only once, so the call is repeated if the reply is lost. It
// returns [holdfast.ErrUnknown] if the permits turn out to be back by then, since somebody else may have given them
// back, and if the server cannot be reached, or refuses, for example because it cannot write to its disk. Holds of this
// session are then lost in any case, and all permits go back one by one in the background.
func (e *Expirable) Release(_ context.Context, ids ...string) error {
	const operation = "release"
	if len(ids) > maxAtOnce {
		return e.lock.Fail(operation, fmt.Errorf("ids are %d, must be at most %d", len(ids), maxAtOnce))
	}
	permits := make([]string, len(ids))
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		permit, err := permitOf(id)
		switch {
		case err != nil:
			return e.lock.Fail(operation, err)
		case seen[permit]:
			return e.lock.Fail(operation, fmt.Errorf("permit id %q is given twice", id))
		}
		permits[i], seen[permit] = permit, true
	}
	if len(ids) == 0 {
		return e.lock.Mistake(operation)
	}
	return e.giveBack(operation, permits)
}

// release is the call that gives permits back, and takes the entry stands out of the line, if it is not empty.
func (e *Expirable) release(stands string, permits ...string) *script.Call {
	return e.permits.publishing(e.call(releaseExpirableScript)).Arg(stands).Arg(permits...)
}

// giveBack gives permits back, whoever holds them, and whether or not the caller's ctx has ended. A copy of the call
// does no harm, so it is repeated while its outcome is not known. The session's holds of the permits are lost.
func (e *Expirable) giveBack(operation string, permits []string) error {
	ours, doubtful := e.lock.GrantedTo(permits), false
	doubt := func() { // nobody may trust them any more; the call gives them back, or the session does afterwards
		if !doubtful {
			doubtful = true
			ours.Doubt()
		}
	}
	err := e.lock.Give(operation, session.Gift{
		Call: func() *script.Call { return e.release("", permits...) }, Read: e.readRelease,
		Harmless: true, Doubted: doubt, Refused: doubt,
	})
	switch {
	case err == nil || errors.Is(err, holdfast.ErrNotHeld) && len(permits) == 1:
		ours.Lose()                                           // also those that a doubt has ended
		e.allOf(permits, func(gs core.Granted) { gs.Lose() }) // no permit's id is used again
	case doubtful:
		ours.Owe() // before that, as a permit that sets out afterwards finds the debt
		e.allOf(permits, func(gs core.Granted) { gs.Doubt() })
	}
	return err
}

// allOf calls do for what this session has of permits, also of those that are being handed to it.
func (e *Expirable) allOf(permits []string, do func(gs core.Granted)) {
	adopt.ArrivalsOf(e.lock.Session()).Then(permits, 0, func(time.Duration) { do(e.lock.GrantedTo(permits)) })
	do(e.lock.GrantedTo(permits))
}

// readRelease reads the reply of a call that gives permits back.
func (e *Expirable) readRelease(c *script.Call) error {
	n, err := c.ReadInt()
	if err != nil {
		return err
	}
	done := owner.ReadReleased(n)
	if done.Outcome == owner.Absent { // one of the permits is not taken
		return holdfast.ErrNotHeld
	}
	e.lock.Released(done.Heard)
	return nil
}
