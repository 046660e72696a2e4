package session

import (
	"sync/atomic"
	"time"
)

// A clock counts the moments of a session from its beginning, on the monotonic clock. Tests may put
// it forward.
type clock struct {
	base    time.Time
	skipped atomic.Int64 // time.Duration that has not passed
}

// now is the present moment.
func (c *clock) now() time.Duration { return time.Since(c.base) + time.Duration(c.skipped.Load()) }

// time is when the moment is, or was.
func (c *clock) time(moment time.Duration) time.Time {
	return c.base.Add(moment - time.Duration(c.skipped.Load()))
}

// moment returns the moment of t.
func (c *clock) moment(t time.Time) time.Duration {
	return t.Sub(c.base) + time.Duration(c.skipped.Load())
}

// Now is the present moment, counted from the session's beginning.
func (s *Session) Now() time.Duration { return s.clock.now() }

// Time is when the moment is, or was.
func (s *Session) Time(moment time.Duration) time.Time { return s.clock.time(moment) }

// Moment returns the moment of t.
func (s *Session) Moment(t time.Time) time.Duration { return s.clock.moment(t) }

// Skip makes the session believe that d has passed at once. It is for tests on a server whose clock is put forward as
// far.
func (s *Session) Skip(d time.Duration) { s.clock.skipped.Add(int64(d)) }
