package several

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
)

// enough is when a quorum need not wait any longer for all servers that it has asked. When as many as are needed have
// succeeded, or have said that somebody else has the lock, the others get as long again. Those who are mute are not
// waited for if somebody else has the lock on one of the others: what they grant meanwhile would keep that one from it.
// Nil waits for all.
type enough struct {
	need    int
	began   time.Time
	mute    []bool // which servers are; nil: none
	missing int    // of those who are not

	succeeded, refused int
	taken              bool
	over               <-chan time.Time
}

// newEnough is that of n servers which are being asked.
func newEnough(need, n int, mute []bool) *enough {
	e := &enough{need: need, began: time.Now(), mute: mute, missing: n}
	for _, mute := range mute {
		if mute {
			e.missing--
		}
	}
	return e
}

// now is over.
var now = func() <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}()

// after records the outcome of a server, and returns when to wait no longer, as far as that is known.
func (e *enough) after(i int, err error) <-chan time.Time {
	if e == nil {
		return nil
	}
	busy := errors.Is(err, session.ErrBusy)
	switch {
	case err == nil:
		e.succeeded++
	case busy:
		e.refused++
	}
	if !e.isMute(i) {
		e.missing--
	}
	e.taken = e.taken || busy || errors.Is(err, session.ErrAlreadyHeld)
	switch {
	case e.missing == 0 && e.taken:
		e.over = now
	case e.over == nil && max(e.succeeded, e.refused) == e.need:
		e.over = time.After(time.Since(e.began))
	}
	return e.over
}

func (e *enough) isMute(i int) bool { return e.mute != nil && e.mute[i] }

// explain says of the mute servers that they have not answered.
func (e *enough) explain(errs []error) []error {
	for i, err := range errs {
		if e.isMute(i) && err == errUndone { //nolint:errorlint // nobody wraps it
			errs[i] = session.Unknown(errNoAnswer)
		}
	}
	return errs
}

// mute are the servers that have not answered any call for as long as they would be waited for.
func (q *Quorum) mute() []bool {
	mute := make([]bool, len(q.Locks))
	for i, l := range q.Locks {
		mute[i] = of(l.Session()).silence.lasts(l.Session()) >= q.timeout(l.Length())
	}
	return mute
}
