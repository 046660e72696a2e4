package redistest

import (
	"fmt"
	"strconv"
	"testing"
)

// StartReplica starts a replica of a server, with the same clock, and returns once it is in step. The arguments are
// added to its command line. Give the server "--repl-diskless-sync-delay", "0", or the replica waits for others.
func StartReplica(t testing.TB, of *Server, args ...string) *Server {
	t.Helper()
	of.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := start(t, of.clock, standalone(append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(of.port)}, args...)))
	replica.AwaitInStep(t)
	of.awaitReplicas(t)
	return replica
}

// AwaitInStep waits until a replica is in step with its master.
func (s *Server) AwaitInStep(t testing.TB) {
	t.Helper()
	await(t, "replica", func() string {
		if status, err := s.observer.info("replication", "master_link_status"); err != nil || status != "up" {
			return fmt.Sprintf("link to the master %q, %v", status, err)
		}
		return ""
	})
}

// awaitReplicas waits until all replicas of a server have told it how far they are. One that is in step has not yet,
// and until then, for up to a second, it is sent nothing: if the server dies, it has missed everything since.
func (s *Server) awaitReplicas(t testing.TB) {
	t.Helper()
	await(t, "replicas that have everything", func() string {
		all, err := s.observer.info("replication", "connected_slaves")
		if err != nil {
			return err.Error()
		}
		if err = s.writeOnce(); err != nil {
			return err.Error()
		}
		return s.haveEverything(all)
	})
}

// writeOnce writes a key, and deletes it. A node of a cluster takes keys of its own slots only.
func (s *Server) writeOnce() (err error) {
	for i := range 100 {
		key := fmt.Sprint("in step ", i)
		if _, err = s.observer.do("SET", key, "1"); err == nil {
			_, err = s.observer.do("DEL", key)
			break
		}
	}
	return err
}

// haveEverything says what keeps so many replicas from having everything; "": they have. WAIT is about what its
// connection has written, and what the server had executed when that last sent a command.
func (s *Server) haveEverything(replicas string) string {
	if n, err := s.observer.do("WAIT", replicas, "1000"); err != nil || fmt.Sprint(n) != replicas {
		return fmt.Sprintf("%v of %s, %v", n, replicas, err)
	}
	return ""
}

// AwaitReplica waits until a replica has all that the server has executed by now.
func (s *Server) AwaitReplica(t testing.TB) {
	t.Helper()
	await(t, "a replica that has everything", func() string {
		if _, err := s.observer.do("PING"); err != nil {
			return err.Error()
		}
		return s.haveEverything("1")
	})
}
