package failovers

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A shard is a master and a replica, which change places in each failover. Everybody reaches them through proxies,
// each other included.
type shard struct {
	members [2]*member
	master  int
	plan    plan                                    // how clients find it
	agree   func(master *member, whole bool) string // what is missing until everybody knows this master
	rejoin  func(t *testing.T, dead *member)        // brings a dead master back as the replica of the other one
}

type member struct {
	*redistest.Server
	proxy   *proxy.Proxy
	follows *proxy.Rule // that a replica connects
}

// other is the one of the two that this is not.
func (s *shard) other(m *member) *member {
	if m == s.members[0] {
		return s.members[1]
	}
	return s.members[0]
}

const nowhere = "127.0.0.1:1"

func newMember(t *testing.T) *member {
	m := &member{proxy: proxy.Start(t, nowhere)}
	m.follows = m.proxy.On(proxy.Command("PSYNC"), proxy.Pass, proxy.EveryTime)
	return m
}

// is tells which server it is from now on.
func (m *member) is(srv *redistest.Server) {
	m.Server = srv
	m.proxy.SetServer(srv.Addr())
}

// port is the one at which others reach it.
func (m *member) port() string {
	_, port, _ := net.SplitHostPort(m.proxy.Addr())
	return port
}

// stream is the connection of its replica.
func (m *member) stream() *proxy.Conn {
	conns := m.follows.Conns()
	return conns[len(conns)-1]
}

// replication is a field of INFO, "" if the server does not answer.
func (m *member) replication(field string) string {
	reply, err := m.Try("INFO", "replication")
	text, _ := reply.(string)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

func (m *member) role() string { return m.replication("role") }

// awaitWhole waits until one of them is the master, the other one is in step, and everybody agrees.
func (c *campaign) awaitWhole(t *testing.T) {
	t.Helper()
	c.await(t, "a shard that is whole", func() bool {
		c.master = slices.IndexFunc(c.members[:], func(m *member) bool { return m.role() == "master" })
		if c.master < 0 {
			c.master = 0
			return false
		}
		replica := c.members[1-c.master]
		return replica.role() == "slave" && replica.replication("master_link_status") == "up" &&
			c.agree(c.members[c.master], true) == ""
	})
}

// startSentinel starts a master and a replica that three sentinels watch.
func startSentinel(t *testing.T) *shard {
	s := &shard{members: [2]*member{newMember(t), newMember(t)}}
	launch := func(m *member, args ...string) {
		m.is(redistest.Start(t, append([]string{
			"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", m.port(),
			"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
		}, args...)...))
	}
	launch(s.members[0])
	launch(s.members[1], "--replicaof", "127.0.0.1", s.members[0].port())
	s.members[1].AwaitInStep(t) // a sentinel asks a master for its replicas when it first sees it, and then rarely

	set := &redistest.SentinelSet{MasterName: "holdfast"}
	for range 3 {
		set.Sentinels = append(set.Sentinels, redistest.StartSentinel(t, set.MasterName, s.members[0].proxy.Addr()))
	}
	s.plan = plan{Addrs: set.SentinelAddrs(), MasterSet: set.MasterName}
	s.agree = func(master *member, whole bool) string {
		if whole {
			return set.Disagreement(master.proxy.Addr())
		}
		for _, sentinel := range set.Sentinels {
			reply, err := sentinel.Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.MasterName)
			if fmt.Sprint(reply) != fmt.Sprintf("[127.0.0.1 %s]", master.port()) {
				return fmt.Sprintf("%s: the master is %v, %v, not %s", sentinel.Addr(), reply, err, master.port())
			}
		}
		return ""
	}
	s.rejoin = func(t *testing.T, dead *member) {
		launch(dead, "--replicaof", "127.0.0.1", s.other(dead).port())
	}
	return s
}

// startCluster starts three masters, one of which has a replica and all locks.
func startCluster(t *testing.T) *shard {
	c := redistest.StartCluster(t, 3, "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
	s := &shard{members: [2]*member{newMember(t), newMember(t)}}
	others := c.Nodes[1:]
	for i := 0; s.plan.Prefix == ""; i++ {
		if tag := fmt.Sprintf("{%d}", i); c.NodeOf(t, tag) == c.Nodes[0] {
			s.plan.Prefix = tag
		}
	}
	s.members[0].is(c.Nodes[0])
	s.members[1].is(c.AddReplica(t, c.Nodes[0]))
	announce := func(t *testing.T, m *member) {
		m.Do(t, "CONFIG", "SET", "cluster-announce-port", m.port())
		m.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	}
	for _, m := range s.members {
		announce(t, m)
	}
	s.plan.Addrs = []string{s.members[0].proxy.Addr(), s.members[1].proxy.Addr(), others[0].Addr(), others[1].Addr()}
	s.agree = func(master *member, whole bool) string {
		nodes := append([]*redistest.Server{master.Server}, others...)
		if whole {
			nodes = append(nodes, s.other(master).Server)
		}
		for _, n := range nodes {
			info, err := n.Try("CLUSTER", "INFO")
			if err != nil || !strings.Contains(fmt.Sprint(info), "cluster_state:ok") {
				return fmt.Sprintf("%s: %v, %v", n.Addr(), info, err)
			}
			reply, err := n.Try("CLUSTER", "SLOTS")
			rows, _ := reply.([]any)
			if err != nil || len(rows) != len(c.Nodes) {
				return fmt.Sprintf("%s: %v, %v", n.Addr(), reply, err)
			}
			if owner := rows[0].([]any)[2].([]any)[1]; fmt.Sprint(owner) != master.port() {
				return fmt.Sprintf("%s: the master is %v, not %s", n.Addr(), owner, master.port())
			}
		}
		return ""
	}
	s.rejoin = func(t *testing.T, dead *member) {
		dead.Restart()
		dead.is(dead.Server)
		announce(t, dead)
	}
	return s
}
