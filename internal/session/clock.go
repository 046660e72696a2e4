package session

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// A clock counts the moments of a session from its beginning, on the monotonic clock. Tests may put
// it forward.
type clock struct {
	base    time.Time
	skipped atomic.Int64 // time.Duration that has not passed
}

// ahead is how far it was put forward.
func (c *clock) ahead() time.Duration { return time.Duration(c.skipped.Load()) }

// Now is the present moment, counted from the session's beginning.
func (s *Session) Now() time.Duration { return time.Since(s.clock.base) + s.clock.ahead() }

// Time is when the moment is, or was.
func (s *Session) Time(moment time.Duration) time.Time {
	return s.clock.base.Add(moment - s.clock.ahead())
}

// Moment returns the moment of t.
func (s *Session) Moment(t time.Time) time.Duration {
	return lease.Add(t.Sub(s.clock.base), s.clock.ahead())
}

// Skip makes the session believe that d has passed at once. It is for tests on a server whose clock is put forward as
// far.
func (s *Session) Skip(d time.Duration) { s.clock.skipped.Add(int64(d)) }
