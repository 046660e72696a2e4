package several

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
)

// enough is when a quorum need not wait any longer for all servers that it has asked. When as many as are needed have
// succeeded, or have said that somebody else has the lock, the others get as long again, but no longer than the limit.
// Those who are mute are not waited for if somebody else has the lock on one of the others: their grants would keep
// that one from it meanwhile. Nil waits for all.
type enough struct {
	need    int
	missing int             // of those who are not mute
	mute    []bool          // which servers are; nil: none
	limit   time.Duration   // for how long any is waited for
	ends    <-chan struct{} // closed when the caller waits no longer; nil: never

	began              time.Time
	over               *time.Timer // when to wait no longer
	succeeded, refused int
	taken              bool
}

// begin says what ends the wait besides the outcomes.
func (e *enough) begin() (over <-chan time.Time, ends <-chan struct{}) {
	if e == nil {
		return nil, nil
	}
	e.began, e.over = time.Now(), time.NewTimer(e.limit)
	return e.over.C, e.ends
}

// end is when the wait is over.
func (e *enough) end() {
	if e != nil {
		e.over.Stop()
	}
}

// after records the outcome of a server, and reports whether that is enough.
func (e *enough) after(i int, err error) bool {
	if e == nil {
		return false
	}
	busy := errors.Is(err, session.ErrBusy)
	before := max(e.succeeded, e.refused)
	switch {
	case err == nil:
		e.succeeded++
	case busy:
		e.refused++
	}
	if e.mute == nil || !e.mute[i] {
		e.missing--
	}
	e.taken = e.taken || busy || errors.Is(err, session.ErrAlreadyHeld)
	if before < e.need && max(e.succeeded, e.refused) == e.need {
		took := time.Since(e.began)
		e.over.Reset(min(took, e.limit-took))
	}
	return e.missing == 0 && e.taken
}

// attempt is how long the servers are waited for that are asked for the lock, at most until ends is closed.
func (q *Quorum) attempt(ends <-chan struct{}) *enough {
	e := &enough{need: q.need(), missing: len(q.Locks), limit: q.asking(), ends: ends}
	for i, l := range q.Locks {
		if of(l.Session()).silence.lasts(l.Session()) >= e.limit { // it was waited for in vain
			if e.mute == nil {
				e.mute = make([]bool, len(q.Locks))
			}
			e.mute[i] = true
			e.missing--
		}
	}
	return e
}
