package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

const sentinels = 3

// SentinelSet is one master with one replica, watched by three sentinels of which two must agree.
type SentinelSet struct {
	MasterName string
	Sentinels  []*Server

	master, replica *Server
}

// StartSentinels starts master, replica and sentinels, and returns once the replica is in step and the sentinels know
// it and each other. They take the master for dead after 2 s of silence. The arguments are added to the command lines
// of master and replica.
func StartSentinels(t testing.TB, args ...string) *SentinelSet {
	t.Helper()
	fast := []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}
	args = append(fast, args...)
	set := &SentinelSet{MasterName: "holdfast", master: Start(t, args...)}
	set.replica = Start(t, append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(set.master.port)}, args...)...)

	// A sentinel asks the master for its replicas only every 10 s, so the replica must be there when it first asks.
	await(t, "replica", func() string {
		if status, err := set.replica.observer.info("replication", "master_link_status"); err != nil || status != "up" {
			return fmt.Sprintf("link to the master %q, %v", status, err)
		}
		if online, err := set.master.observer.info("replication", "connected_slaves"); err != nil || online != "1" {
			return fmt.Sprintf("replicas of the master %q, %v", online, err)
		}
		return ""
	})
	for range sentinels {
		set.Sentinels = append(set.Sentinels, StartSentinel(t, set.MasterName, set.master.Addr()))
	}
	await(t, "sentinels", func() string { return set.Disagreement(set.master.Addr()) })
	return set
}

// StartSentinel starts one sentinel of a master at an address, of which two must agree. It needs a file, in which it
// keeps what it learns. It redials only once a second, so if it waited for less than 2 s, it would take a master for
// dead that it has only just been told of.
func StartSentinel(t testing.TB, name, master string) *Server {
	t.Helper()
	host, masterPort, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, nil, func(port int, dir string) []string {
		config := fmt.Sprintf(`port %d
bind 127.0.0.1
dir %q
sentinel monitor %[3]s %[4]s %[5]s 2
sentinel down-after-milliseconds %[3]s 2000
sentinel failover-timeout %[3]s 3000
`, port, dir, name, host, masterPort)
		path := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{path, "--sentinel"}
	})
}

// Disagreement tells what keeps the sentinels from failing over from the master at an address; it is empty if nothing
// does.
func (set *SentinelSet) Disagreement(master string) string {
	for _, s := range set.Sentinels {
		info, err := sentinelFields(s.Try("SENTINEL", "MASTER", set.MasterName))
		if err != nil {
			return err.Error()
		}
		addr := net.JoinHostPort(info["ip"], info["port"])
		others := strconv.Itoa(sentinels - 1)
		if addr != master || info["flags"] != "master" || info["num-other-sentinels"] != others {
			return fmt.Sprintf("%s: master %s (%s), %s other sentinels; expected master %s",
				s.Addr(), addr, info["flags"], info["num-other-sentinels"], master)
		}
		reply, err := s.Try("SENTINEL", "REPLICAS", set.MasterName)
		if err != nil {
			return err.Error()
		}
		rows, _ := reply.([]any)
		if len(rows) != 1 {
			return fmt.Sprintf("%s: %d replicas", s.Addr(), len(rows))
		}
		replica, err := sentinelFields(rows[0], nil)
		if err != nil {
			return err.Error()
		}
		if replica["flags"] != "slave" || replica["master-link-status"] != "ok" {
			return fmt.Sprintf("%s: replica %s, link %s", s.Addr(), replica["flags"], replica["master-link-status"])
		}
	}
	return ""
}

// sentinelFields makes a map of the names and values that sentinels answer in turn.
func sentinelFields(reply any, err error) (map[string]string, error) {
	if err != nil {
		return nil, err
	}
	elems, _ := reply.([]any)
	fields := map[string]string{}
	for i := 0; i+1 < len(elems); i += 2 {
		name, _ := elems[i].(string)
		fields[name], _ = elems[i+1].(string)
	}
	return fields, nil
}

// SentinelAddrs returns the addresses of the sentinels.
func (set *SentinelSet) SentinelAddrs() []string {
	addrs := make([]string, len(set.Sentinels))
	for i, s := range set.Sentinels {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Master returns the server that was master at the start or after the last Failover.
func (set *SentinelSet) Master() *Server { return set.master }

// Replica returns the other server, which after Failover is the dead former master. When restarted, it comes back as
// an empty master, which the sentinels turn into a replica after about ten seconds.
func (set *SentinelSet) Replica() *Server { return set.replica }

// Failover kills the master and returns once the replica has been promoted and all sentinels report it, usually after
// three to six seconds. Writes that the replica had not received are lost, as in a real failover.
func (set *SentinelSet) Failover(t testing.TB) {
	t.Helper()
	awaitFor(t, tiltTimeout, "sentinels that act", func() string { // while the master keeps what is renewed there
		for _, s := range set.Sentinels {
			if tilt, err := s.observer.info("sentinel", "sentinel_tilt"); err != nil || tilt != "0" {
				return fmt.Sprintf("%s: tilt %q, %v", s.Addr(), tilt, err)
			}
		}
		return ""
	})
	set.master.Stop()
	set.master, set.replica = set.replica, set.master
	await(t, "promotion", func() string {
		if role, err := set.master.observer.info("replication", "role"); err != nil || role != "master" {
			return fmt.Sprintf("%s: role %q, %v", set.master.Addr(), role, err)
		}
		for _, s := range set.Sentinels {
			info, err := sentinelFields(s.Try("SENTINEL", "MASTER", set.MasterName))
			if err != nil {
				return err.Error()
			}
			if addr := net.JoinHostPort(info["ip"], info["port"]); addr != set.master.Addr() {
				return fmt.Sprintf("%s: master is still %s", s.Addr(), addr)
			}
		}
		return ""
	})
}
