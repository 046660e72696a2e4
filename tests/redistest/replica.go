package redistest

import (
	"fmt"
	"strconv"
	"testing"
)

// StartReplica starts a replica of a server and returns once it is in step. The arguments are added to its command
// line. Give the server "--repl-diskless-sync-delay", "0", or the replica waits for others.
func StartReplica(t testing.TB, of *Server, args ...string) *Server {
	t.Helper()
	of.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := Start(t, append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(of.port)}, args...)...)
	replica.AwaitInStep(t)
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
