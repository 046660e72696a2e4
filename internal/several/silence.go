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

// begin says that the server is asked.
func (s *silence) begin(of *session.Session) {
	if s.lasts(of) == 0 {
		s.since.Store(max(int64(of.Now()), 1))
	}
}

// end says that it has answered.
func (s *silence) end() { s.since.Store(0) }

// lasts is for how long the session's server has been silent. Debts to it may have been paid meanwhile.
func (s *silence) lasts(of *session.Session) time.Duration {
	since := time.Duration(s.since.Load())
	if since == 0 || core.Paid(of) >= since {
		return 0
	}
	return of.Now() - since
}
