package model_test

import (
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// A server holds the lock: what a wire owner of the session has, and what X has, which stands for everybody else.
type server struct {
	owner  int8 // the wire owner that has the following; 0: the session holds nothing
	writes int8 // hold count of the exclusive half
	reads  int8 // hold count of the shared half
	keys   uint16
	ttl    int8 // ticks left
	x      someone

	remains bool // history: its last holder here has ended by the clock; the rest ends with its lease
}

// someone tells whether X reads, writes or does nothing.
type someone int8

const (
	nothingOfX someone = iota
	xReads
	xWrites
)

// free reports whether nobody has the lock.
func (s *server) free() bool { return s.owner == 0 && s.x == nothingOfX }

// writing reports whether the lock is in write mode.
func (s *server) writing() bool { return s.writes > 0 || s.x == xWrites }

// alive reports whether one of the counted holds has a key.
func (s *server) alive() bool { return s.keys&bits(1, s.reads) != 0 }

// bits returns the keys from one number to another.
func bits(from, to int8) (b uint16) {
	for n := from; n <= to; n++ {
		b |= 1 << n
	}
	return b
}

// A message is a request to run a script.
type message struct {
	verb    verb
	half    owner.Half
	owner   int8 // wire owner
	count   int8 // the target; for an acquisition of the shared half, the number of its hold
	ceiling int8 // for a release of the shared half
	lease   int8 // in ticks: what a trim leaves of it, what others ask for
	nested  bool // for an acquisition: it must find something of its wire owner
	open    int8 // for an acquisition or a trim: ticks until its not-after has passed
}

func (m message) String() string {
	half := ""
	if m.half == owner.Shared {
		half = " shared"
	}
	switch m.verb {
	case acquire:
		return fmt.Sprintf("acquire%s(#%d→%d)", half, m.owner, m.count)
	case release:
		text := fmt.Sprintf("release%s(#%d→%d)", half, m.owner, m.count)
		if m.ceiling > 0 {
			text += ", ceiling " + strconv.Itoa(int(m.ceiling))
		}
		return text
	case renew:
		return fmt.Sprintf("renew(#%d for %d)", m.owner, m.lease)
	case trim:
		return fmt.Sprintf("trim(#%d to %d)", m.owner, m.lease)
	}
	return ""
}

type verb int8

const (
	noVerb verb = iota
	acquire
	release
	renew // also Extend
	trim
)

// An answer is what a script replies.
type answer int8

const (
	none    answer = iota
	granted        // acquire: held, at the target count or above; renew: the lease is as long, or longer
	busy           // acquire: someone else has it, nothing changed
	late           // acquire, trim: executed after its not-after, or a trim too early; nothing changed
	gone           // a nested acquire, renew: the owner has nothing there, nothing changed
	done           // release: the count is now the target, or was lower, or is newer; trim: the lease is no longer
	nothing        // release, trim: the owner had nothing
)

func (a answer) String() string {
	return [...]string{"", "granted", "busy", "late", "gone", "done", "nothing"}[a]
}

// run executes a request on the server: one atomic step.
func (r rules) run(s *server, m message) answer {
	switch {
	case m.verb == renew:
		return renewLease(s, m)
	case m.verb == trim:
		return r.trimLease(s, m)
	case m.verb == acquire && m.half == owner.Shared:
		return r.acquireShared(s, m)
	case m.verb == acquire:
		return r.acquireExclusive(s, m)
	case m.half == owner.Shared:
		return r.releaseShared(s, m)
	}
	return r.releaseExclusive(s, m)
}

// acquireExclusive is rlock_acquire and rwlock_acquire_write.
func (r rules) acquireExclusive(s *server, m message) answer {
	ours := s.owner == m.owner && s.writes > 0
	switch {
	case !ours && m.nested && (!s.free() || r.neverRecreate || !r.targetCounts):
		return gone
	case !ours && !s.free():
		return busy
	case m.open <= 0 && (r.notAfter && !m.nested || r.notAfterToo && m.nested):
		return late
	case ours && !r.targetCounts && s.writes != m.count && s.writes != m.count-1:
		return busy // neither the expected count nor a replay
	}
	s.owner, s.writes = m.owner, max(s.writes, m.count)
	s.ttl, s.remains = max(s.ttl, m.lease), false
	return granted
}

// releaseExclusive is rlock_release and rwlock_release_write.
func (r rules) releaseExclusive(s *server, m message) answer {
	switch {
	case s.owner != m.owner || s.writes == 0:
		return nothing
	case !r.targetCounts && s.writes != m.count+1:
		return done // taken for a replay: not the expected count
	}
	s.writes = min(s.writes, m.count)
	if s.writes == 0 && !s.alive() {
		s.clear()
	}
	return done
}

// acquireShared is rwlock_acquire_read.
func (r rules) acquireShared(s *server, m message) answer {
	ours := s.owner == m.owner
	switch {
	case !ours && m.nested:
		return gone
	case !ours && s.writing():
		return busy
	case m.open <= 0 && r.notAfter:
		return late
	}
	s.owner = m.owner
	s.keys |= bits(m.count, m.count)
	s.reads = max(s.reads, m.count)
	return granted
}

// releaseShared is rwlock_release_read.
func (r rules) releaseShared(s *server, m message) answer {
	switch {
	case s.owner != m.owner || s.reads == 0:
		return nothing
	case s.reads <= m.count || m.ceiling > 0 && s.reads > m.ceiling:
		return done
	}
	s.keys &^= bits(m.count+1, s.reads)
	s.reads = m.count
	if m.count > 0 {
		s.keys |= bits(1, 1)
	} else if s.writes == 0 {
		s.clear()
	}
	return done
}

// renewLease is lock_renew.
func renewLease(s *server, m message) answer {
	if s.owner != m.owner || m.half == owner.Shared && !s.alive() {
		return gone
	}
	s.ttl = max(s.ttl, m.lease)
	return granted
}

// trimLease is lock_trim.
func (r rules) trimLease(s *server, m message) answer {
	switch {
	case s.owner != m.owner:
		return nothing
	case r.notAfter && m.open <= 0 || r.notBefore && m.open > trimFor:
		return late
	}
	s.ttl = min(s.ttl, m.lease)
	return done
}

// clear removes what the session has.
func (s *server) clear() { *s = server{x: s.x} }
