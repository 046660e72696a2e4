package several

import (
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// kept is the state that a session keeps for locks that are one of several.
type kept struct {
	servers servers
	ways    ways
	silence silence
	hands   hands
}

func of(s *session.Session) *kept {
	return session.Attached(s, func(*session.Session) *kept {
		return &kept{hands: hands{calls: make(chan func())}}
	})
}

// ways are given to other processes: until then no call of this process asks for a lock that the process has just
// released.
type ways struct {
	mu    sync.Mutex // guards the rest
	until map[wait.Name]time.Time
	limit int // of until; then those that are over are dropped
}

func (w *ways) give(name wait.Name, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until == nil {
		w.until = make(map[wait.Name]time.Time)
	}
	if len(w.until) >= w.limit {
		maps.DeleteFunc(w.until, func(_ wait.Name, until time.Time) bool { return time.Until(until) <= 0 })
		w.limit = max(64, 2*len(w.until))
	}
	w.until[name] = until
}

// left is for how much longer others have the way.
func (w *ways) left(name wait.Name) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := time.Until(w.until[name])
	if left <= 0 {
		delete(w.until, name)
	}
	return max(left, 0)
}
