package replaymodel_test

// An answer is what a script replies.
type answer int8

const (
	none    answer = iota
	granted        // acquire: the lock is the owner's, at the target count or above
	busy           // acquire: someone else has it, nothing changed
	late           // acquire: executed after its not-after, nothing changed
	gone           // acquire, as a re-entry: the outer hold is not there, nothing changed
	done           // release: the owner's count is the target now
	nothing        // release: there was nothing of the owner's
)

func (a answer) String() string {
	return [...]string{"none", "granted", "busy", "late", "gone", "done", "nothing"}[a]
}

// run executes a request on the server: one atomic step.
func (r rules) run(s *server, m message) answer {
	if m.verb == acquire {
		return r.runAcquire(s, m)
	}
	return r.runRelease(s, m)
}

func (r rules) runAcquire(s *server, m message) answer {
	reentry := m.count > 1
	switch {
	case m.open == 0 && (r.notAfter && !reentry || r.notAfterToo && reentry):
		return late
	case s.owner == m.owner && !r.targetCounts && s.count != m.count && s.count != m.count-1:
		return busy // neither the expected count nor a replay
	case s.owner == m.owner:
		s.count = max(s.count, m.count)
	case reentry && (s.owner != nobody || r.neverRecreate || !r.targetCounts):
		return gone
	case s.owner != nobody:
		return busy
	default:
		s.owner, s.count = m.owner, m.count
	}
	s.ttl, s.remains = lease, false
	return granted
}

func (r rules) runRelease(s *server, m message) answer {
	switch {
	case s.owner != m.owner:
		return nothing
	case !r.targetCounts && s.count != m.count+1:
		return done // taken for a replay: not the count to start from
	case m.count == 0:
		*s = server{}
	default:
		s.count = m.count
	}
	return done
}
