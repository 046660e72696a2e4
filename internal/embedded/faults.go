package embedded

import (
	"strings"
	"time"
)

// Pause makes the server stand still: connections stay open, and nothing is executed until Resume.
func (s *Server) Pause() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.paused == nil {
		s.paused = make(chan struct{})
	}
}

// DropReplies cuts the connection instead of sending a script's reply, after it was executed, until Resume.
func (s *Server) DropReplies() { s.losesReplies.Store(true) }

// DropMessages keeps published messages from being delivered until Resume.
func (s *Server) DropMessages() { s.losesMessages.Store(true) }

// Resume ends Pause, DropReplies and DropMessages.
func (s *Server) Resume() {
	s.losesReplies.Store(false)
	s.losesMessages.Store(false)
	s.unpause()
}

func (s *Server) unpause() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.paused != nil {
		close(s.paused)
		s.paused = nil
	}
}

// Answers reports whether clients get replies.
func (s *Server) Answers() bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.paused == nil && !s.losesReplies.Load() && s.Runs()
}

// Forget removes all keys.
func (s *Server) Forget() { s.redis.FlushAll() }

// Advance puts the server's clock forward. No command is handed on while meanwhile is called, which may put other
// clocks forward as far, and no more: what it calls could not ask the server. Then it calls after, and tells all
// subscribers to look.
func (s *Server) Advance(d time.Duration, meanwhile, after func()) {
	s.jump(d, meanwhile)
	after()
	for _, channel := range s.redis.PubSubChannels("") {
		if strings.HasPrefix(channel, "redisson_") || strings.HasPrefix(channel, "holdfast_") {
			s.redis.Publish(channel, wakeUp) // the other channels are the program's own
		}
	}
}

// wakeUp is the message that stands for the timers of those who wait: they do not jump, and so the message
// is delivered even while others are not.
const wakeUp = "the clock was put forward"

func (s *Server) jump(d time.Duration, meanwhile func()) {
	s.turn.Lock()
	defer s.turn.Unlock()
	meanwhile()
	s.skipped += d
	s.setTime()
}

// setTime makes it now for the server. The turn is held. The clock is set before each command and not left
// to run, because then it stands still during a script, as on a real server: there a key that a script has
// seen cannot expire before the script is done with it.
func (s *Server) setTime() { s.redis.SetTime(time.Now().Add(s.skipped)) }
