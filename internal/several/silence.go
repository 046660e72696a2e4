package several

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A silence is for how long a server has not answered those who ask it as one of several.
type silence struct {
	since atomic.Int64 // the first call that it has not answered, nor any after that; time.Duration, 0: it has answered
}

// begin says that the server is asked, and returns since when it may be silent because of that; 0: it was silent.
func (s *silence) begin(of *session.Session) (since int64) {
	if s.lasts(of) == 0 {
		since = max(int64(of.Now()), 1)
		s.since.Store(since)
	}
	return since
}

// spare says that the server was not asked after all.
func (s *silence) spare(since int64) { s.since.CompareAndSwap(since, 0) }

// end says that it has answered.
func (s *silence) end() { s.since.Store(0) }

// lasts is for how long the session's server has been silent. Debts to it may have been paid meanwhile.
func (s *silence) lasts(of *session.Session) time.Duration {
	since := time.Duration(s.since.Load())
	if since == 0 || core.DebtsOf(of).Paid() >= since {
		return 0
	}
	return of.Now() - since
}
