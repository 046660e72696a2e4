// Package redistest starts real Redis servers for tests and observes them from outside.
//
// Every server is a child process of the test binary, on a loopback port of its own, with an empty data set in a
// temporary folder. Nothing is shared between tests or assumed to run already, and nothing outlives the test that
// started it: not the process, not the folder, not a goroutine.
//
// A test learns about a server over connections of this package, through a plain RESP2 client, so a fault of the
// client under test cannot hide itself.
//
// Functions that take a testing.TB may end the test and belong in the test's own goroutine. Methods without one
// may be called from any goroutine.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/child"
)

// Server is one redis-server process.
type Server struct {
	t     testing.TB
	dir   string
	port  int
	args  []string
	clock *clock // nil: the machine's

	mu      sync.Mutex // guards process, and whether it is paused
	process *process

	observer observer
	calls    func() map[string]int64 // see Attach; nil: INFO commandstats says so
}

// process is one run of a server; exited is closed once it has been waited for.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	paused bool
}

// Start starts a server and returns once it answers. The arguments are added to its command line, so
// Start(t, "--maxmemory", "10mb") sets an option; without any, nothing is persisted.
// The server is killed when the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, nil, standalone(args))
}

// standalone makes the arguments of a server with an empty data set of its own.
func standalone(args []string) func(port int, dir string) []string {
	return func(port int, dir string) []string {
		return append([]string{
			"--port", strconv.Itoa(port),
			"--bind", "127.0.0.1",
			"--dir", dir,
			"--save", "",
			"--appendonly", "no",
		}, args...)
	}
}

// start picks a port and starts a server with the arguments that the callback makes of port and folder. A port is
// free only until somebody else takes it, so a server that ends at once is tried again on another port.
func start(t testing.TB, c *clock, args func(port int, dir string) []string) *Server {
	t.Helper()
	const attempts = 3
	var err error
	for range attempts {
		dir := t.TempDir() // removed after the cleanup below has killed the server
		port := FreePort(t)
		s := &Server{t: t, dir: dir, port: port, args: args(port, dir), clock: c}
		s.observer.addr = s.Addr()
		if err = s.launch(); err == nil {
			t.Cleanup(s.Stop)
			return s
		}
		s.Stop()
		if !errors.Is(err, errExited) {
			break
		}
	}
	t.Fatal(err)
	return nil
}

// Addr returns the server's host and port, which never change.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Stop kills the server as kill -9 would, and returns once it is gone. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observer.drop()
	if s.process == nil {
		return
	}
	_ = s.process.cmd.Process.Kill() // fails only if it has ended by itself
	<-s.process.exited
	s.process = nil
}

// Restart stops the server if it runs and starts it again on the same port, empty unless its arguments turn
// persistence on. It returns once the server answers; a failure fails the test.
func (s *Server) Restart() {
	s.Stop()
	if err := s.launch(); err != nil {
		s.t.Error(err)
	}
}

// Pause freezes the process with SIGSTOP: connections stay open and the kernel still accepts bytes for them, but from
// its return until Resume the server answers nothing. A server that is paused or stopped stays so.
func (s *Server) Pause() { s.pause(true, child.Pause) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.pause(false, child.Resume) }

func (s *Server) pause(paused bool, do func(*os.Process) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.process.paused == paused {
		return
	}
	s.process.paused = paused
	if err := do(s.process.cmd.Process); err != nil {
		s.t.Errorf("redis-server %s: %v", s.Addr(), err)
	}
}

// errExited says that a server ended while it was starting.
var errExited = errors.New("exited at once")

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	path, err := RedisServerPath()
	if err != nil {
		return err
	}
	log, err := os.Create(s.logPath())
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor

	cmd := exec.Command(path, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = child.Attributes()
	if s.clock != nil {
		cmd.Env = s.clock.environ()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // for Wait a killed process is an error
		close(p.exited)
	}()

	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return s.awaitAnswer(p)
}

// awaitAnswer waits until this very process answers on the port. Asking for the process id, rather than PING, tells
// it from a stranger that took the port first.
func (s *Server) awaitAnswer(p *process) error {
	want := strconv.Itoa(p.cmd.Process.Pid)
	deadline := time.Now().Add(startTimeout)
	for {
		if got, err := s.observer.info("server", "process_id"); err == nil && got == want {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("redis-server %v: %w:\n%s", s.args, errExited, s.LogTail())
		case <-time.After(pollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server %v: no answer after %v:\n%s", s.args, startTimeout, s.LogTail())
		}
	}
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// LogTail returns the end of the server's log, for failure messages.
func (s *Server) LogTail() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	const tail = 2000
	return string(bytes.TrimSpace(log[max(0, len(log)-tail):]))
}
