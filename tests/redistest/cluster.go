package redistest

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// clusterSlots is the number of hash slots in every Redis cluster.
const clusterSlots = 16384

// Cluster is a Redis cluster of masters, which share the slots evenly. They have no replicas but those of AddReplica.
type Cluster struct {
	Nodes    []*Server // the masters
	args     []string
	replicas []*Server
}

// StartCluster starts a cluster and returns once every node says that it is up and knows the owner of every slot.
// The arguments are added to each node's command line. A node counts as failed after 2 s of silence, and then the
// whole cluster refuses work, as is Redis' default. A restarted node finds its place in the cluster again.
// This takes about three seconds: a node waits two before it trusts itself.
func StartCluster(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{args: append([]string{
		"--cluster-enabled", "yes",
		"--cluster-node-timeout", "2000",
		"--cluster-announce-ip", "127.0.0.1",
	}, args...)}
	for range masters {
		c.Nodes = append(c.Nodes, Start(t, c.args...))
	}
	for i, n := range c.Nodes {
		// Epochs that differ from the start spare the nodes an argument about them.
		n.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		n.AddSlots(t, i*clusterSlots/masters, (i+1)*clusterSlots/masters)
		for _, other := range c.Nodes[:i] {
			n.Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port))
		}
	}
	c.AwaitOK(t)
	t.Cleanup(func() {
		if t.Failed() {
			c.logNodes(t)
		}
	})
	return c
}

// AddSlots gives a node of a cluster the slots from first to before end.
func (s *Server) AddSlots(t testing.TB, first, end int) {
	t.Helper()
	add := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is newer than Redis 6.2
	for slot := first; slot < end; slot++ {
		add = append(add, strconv.Itoa(slot))
	}
	s.Do(t, add...)
}

// logNodes logs what the nodes that are up know of each other.
func (c *Cluster) logNodes(t testing.TB) {
	t.Helper()
	for _, n := range c.all() {
		if nodes, err := n.Try("CLUSTER", "NODES"); err == nil {
			t.Logf("CLUSTER NODES of %s:\n%v", n.Addr(), nodes)
		}
	}
}

// AddReplica gives a master one more replica, and returns once it is in step, all nodes know of it, and it of them: one
// that knows its master alone is never elected in its place.
func (c *Cluster) AddReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	of.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := Start(t, c.args...)
	replica.Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(of.port))
	c.replicas = append(c.replicas, replica)
	c.AwaitOK(t)
	replica.Do(t, "CLUSTER", "REPLICATE", of.Str(t, "CLUSTER", "MYID"))
	replica.AwaitInStep(t)
	of.awaitReplicas(t)
	c.AwaitOK(t)
	return replica
}

// Sharded reports whether the servers have sharded pub/sub, which came with Redis 7.
func (c *Cluster) Sharded() bool {
	_, err := c.Nodes[0].Try("PUBSUB", "SHARDNUMSUB", "x")
	return err == nil
}

// NeedSharded skips the test if the servers have no sharded pub/sub.
func (c *Cluster) NeedSharded(t testing.TB) {
	t.Helper()
	if !c.Sharded() {
		t.Skip("this server has no sharded pub/sub, which came with Redis 7")
	}
}

// all are the masters and the replicas.
func (c *Cluster) all() []*Server { return slices.Concat(c.Nodes, c.replicas) }

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, n := range c.all() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// AwaitOK waits until every node says that the cluster is up and all agree on the owner of every slot and on the
// replicas; for a test that has restarted a node.
func (c *Cluster) AwaitOK(t testing.TB) {
	t.Helper()
	await(t, "cluster", func() string {
		var first string
		all := c.all()
		for _, n := range all {
			view, err := n.clusterView(len(all))
			if err != nil {
				return fmt.Sprintf("node %s: %v", n.Addr(), err)
			}
			if first == "" {
				first = view
			}
			if view != first {
				return fmt.Sprintf("node %s: %s, elsewhere %s", n.Addr(), view, first)
			}
		}
		return ""
	})
}

// clusterView is what a node says about who has the slots and who replicates whom, or why it cannot serve all slots.
// CLUSTER SLOTS would not do: it leaves a replica out that has not been sent anything yet.
func (s *Server) clusterView(nodes int) (string, error) {
	reply, err := s.Try("CLUSTER", "INFO")
	if err != nil {
		return "", err
	}
	text, _ := reply.(string)
	info := infoFields(text)
	if info["cluster_state"] != "ok" || info["cluster_slots_ok"] != strconv.Itoa(clusterSlots) {
		return "", fmt.Errorf("state %s, %s slots are served", info["cluster_state"], info["cluster_slots_ok"])
	}
	reply, err = s.Try("CLUSTER", "NODES")
	if err != nil {
		return "", err
	}
	text, _ = reply.(string)
	var view []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line) // id, address, flags, whom it replicates, ping, pong, epoch, link, slots …
		switch flags := strings.TrimPrefix(f[2], "myself,"); {
		case f[7] != "connected": // what is published is not passed on to it
			return "", fmt.Errorf("%s is %s", f[1], f[7])
		case flags == "master", flags == "slave":
			view = append(view, fmt.Sprintf("%s %s %s %v", f[1], flags, f[3], f[8:]))
		default:
			return "", fmt.Errorf("%s is %s", f[1], flags)
		}
	}
	if len(view) != nodes {
		return "", fmt.Errorf("%d nodes are known", len(view))
	}
	slices.Sort(view)
	return strings.Join(view, ", "), nil
}

// slotRange is a run of slots with one owner.
type slotRange struct {
	first, last int64
	addr        string
}

// slotRanges is the node's view of the slots, in order.
func (s *Server) slotRanges() ([]slotRange, error) {
	reply, err := s.Try("CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	rows, _ := reply.([]any)
	ranges := make([]slotRange, len(rows))
	for i, row := range rows {
		row := row.([]any)      // first slot, last slot, master, replicas …
		owner := row[2].([]any) // host, port, id …
		ranges[i] = slotRange{
			first: row[0].(int64),
			last:  row[1].(int64),
			addr:  net.JoinHostPort(owner[0].(string), strconv.FormatInt(owner[1].(int64), 10)),
		}
	}
	return ranges, nil
}

// NodeOf returns the node that now owns the slot of a key, according to the first node that answers.
func (c *Cluster) NodeOf(t testing.TB, key string) *Server {
	t.Helper()
	for _, n := range c.all() {
		slot, err := n.Try("CLUSTER", "KEYSLOT", key)
		if err != nil {
			continue
		}
		ranges, err := n.slotRanges()
		if err != nil {
			continue
		}
		for _, r := range ranges {
			if s := slot.(int64); r.first <= s && s <= r.last {
				return c.node(t, r.addr)
			}
		}
		t.Fatalf("slot %d of %q has no owner", slot, key)
	}
	t.Fatal("no node of the cluster answers")
	return nil
}

func (c *Cluster) node(t testing.TB, addr string) *Server {
	t.Helper()
	for _, n := range c.all() {
		if n.Addr() == addr {
			return n
		}
	}
	t.Fatalf("%s is no node of the cluster", addr)
	return nil
}

// MoveSlot moves the slot of a key, with all its keys, to another node, as a resharding tool would, and returns once
// all nodes know.
func (c *Cluster) MoveSlot(t testing.TB, key string, to *Server) {
	t.Helper()
	if c.NodeOf(t, key) != to {
		c.OpenSlot(t, key, to).Finish(t)
	}
}

// A Move is a slot on its way from one node to another.
type Move struct {
	From, To *Server
	cluster  *Cluster
	slot     string
}

// OpenSlot begins to move the slot of a key to another node, and moves no key yet.
func (c *Cluster) OpenSlot(t testing.TB, key string, to *Server) *Move {
	t.Helper()
	from := c.NodeOf(t, key)
	m := &Move{From: from, To: to, cluster: c, slot: strconv.FormatInt(from.Int(t, "CLUSTER", "KEYSLOT", key), 10)}
	to.Do(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", from.Str(t, "CLUSTER", "MYID"))
	from.Do(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", to.Str(t, "CLUSTER", "MYID"))
	return m
}

// Take moves some of the slot's keys.
func (m *Move) Take(t testing.TB, keys ...string) {
	t.Helper()
	migrate := []string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.To.port), "", "0", "5000", "KEYS"}
	m.From.Do(t, append(migrate, keys...)...)
}

// Finish moves the slot's other keys and gives it to the node, and returns once all nodes know.
func (m *Move) Finish(t testing.TB) {
	t.Helper()
	for {
		keys := m.From.Strs(t, "CLUSTER", "GETKEYSINSLOT", m.slot, "100")
		if len(keys) == 0 {
			break
		}
		m.Take(t, keys...)
	}
	owner := m.To.Str(t, "CLUSTER", "MYID")
	m.To.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", owner)
	for _, n := range m.cluster.Nodes {
		if n != m.To {
			n.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", owner)
		}
	}
	m.cluster.AwaitOK(t)
}

// Keyspace returns what all nodes together store.
func (c *Cluster) Keyspace(t testing.TB) map[string]Value {
	t.Helper()
	all := map[string]Value{}
	for _, n := range c.Nodes {
		maps.Copy(all, n.Keyspace(t))
	}
	return all
}
