package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestDoctorBehindSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t, durable...)
	sentinel := set.SentinelAddrs()[0]
	url := "redis://" + sentinel + "?master_set=" + set.MasterName
	found := examine(t, nil, nil, "--redis", url)
	expect(t, found, "topology", "ok", `the master of "`+set.MasterName+`" is `+set.Master().Addr())
	expect(t, found, "replicas", "warn", "CONFIG SET min-replicas-to-write 1")
	expect(t, found, "replicas", "warn", "it has 1 replica ("+set.Replica().Addr()+" online, ")
	expect(t, found, "replicas", "warn", "With AcksAll, a lock that all replicas have is kept")
	set.Master().Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	expect(t, examine(t, nil, nil, "--redis", url), "replicas", "note", "refuses writes without 1 of them within 10 s")

	// According to the guide its user needs one more right.
	rights := redistest.GuideRights(t)
	env := grant(t, set.Master(), "app", append(rights, "+role"))
	expect(t, examine(t, nil, env, "--redis", url, "--prefix", "app:"), "acl", "ok", "")
	expect(t, examine(t, nil, nil, "--redis", url, "--acl-user", "app", "--prefix", "app:"), "acl", "ok", "")
	grant(t, set.Master(), "app", rights)
	expect(t, examine(t, nil, nil, "--redis", url, "--acl-user", "app", "--prefix", "app:"), "acl", "fail",
		"ACL SETUSER app +role")
	unreached(t, env, "+role", "--redis", url)

	expect(t, examine(t, set.Master(), nil), "topology", "warn", "Connect by way of Sentinel")
	expect(t, examine(t, nil, nil, "--redis", "redis://"+sentinel), "topology", "fail", "?master_set=NAME")
	unreached(t, nil, "?master_set=", "--redis", "redis://"+sentinel+"?master_set=other")

	replica := examine(t, set.Replica(), nil)
	expect(t, replica, "topology", "fail", "is a replica of "+set.Master().Addr())
	require.NotContains(t, replica, "replicas")
	grant(t, set.Replica(), "app", rights)
	expect(t, examine(t, set.Replica(), env, "--prefix", "app:"), "acl", "note", "this is a replica")
}

// clusterRights are the rights in the guide for clusters with sharded messages.
func clusterRights(t testing.TB) []string {
	t.Helper()
	rights := slices.DeleteFunc(redistest.GuideRights(t),
		func(r string) bool { return r == "+publish" || r == "+subscribe" || r == "+pubsub|numsub" })
	return append(rights, "+spublish", "+ssubscribe", "+cluster|slots", "+cluster|shards",
		"+pubsub|shardnumsub")
}

func TestDoctorInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, durable...)
	cluster.NeedSharded(t)
	srv := cluster.Nodes[0]
	found := examine(t, srv, nil)
	expect(t, found, "topology", "ok", "a cluster of 3 masters and 0 replicas, and all slots are served")
	expect(t, found, "pubsub", "ok", "sharded messages")
	expect(t, found, "clocks", "ok", "the clocks of 3 servers agree")
	for _, check := range []string{"version", "eviction", "persistence", "acl", "ttl", "waiters"} {
		var nodes []string
		for _, f := range found[check] {
			require.Equal(t, "ok", f.Status, "%+v", f)
			nodes = append(nodes, f.Node)
		}
		require.ElementsMatch(t, cluster.Addrs(), nodes, check)
	}
	require.Contains(t, ok(t, srv, "doctor"), "ok   eviction (all 3 servers): ", "servers that agree share one line")

	// A finding about one server names it.
	odd := cluster.Nodes[2]
	odd.Do(t, "CONFIG", "SET", "maxmemory", "100mb")
	odd.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	for _, f := range examine(t, srv, nil)["eviction"] {
		require.Equal(t, f.Node == odd.Addr(), f.Status == "fail", "%+v", f)
	}

	// The doctor checks the rights on each server.
	rights := clusterRights(t)
	var env []string
	for _, n := range cluster.Nodes {
		env = grant(t, n, "app", rights)
	}
	asked := []string{"--prefix", "app:"}
	for _, f := range examine(t, srv, env, asked...)["acl"] {
		require.Equal(t, "ok", f.Status, "%+v", f)
	}
	for _, missing := range []string{"+spublish", "+ssubscribe", "+hset", "&redisson_sc:{app:*}"} {
		grant(t, odd, "app", slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == missing }))
		for _, env := range [][]string{env, nil} {
			found := examine(t, srv, env, append(asked, "--acl-user", "app")...)["acl"]
			require.Len(t, found, 3)
			for _, f := range found {
				require.Equal(t, f.Node == odd.Addr(), f.Status == "fail", "%s: %+v", missing, f)
				require.Equal(t, f.Node == odd.Addr(),
					strings.Contains(f.Fix, "ACL SETUSER app "+missing+" on each server"), "%+v", f)
			}
		}
	}
	for _, n := range cluster.Nodes {
		grant(t, n, "app", append(clusterRights(t), "-pubsub|shardnumsub"))
	}
	expect(t, examine(t, srv, env, asked...), "pubsub", "fail", "+pubsub|shardnumsub")

	// Programs with different settings for messages do not wake each other.
	channel := "redisson_lock__channel:{a}"
	cluster.NodeOf(t, "a").Do(t, "PING")
	subscribed(t, odd, "SUBSCRIBE", channel)
	expect(t, examine(t, srv, nil), "pubsub", "note", "PubSubPlain")
	subscribed(t, cluster.NodeOf(t, "a"), "SSUBSCRIBE", channel)
	expect(t, examine(t, srv, nil), "pubsub", "warn", "do not wake each other")

	// A cluster with an unserved slot refuses everything.
	odd.Do(t, "CLUSTER", "DELSLOTS", "16383")
	srv.Do(t, "CLUSTER", "DELSLOTS", "0")
	hole := examine(t, srv, nil)
	require.Equal(t, "fail", hole["topology"][0].Status)
	require.Contains(t, hole["topology"][0].Fix, "redis-cli --cluster")

	// The doctor asks the others although one does not answer.
	odd.Stop()
	found = examine(t, srv, nil)
	expect(t, found, "reach", "fail", "connection refused")
	require.Equal(t, odd.Addr(), found["reach"][0].Node)
	require.Len(t, found["version"], 2)
}

func TestDoctorInAClusterWithoutAReplica(t *testing.T) {
	t.Parallel()
	// A replica is not among those of CLUSTER SLOTS until its master has sent it something.
	cluster := redistest.StartCluster(t, 3, append([]string{"--repl-ping-replica-period", "1"}, durable...)...)
	replica := cluster.AddReplica(t, cluster.Nodes[2])
	srv := cluster.Nodes[0]
	for _, n := range append(cluster.Nodes, replica) { // the doctor asks any of them
		kit.Await(t, "a cluster that shows its replica", func() bool {
			slots, err := n.Try("CLUSTER", "SLOTS")
			return err == nil && strings.Contains(fmt.Sprint(slots), strings.TrimPrefix(replica.Addr(), "127.0.0.1:"))
		})
	}
	expect(t, examine(t, srv, nil), "topology", "ok", "a cluster of 3 masters and 1 replica, and all slots are served")
	expect(t, examine(t, srv, nil), "clocks", "ok", "the clocks of 4 servers agree")

	for _, n := range append(cluster.Nodes, replica) { // lest they drop it before the doctor has asked
		n.Do(t, "CONFIG", "SET", "cluster-node-timeout", "60000")
	}
	replica.Pause()
	found := examine(t, srv, nil, "--timeout", "2s")
	replica.Resume()
	f := found["reach"][0]
	require.Equal(t, replica.Addr(), f.Node)
	expect(t, found, "reach", "warn", "no answer from "+replica.Addr()+", a replica of "+cluster.Nodes[2].Addr())
	expect(t, found, "reach", "warn", "Locks go on")
	require.NotContains(t, f.Meaning, "No lock can be taken")
	expect(t, found, "clocks", "ok", "the clocks of 3 servers agree")
	expect(t, found, "topology", "ok", "all slots are served")

	expect(t, map[string][]finding{"reach": found["reach"][1:]}, "reach", "ok",
		"3 of 4 servers of redis://"+srv.Addr()+" answer, ")
}

func TestDoctorInAClusterWithoutAMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, durable...)
	srv, dead := cluster.Nodes[0], cluster.NodeOf(t, "holdfast_session:holdfast_doctor")
	if dead == srv {
		srv = cluster.Nodes[1]
	}
	slots := map[*redistest.Server]string{
		cluster.Nodes[0]: "0-5460", cluster.Nodes[1]: "5461-10921",
		cluster.Nodes[2]: "10922-16383",
	}[dead]
	dead.Stop()
	for range 2 { // before the others know, or when they do; and afterwards
		found := examine(t, srv, nil)
		expect(t, found, "reach", "fail", "no answer from "+dead.Addr()+": ")
		require.Equal(t, dead.Addr(), found["reach"][0].Node)
		expect(t, found, "reach", "fail", "Locks whose names fall into its slots cannot be taken")
		expect(t, found, "topology", "fail", dead.Addr()+", the master of slots "+slots+", does not answer")
		expect(t, found, "clocks", "ok", "the clocks of 2 servers agree")
		expect(t, found, "sessions", "note", "could not be found out")
		kit.Await(t, "a cluster that knows",
			func() bool { return strings.Contains(srv.Str(t, "CLUSTER", "INFO"), "cluster_state:fail") })
	}
}

// subscribed listens to a channel until the test ends.
func subscribed(t testing.TB, srv *redistest.Server, command, channel string) {
	t.Helper()
	c, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Do(command, channel)
	require.NoError(t, err)
}
