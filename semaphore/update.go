package semaphore

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An update gives a hold another lease. From when its call may be executed until its outcome is known the hold is
// trusted for the shorter one.
type update struct {
	*core.Single
	d      time.Duration
	doubt  time.Duration // how long one is reckoned with whose outcome is not known
	serves bool          // the call may be executed; otherwise the server refuses it as late, and says its time
	sent   time.Duration // if it serves
	before owner.Belief  // the trust before the call, if it serves
}

// sending is called right before a call with that window is sent; the one before it, if any, has been refused.
func (u *update) sending(w script.Window) {
	if u.serves {
		u.refused()
	}
	u.sent, u.serves = w.Sent, w.NotAfter > 0
	if u.serves {
		u.before = u.Distrust(lease.Trust(u.sent, u.d))
	}
}

// refused makes the hold trusted as before a call that changed nothing.
func (u *update) refused() { u.TrustAgain(u.before, u.before.Unsure, u.before.Unsure, u.before.Until) }

// ended records how the call ended, and returns what that means, and whether another may be sent, as this one was lost
// and had no effect.
func (u *update) ended(done bool, err error) (again bool, _ error) {
	class, now := script.ClassOf(err), u.Session().Now()
	lost := script.InDoubt(err)
	switch {
	case lost && !u.serves: // whatever became of it
		err = &script.Failure{Class: script.Refused, Temporary: script.IsTemporary(err), Err: err}
		return class == script.Unknown && script.IsTemporary(err), err
	case lost: // it may be executed until then
		u.Updated(u.d, u.before, lease.Add(now, u.doubt), u.sent, 0)
	case err != nil && u.serves:
		u.refused()
	case err != nil: // the last call was to be refused, as connections come and go
		return class == script.Refused && script.IsTemporary(err), err
	case !done:
		u.Gone(u.sent)
		return false, holdfast.ErrNotHeld
	default:
		u.Updated(u.d, u.before, now, u.sent, lease.Trust(u.sent, u.d))
		if lost := u.Err(); errors.Is(lost, holdfast.ErrLost) {
			return false, lost
		}
	}
	return false, err
}
