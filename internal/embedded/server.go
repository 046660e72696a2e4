// Package embedded is a Redis server inside this process, for tests and demonstrations: miniredis
// behind a listener of our own, which decides what time it is for the server, and what its clients
// get to see.
package embedded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// A Server is one server. Its methods are safe for concurrent use. Close it.
type Server struct {
	redis *miniredis.Miniredis
	addr  string
	wg    sync.WaitGroup // of the goroutines

	turn    sync.Mutex    // held while a command is handed on; guards the next two
	paused  chan struct{} // closed when that is over; nil: it is not paused
	skipped time.Duration // how far the server's clock is ahead

	losesReplies, losesMessages atomic.Bool

	contexts sync.Map // *server.Peer → *contexts, of those who have listened

	mu       sync.Mutex   // guards the rest
	listener net.Listener // nil while stopped
	conns    map[*conn]struct{}
}

// Start starts a server without any keys, on a loopback port of its own.
func Start() (*Server, error) {
	s := &Server{redis: miniredis.NewMiniRedis(), conns: make(map[*conn]struct{})}
	s.redis.SetTime(time.Now())
	s.redis.ClockTTL(true) // leases run out by the clock that TIME reads
	var err error
	for range 100 {
		if s.listener, err = net.Listen("tcp", anyAddr()); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	s.addr = s.listener.Addr().String()
	s.accept(s.listener)
	return s, nil
}

// Ports lie below those that systems give away by themselves, lest a connection, or somebody else's
// server, gets the port of a server that is gone and comes back.
const (
	firstPort = 20000
	ports     = 10000
)

func anyAddr() string { return fmt.Sprintf("127.0.0.1:%d", firstPort+rand.N(ports)) }

// Addr is where clients connect, "127.0.0.1:<port>", the same for the server's whole life.
func (s *Server) Addr() string { return s.addr }

// URL is the same as a URL.
func (s *Server) URL() string { return "redis://" + s.addr }

// Stop takes the server down: connections are cut, and new ones refused; a pause ends. Its data stay, as if on a disk,
// and leases run out.
func (s *Server) Stop() {
	s.cut()
	s.unpause()
}

func (s *Server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return
	}
	_ = s.listener.Close()
	s.listener = nil
	for c := range s.conns {
		c.end()
	}
}

// Runs reports whether the server is not stopped.
func (s *Server) Runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener != nil
}

// Restart brings the server back at its address, with its data. A running server is stopped first.
func (s *Server) Restart() error {
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return fmt.Errorf("embedded server: restart: %w", err)
	}
	s.listener = listener
	s.accept(listener)
	return nil
}

// Close ends the server and waits for its goroutines.
func (s *Server) Close() {
	s.Stop()
	s.wg.Wait()
	s.redis.Close()
}

// accept serves whoever connects.
func (s *Server) accept(listener net.Listener) {
	s.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			if c := s.connect(listener, client); c != nil {
				s.wg.Go(c.run)
			}
		}
	})
}

// connect makes a connection to the server of one to the listener, if that still listens.
func (s *Server) connect(listener net.Listener, client net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	redis, err := s.redis.Dial()
	if err != nil || s.listener != listener {
		_ = client.Close()
		if err == nil {
			_ = redis.Close()
		}
		return nil
	}
	s.redis.Server().SetPreHook(s.before) // from the first connection on
	c := &conn{
		server: s, client: client, redis: redis, replied: make(chan struct{}), done: make(chan struct{}),
		channels: make(map[string]bool),
	}
	s.conns[c] = struct{}{}
	return c
}

// before is called before each command. It says that there is no cluster, in the words of a single server;
// clients would use it as one.
func (s *Server) before(c *server.Peer, command string, args ...string) (done bool) {
	shorten(command, args)
	if command == "CLUSTER" {
		c.WriteError("ERR This instance has cluster support disabled")
		return true
	}
	s.separate(c, slices.Contains(subscriptions, strings.ToLower(command)))
	return false
}

// longest is the longest time to live that miniredis knows, in ms: it keeps a [time.Duration]. A longer one would be
// below zero.
const longest = math.MaxInt64 / int64(time.Millisecond)

// shorten makes a longer time to live that one.
func shorten(command string, args []string) {
	var at int
	switch {
	case strings.EqualFold(command, "PEXPIRE") && len(args) > 1:
		at = 1
	case strings.EqualFold(command, "SET"):
		at = slices.IndexFunc(args, func(word string) bool { return strings.EqualFold(word, "PX") }) + 1
		if at < 3 || at == len(args) {
			return
		}
	default:
		return
	}
	if ms, err := strconv.ParseInt(args[at], 10, 64); err == nil && ms > longest {
		args[at] = strconv.FormatInt(longest, 10)
	}
}

// contexts are what miniredis knows of a connection: one for subscriptions, one for all other commands.
type contexts struct {
	other  any // the one that is not in use
	listen bool
}

// separate lets a connection with RESP3 listen and also take all commands, as on a real server. miniredis refuses them
// to a context that listens.
func (s *Server) separate(c *server.Peer, listen bool) { //nolint:revive // what the command is for
	known, found := s.contexts.Load(c)
	if !found {
		if !listen || !c.Resp3 { // scripts have no RESP3: theirs stays as it is
			return
		}
		known = &contexts{}
		s.contexts.Store(c, known)
		c.OnDisconnect(func() { s.contexts.Delete(c) })
	}
	if both := known.(*contexts); both.listen != listen {
		c.Ctx, both.other, both.listen = both.other, c.Ctx, listen
	}
}

// forget takes a connection that has ended off the list.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
