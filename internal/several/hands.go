package several

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/session"
)

// Hands are goroutines that a session keeps for its calls that are made at the same time as those of other sessions. A
// new one would have to grow its stack for each call, which takes a sixth of the time that a lock takes here.
type hands struct {
	there atomic.Int32
	calls chan func()
}

// mostHands is how many a session keeps.
const mostHands = 16

// do runs a call in one of the session's hands if one is free, else in a goroutine of its own.
func (h *hands) do(s *session.Session, call func()) {
	select {
	case h.calls <- call:
		return
	default:
	}
	if h.there.Add(1) <= mostHands {
		go h.stay(s, call)
		return
	}
	h.there.Add(-1)
	go call()
}

// stay runs a call, and then what comes until the session ends. Close does not wait for it: an observer may close the
// session.
func (h *hands) stay(s *session.Session, call func()) {
	defer h.there.Add(-1) // an observer may end the goroutine
	for {
		call()
		select {
		case call = <-h.calls:
		case <-s.Context().Done():
			return
		}
	}
}
