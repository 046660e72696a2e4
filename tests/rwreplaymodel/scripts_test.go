package rwreplaymodel_test

// An answer is what a script replies.
type answer int8

const (
	none    answer = iota
	granted        // acquire: held, at the target count or above
	busy           // acquire: someone else has it, nothing changed
	late           // acquire: executed after its not-after, nothing changed
	gone           // a nested acquire: nothing there of the owner, nothing changed
	done           // release: the count is the target now, or was lower, or is newer
	nothing        // release: there was nothing of the owner's
)

func (a answer) String() string {
	return [...]string{"none", "granted", "busy", "late", "gone", "done", "nothing"}[a]
}

// run executes a request on the server: one atomic step.
func (r rules) run(s *server, m message) answer {
	switch m.verb {
	case acquireRead:
		return r.runAcquireRead(s, m)
	case releaseRead:
		return r.runReleaseRead(s, m)
	case acquireWrite:
		return r.runAcquireWrite(s, m)
	}
	return r.runReleaseWrite(s)
}

func (r rules) runAcquireRead(s *server, m message) answer {
	ours := s.reads > 0 || s.writes
	switch {
	case !ours && !m.outer:
		return gone
	case !ours && s.writing():
		return busy
	case m.open == 0 && r.notAfter:
		return late
	}
	s.keys |= numbers(m.count, m.count)
	s.reads = max(s.reads, m.count)
	return granted
}

func (r rules) runReleaseRead(s *server, m message) answer {
	switch {
	case s.reads == 0:
		return nothing
	case s.reads <= m.count || m.ceiling > 0 && s.reads > m.ceiling:
		return done
	}
	s.keys &^= numbers(m.count+1, s.reads)
	s.reads = m.count
	if m.count > 0 {
		s.keys |= numbers(1, 1)
	}
	return done
}

func (r rules) runAcquireWrite(s *server, m message) answer {
	switch {
	case !s.free() && !s.writes:
		return busy
	case m.open == 0 && r.notAfter:
		return late
	}
	s.writes = true
	return granted
}

func (r rules) runReleaseWrite(s *server) answer {
	if !s.writes {
		return nothing
	}
	s.writes = false
	if !s.alive() {
		s.reads = 0
	}
	return done
}
