package session

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Held is something that a session holds.
type Held struct {
	Label *Label
	Line  wait.Name
	Of    Identified
	For   time.Duration // how long so far
	Taken Place         // nil unless that was noted

	Ownerless bool // a permit
}

// never is before everything that has ever been held.
const never = time.Duration(-1)

// lookForLong logs, once, each hold that has lasted longer than Options.LongHold. A hold has no timer for that, nor a
// mark: each look is for those that have crossed the limit since the last one.
func (s *Session) lookForLong() {
	limit := s.config.LongHold
	for looked := never; Pause(s.ctx, limit/8) == nil; {
		then := s.Now() - limit
		if k := s.kept(); k != nil && then > looked {
			k.HeldSince(looked, then, s.logLong)
			looked = then
		}
	}
}

func (s *Session) logLong(h Held) {
	s.Logger().Warn("holdfast: held for long", "kind", h.Label.Title(),
		"name", h.Label.Name,
		"held", h.For.Round(time.Millisecond), "note", s.presence.NoteOf(h.Of.ID()), "taken_at", h.Taken.orHow())
}

// LogUnreachable logs that nobody can release the hold, and that it is given back.
func (s *Session) LogUnreachable(h Held) {
	s.Logger().Warn("holdfast: unreachable without a release, and given back", "kind", h.Label.Title(),
		"name", h.Label.Name,
		"held", h.For.Round(time.Millisecond), "note", s.presence.NoteOf(h.Of.ID()), "taken_at", h.Taken.orHow())
}
