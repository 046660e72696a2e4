package several

import (
	"strconv"
	"sync"
	"time"
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
	asks  string    // asks it whether it is another one by now
	links int64     // the session's connections, when it was asked last who it is; or unknown
}

// An age is what a server reports about itself with a grant.
type age struct {
	at    time.Time // then
	links int64     // the session's connections, since before it was asked; or unknown
	up    int64     // seconds; below zero: it does not tell
	run   int64     // which run of the server it is
	mark  int64     // of the server's memory, by which it knows itself again; 0: it has none
}

const (
	asksAll = "age" // asks a server for its age, whichever it is
	unknown = -1    // connections, which may have been others
)

// known is what is known of the server that was last known to have a slot; the zero value if none is.
func (s *servers) known(slot uint16) server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[slot]
}

// age is how to ask the server for its age. As long as the session's connections are what they were, it is the same
// one, and need not tell again, since that takes it as long as the grant. Something between may hide that its own
// connections have ended: then its mark is another one.
func (s *server) age(links int64) string {
	if s.asks == "" || links == unknown || links != s.links {
		return asksAll
	}
	return s.asks
}

// same reports whether the server is the one that it was, and has not told again.
func (a age) same() bool { return a.up == 0 && a.run == 0 }

// ripe is when the server that has granted a lock remembers everything that was granted within a lease: when it has
// been up for as long, and for as long in the place of another one that the session knew. The first grant of each run
// of the server decides that: its clock may be set later on. The first server that does not tell is silent.
func (s *servers) ripe(slot uint16, before server, grant age, length time.Duration) (
	run int64, ripe time.Time, silent bool,
) {
	if grant.same() {
		if grant.links == unknown { // or another one that looks like it
			return 0, grant.at.Add(length), false
		}
		return before.run, before.since.Add(length), false
	}
	up := max(time.Duration(grant.up-1), 0) * time.Second // two seconds may be less than one
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant.up < 0 {
		silent, s.silent = !s.silent, true
		return 0, time.Time{}, silent
	}
	known, seen := s.seen[slot]
	if !seen || known.run != grant.run {
		known = server{run: grant.run, since: grant.at}
		if !seen {
			known.since = grant.at.Add(-up)
		}
	}
	if known.links = grant.links; grant.mark != 0 {
		known.asks = "table: 0x" + strconv.FormatInt(grant.mark, 16)
	}
	if s.seen == nil {
		s.seen = make(map[uint16]server)
	}
	s.seen[slot] = known
	return known.run, known.since.Add(length), false
}
