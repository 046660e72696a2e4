package holdfasttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/embedded"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Server is an embedded server, which belongs to one test. Its methods may be called from any goroutine,
// but Open only from the test's own, since it may end the test.
type Server struct {
	t     testing.TB
	redis *embedded.Server

	mu       sync.Mutex // guards sessions
	sessions []*holdfast.Session
}

// NewServer starts a server without any keys. When the test is over, after the cleanups that were
// registered later, the sessions that [Server.Open] has opened are closed, and the server is.
func NewServer(t testing.TB) *Server {
	t.Helper()
	redis, err := embedded.Start()
	if err != nil {
		t.Fatalf("holdfasttest: %v", err)
	}
	s := &Server{t: t, redis: redis}
	t.Cleanup(s.close)
	return s
}

// Addr is where to connect, "127.0.0.1:<port>", for other processes and other clients. It stays the same.
func (s *Server) Addr() string { return s.redis.Addr() }

// URL is the same as "redis://127.0.0.1:<port>".
func (s *Server) URL() string { return s.redis.URL() }

// Open returns a session on the server; nil options mean defaults. It is closed with the server. Each
// session is to the server what a program of its own is, so two of them exclude each other as two programs
// do. Of the sessions on the server, these are the ones that [Server.Advance] reaches.
func (s *Server) Open(opts *holdfast.Options) *holdfast.Session {
	s.t.Helper()
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, opts)
	if err != nil {
		s.t.Fatalf("holdfasttest: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, session)
	return session
}

// opened returns the sessions opened so far.
func (s *Server) opened() []*holdfast.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[:len(s.sessions):len(s.sessions)]
}

// close gives everything back. The server works again before it does, because a session that cannot
// reach its server waits for it.
func (s *Server) close() {
	s.redis.Resume()
	if !s.redis.Runs() {
		_ = s.redis.Restart() // its port may be taken by now
	}
	var wg sync.WaitGroup
	for _, opened := range s.opened() {
		wg.Go(func() { _ = opened.Close() })
	}
	wg.Wait()
	s.redis.Close()
}

const decade = 10 * 365 * 24 * time.Hour

// Advance lets time pass at once, for the server and for the sessions that [Server.Open] has opened, as if all of
// them had been asleep that long:
//
//   - Leases that end meanwhile are over on the server, and holds that had them are lost, when Advance returns.
//   - Holds that are due for renewal and still have some lease left are renewed when Advance returns, unless
//     the server does not answer. A hold that was granted by another session's release has 9.5 s until its first
//     renewal, which is due after a third of that; see [holdfast.Acquired].Granted.
//   - Waiters look again at once, unless they poll. A waiter in a fair lock's queue that was asleep for longer
//     than its WaiterLease has lost its place and gets another one.
//
// Contexts, the time that a call waits, and the pauses of an rlock.Options.Backoff follow the real clock, which stands
// still meanwhile: a waiter that polls looks when its pause is over. Sessions that were opened in another way, for
// instance in other processes, follow that clock too: they believe in leases that the server has dropped, like a
// process that was stopped or whose clock is slow.
//
// A negative time fails the test, and so does one of more than ten years.
func (s *Server) Advance(d time.Duration) {
	s.t.Helper()
	if d < 0 || d > decade { // in some centuries no clock could tell the time
		s.t.Errorf("holdfasttest: Advance: the time is %v, must be from 0 to %v", d, decade)
		return
	}
	sessions := s.opened()
	s.redis.Advance(d, func() {
		for _, opened := range sessions {
			(*session.Session)(opened).Skip(d)
		}
	}, func() { // observers and loggers may do what they like then
		for _, opened := range sessions {
			core.CatchUp((*session.Session)(opened))
		}
	})
	s.settle(sessions)
}

// settle waits until all losses have been told and nothing is overdue; for two seconds, in case renewals are refused,
// or whoever is told of a loss is waiting for this. It counts looks, since a machine may stand still for that long.
func (s *Server) settle(sessions []*holdfast.Session) {
	left, look := 4000, time.NewTicker(time.Millisecond/2)
	defer look.Stop()
	for _, opened := range sessions {
		for o := (*session.Session)(opened); core.Telling(o) || core.Overdue(o) && s.redis.Answers(); left-- {
			if left == 0 {
				return
			}
			<-look.C
		}
	}
}

// Lose makes everything of that name lost that sessions of [Server.Open] hold, as [Lose] does with one hold. It
// reaches whatever the code under test has taken itself, permits and members of a multilock included. The name is the
// lock's own, before any mapping. Lose fails the test if nobody holds it.
func (s *Server) Lose(name string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), losing)
	defer cancel()
	lost := 0
	for _, opened := range s.opened() {
		lost += core.Lose(ctx, (*session.Session)(opened), name, errOnPurpose)
	}
	if lost == 0 {
		s.t.Errorf("holdfasttest: Lose: no session of the server's holds %q", name)
	}
}

// Forget removes all keys, like a server that restarts and has kept nothing. Nothing is published.
func (s *Server) Forget() { s.redis.Forget() }

// Stop takes the server down: it cuts connections and refuses new ones until [Server.Restart]. Its keys stay, as if on
// a disk, and expire as time passes.
func (s *Server) Stop() { s.redis.Stop() }

// Restart starts a stopped server at the same address and with its keys. It stops a running one first. For a restart
// that loses everything call Forget before. When Restart returns, the sessions of [Server.Open] have connected again.
// Holders of what it has lost are told soon after that.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.redis.Restart(); err != nil {
		s.t.Errorf("holdfasttest: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, opened := range s.opened() {
		(*session.Session)(opened).Reach(ctx)
	}
}

// Pause makes the server stand still until [Server.Resume]: it accepts connections and commands, and executes nothing.
// Commands that are still there by then are executed.
func (s *Server) Pause() { s.redis.Pause() }

// DropReplies loses the replies of scripts, and every call of a lock is one, until [Server.Resume]: the server executes
// the script and cuts the connection.
func (s *Server) DropReplies() { s.redis.DropReplies() }

// DropMessages loses published messages, which tell waiters of releases in other sessions, until [Server.Resume]. Time
// that passes by Advance wakes waiters all the same, as their timers would.
func (s *Server) DropMessages() { s.redis.DropMessages() }

// Resume ends Pause, DropReplies and DropMessages.
func (s *Server) Resume() { s.redis.Resume() }
