package several

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
)

// servers has a session's knowledge of the servers that have granted it locks, if it matters whether they remember
// grants to others.
type servers struct {
	mu     sync.Mutex // guards the rest
	seen   map[uint16]server
	silent bool // one does not say how long it has been up
}

// A server is one, or what stands behind a slot.
type server struct {
	run   int64
	since time.Time // it remembers its grants from then on
}

// An age is what a server reports about itself with a grant.
type age struct {
	at  time.Time // then
	up  int64     // seconds; below zero: it does not tell
	run int64     // which run of the server it is
}

// Aging reports whether the server can be asked for its age when it grants the lock.
func Aging(l *core.Lock) bool {
	if l == nil {
		return false
	}
	_, aging := l.Protocol().(kind.Aging)
	return aging
}

// run is that of the server that was last known to have a slot; 0 if none is.
func (s *servers) run(slot uint16) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[slot].run
}

// ripe is when the server that has granted a lock remembers everything that was granted within a lease: when it has
// been up for as long, and for as long in the place of another one that the session knew. The first grant of each run
// of the server decides that: its clock may be set later on. The first server that does not tell is silent.
func (s *servers) ripe(slot uint16, grant age, length time.Duration) (ripe time.Time, silent bool) {
	up := max(time.Duration(grant.up-1), 0) * time.Second // two seconds may be less than one
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant.up < 0 {
		silent, s.silent = !s.silent, true
		return time.Time{}, silent
	}
	known, seen := s.seen[slot]
	if !seen || known.run != grant.run {
		known = server{run: grant.run, since: grant.at}
		if !seen {
			known.since = grant.at.Add(-up)
		}
		if s.seen == nil {
			s.seen = make(map[uint16]server)
		}
		s.seen[slot] = known
	}
	return known.since.Add(length), false
}
