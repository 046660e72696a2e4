package core

import (
	"sync/atomic"
	"time"
)

// A silence is for how long a server has not answered those who ask it as one of several.
type silence struct {
	since atomic.Int64 // the first call that it has not answered, nor any after that; time.Duration, 0: it has answered
}

// begin says that the server is asked.
func (s *silence) begin(now time.Duration) { s.since.CompareAndSwap(0, max(int64(now), 1)) }

// end says that it has answered.
func (s *silence) end() { s.since.Store(0) }

// lasts is for how long it has been silent.
func (s *silence) lasts(now time.Duration) time.Duration {
	since := time.Duration(s.since.Load())
	if since == 0 {
		return 0
	}
	return now - since
}
