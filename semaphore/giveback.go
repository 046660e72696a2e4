package semaphore

import (
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// The replies of a release.
const (
	absent = 0 // one of the permits is not taken
	freed  = 2 // or more: n - 2 clients listen
)

// giveBack gives permits back, whoever holds them, and whether or not the caller's ctx has ended. As a copy of the call
// finds nothing, it is repeated while its outcome is not known. The session's holds of the permits are lost.
func (e *Expirable) giveBack(operation string, permits []string) error {
	ours, doubtful := e.lock.GrantedTo(permits), false
	doubt := func() { // nobody may believe in them any more; the call gives them back, or the session does afterwards
		if !doubtful {
			doubtful = true
			ours.Doubt()
		}
	}
	err := e.lock.Give(operation, session.Gift{
		Call: func() *script.Call { return e.release(permits...) }, Read: e.readRelease,
		Harmless: true, Doubted: doubt, Refused: doubt,
	})
	switch {
	case err == nil || errors.Is(err, holdfast.ErrNotHeld) && len(permits) == 1:
		ours.Lose()
	case doubtful:
		ours.Owe()
	}
	return err
}

// readRelease reads the reply of a call that gives permits back.
func (e *Expirable) readRelease(c *script.Call) error {
	switch n, err := c.ReadInt(); {
	case err != nil:
		return err
	case n == absent:
		return holdfast.ErrNotHeld
	default:
		e.lock.Released(n - freed)
		return nil
	}
}
