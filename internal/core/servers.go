package core

import (
	"sync"
	"time"
)

// servers is what a session knows of the servers that have granted it locks, where it matters whether
// they remember what they have granted to others.
type servers struct {
	mu     sync.Mutex // guards the rest
	seen   map[uint16]server
	silent bool // one does not tell how long it has been up
}

// A server is one, or what stands behind a slot.
type server struct {
	run   int64
	since time.Time // it remembers what it has granted from then on
}

// ripe is when the server that has granted a lock remembers everything that was granted within a lease:
// when it has been up for as long, and for as long in the place of another one that the session knew. The
// first grant of each run of the server decides that: its clock may be set later on. The first that does not
// tell is silent.
func (s *servers) ripe(l *Lock, grant *answer, length time.Duration) (ripe time.Time, silent bool) {
	at, up := l.session.clock.time(grant.at), max(time.Duration(grant.up-1), 0)*time.Second // two seconds may be less than one
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant.up < 0 {
		silent, s.silent = !s.silent, true
		return time.Time{}, silent
	}
	known, seen := s.seen[l.slot]
	if !seen || known.run != grant.run {
		known = server{run: grant.run, since: at}
		if !seen {
			known.since = at.Add(-up)
		}
		if s.seen == nil {
			s.seen = make(map[uint16]server)
		}
		s.seen[l.slot] = known
	}
	return known.since.Add(length), false
}
