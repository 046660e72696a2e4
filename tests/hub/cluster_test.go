package hub

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/hub"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A ring is a cluster with a hub that has listeners on every node.
type ring struct {
	*redistest.Cluster
	hub  *hub.Hub
	log  bytes.Buffer                 // the hub's; read only when that is closed
	ears map[*redistest.Server][]*ear // by the node of the channel
}

// newRing starts a cluster that goes on working when a node is down.
func newRing(t *testing.T, sharded bool) *ring {
	t.Helper()
	r := &ring{Cluster: redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")}
	if sharded {
		r.NeedSharded(t)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: r.Addrs(), PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true,
		// A node that stands still for a second or two keeps its connections.
		ConnWriteTimeout: 10 * time.Second, Dialer: net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Second},
		ClusterOption: rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	redistest.Limit(t, client.Close)
	r.hub = newHubWithLog(t, client, sharded, &r.log)
	r.listenToAll(t, 30)
	return r
}

// listenToAll listens to n more channels and waits for the confirmations.
func (r *ring) listenToAll(t *testing.T, n int) {
	t.Helper()
	r.ears = map[*redistest.Server][]*ear{}
	for i := range n {
		name := "channel:" + strconv.Itoa(i)
		node := r.NodeOf(t, name)
		r.ears[node] = append(r.ears[node], listen(r.hub, name))
	}
	require.Len(t, r.ears, len(r.Nodes), "channels on all nodes")
	r.each(func(_ *redistest.Server, e *ear) {
		kit.Await(t, "the confirmation of "+e.channel, func() bool { return e.woken.Load() > 0 })
	})
}

func (r *ring) each(f func(node *redistest.Server, e *ear)) {
	for node, ears := range r.ears {
		for _, e := range ears {
			f(node, e)
		}
	}
}

// assertHears publishes on each channel at its node until its listener is woken.
func (r *ring) assertHears(t *testing.T, node *redistest.Server, e *ear) {
	t.Helper()
	e.hears(t, "a message", func() {
		kit.Await(t, "a subscriber of "+e.channel, func() bool {
			n, err := node.Try("SPUBLISH", e.channel, "0")
			return err == nil && n == int64(1)
		})
	})
}

// calm returns how often the listeners of all nodes but one were woken.
func (r *ring) calm(but *redistest.Server) map[string]int64 {
	woken := map[string]int64{}
	r.each(func(node *redistest.Server, e *ear) {
		if node != but {
			woken[e.channel] = e.woken.Load()
		}
	})
	return woken
}

func (r *ring) shardChannels(t *testing.T) int {
	t.Helper()
	n := 0
	for _, node := range r.Nodes {
		n += len(node.Strs(t, "PUBSUB", "SHARDCHANNELS"))
	}
	return n
}

func TestShardedChannelsAreHeardAtTheNodeOfTheirSlot(t *testing.T) {
	t.Parallel()
	r := newRing(t, true)
	r.each(func(node *redistest.Server, e *ear) { r.assertHears(t, node, e) })
	for range 3 { // the order in which its connections come back must not matter
		for _, node := range r.Nodes {
			assert.LessOrEqual(t, node.Connections(t), 2, "one for commands, one for subscriptions")
			before := r.calm(nil)
			node.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			for _, e := range r.ears[node] {
				kit.Await(t, "the new subscription of "+e.channel,
					func() bool { return e.woken.Load() > before[e.channel] })
			}
		}
	}
	r.each(func(node *redistest.Server, e *ear) { r.assertHears(t, node, e) })
	assert.Equal(t, 30, r.shardChannels(t), "each is subscribed once")

	r.each(func(_ *redistest.Server, e *ear) { e.Close() })
	kit.Await(t, "the end of all", func() bool { return r.shardChannels(t) == 0 })
	r.hub.Close()
	assert.NotContains(t, r.log.String(), "refused", "MOVED is followed at once")
}

func TestAWornConnectionOfANodeIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRing(t, true)
	node := r.Nodes[0]
	before := r.calm(nil)
	wearOut(t, r.hub, "{"+r.ears[node][0].channel+"}")
	kit.Await(t, "a new connection", func() bool { return r.shardChannels(t) == 30 })
	for _, e := range r.ears[node] {
		kit.Await(t, "the end of the last connection", func() bool {
			return node.Do(t, "PUBSUB", "SHARDNUMSUB", e.channel).([]any)[1].(int64) == 1
		})
	}
	assert.Equal(t, before, r.calm(nil), "a listener was woken although it had missed nothing")
	r.each(func(node *redistest.Server, e *ear) { r.assertHears(t, node, e) })
}

func TestAChannelFollowsItsSlot(t *testing.T) {
	t.Parallel()
	r := newRing(t, true)
	from, to := r.Nodes[0], r.Nodes[1]
	moving, staying := r.ears[from][0], r.ears[from][1:]
	before := make([]int64, len(staying))
	for i, e := range staying {
		before[i] = e.woken.Load()
	}
	moving.hears(t, "the end of the subscription", func() { r.MoveSlot(t, moving.channel, to) })
	r.assertHears(t, to, moving)
	assert.NotContains(t, from.Strs(t, "PUBSUB", "SHARDCHANNELS"), moving.channel)
	for i, e := range staying {
		assert.Equal(t, before[i], e.woken.Load(), "a channel that did not move was subscribed anew")
		r.assertHears(t, from, e)
	}

	// The channel moves back, and its last listener closes while the slot moves.
	second := listen(r.hub, moving.channel)
	moving.hears(t, "the end of the subscription", func() { r.MoveSlot(t, moving.channel, from) })
	moving.Close()
	second.Close()
	// otherwise the channel would stay subscribed with those of others
	r.each(func(_ *redistest.Server, e *ear) { e.Close() })
	kit.Await(t, "the end of all", func() bool { return r.shardChannels(t) == 0 })
}

// While a slot is moved by hand, or after that was given up half-way, each of two nodes may name the other.
func TestNodesThatNameEachOtherAreAskedSeldom(t *testing.T) {
	t.Parallel()
	r := newRing(t, true)
	from, to := r.Nodes[0], r.Nodes[1]
	e := r.ears[from][0]
	slot := strconv.FormatInt(from.Int(t, "CLUSTER", "KEYSLOT", e.channel), 10)
	give := func(at, node *redistest.Server) {
		at.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", node.Str(t, "CLUSTER", "MYID"))
	}
	asked := func() (n int64) {
		for _, node := range r.Nodes {
			_, stats, _ := strings.Cut(node.Str(t, "INFO", "errorstats"), "errorstat_MOVED:count=")
			stats, _, _ = strings.Cut(stats, "\r\n")
			count, _ := strconv.ParseInt(stats, 10, 64)
			n += count
		}
		return n
	}
	give(from, to) // which is not told
	const once, rounds = 10, 3
	kit.Await(t, "some rounds", func() bool { return asked() > (rounds-1)*once })
	began := time.Now()
	kit.SleepUntil(began.Add(time.Second))
	require.Less(t, asked(), once*(rounds+2+int64(time.Since(began)/time.Second)))

	for _, node := range r.Nodes {
		give(node, from)
	}
	r.assertHears(t, from, e)
}

func TestANodeThatDiesIsMissedByItsOwnChannelsAlone(t *testing.T) {
	t.Parallel()
	r := newRing(t, true)
	for _, dead := range r.Nodes {
		before := r.calm(dead)
		dead.Stop()
		for node, ears := range r.ears {
			if node != dead {
				r.assertHears(t, node, ears[0])
				before[ears[0].channel]++
			}
		}
		assert.Equal(t, before, r.calm(dead), "a channel of another node was subscribed anew")
		dead.Restart()
		r.AwaitOK(t)
		for _, e := range r.ears[dead] {
			r.assertHears(t, dead, e)
		}
	}
}

// A replica takes over the slots of its master, and with them the channels.
func TestChannelsFollowAFailover(t *testing.T) {
	t.Parallel()
	r := newRing(t, true)
	master := r.Nodes[0]
	replica := r.AddReplica(t, master)
	master.Stop()
	for _, e := range r.ears[master] {
		r.assertHears(t, replica, e)
	}
}

// A master does not count who listens at a replica, and would take a session for dead that does.
func TestNobodyListensAtAReplica(t *testing.T) {
	t.Parallel()
	for name, login := range map[string]func(*rueidis.ClientOption){
		"with all rights": func(*rueidis.ClientOption) {},
		"with those that are enough from version 8 on": func(opt *rueidis.ClientOption) {
			opt.Username, opt.Password = "app", redistest.Password
			opt.ClusterOption.PreferClusterShards = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nobodyListensAtAReplica(t, login)
		})
	}
}

func nobodyListensAtAReplica(t *testing.T, login func(*rueidis.ClientOption)) {
	t.Helper()
	r := &ring{Cluster: redistest.StartCluster(t, 1)}
	r.NeedSharded(t)
	master := r.Nodes[0]
	former := r.AddReplica(t, master)
	for _, node := range []*redistest.Server{master, former, r.AddReplica(t, master)} {
		node.Grant(t, "app", "+cluster|shards", "+ssubscribe", "&channel")
	}
	var ears []*ear
	for range 6 { // each goes to any node first
		e := listen(newHub(t, refreshedAs(t, login, r.Addrs()...), true), "channel")
		kit.Await(t, "the confirmation", func() bool { return e.woken.Load() > 0 })
		ears = append(ears, e)
	}
	counted := func(node *redistest.Server) any { return counted(t, node, "channel") }
	require.EqualValues(t, len(ears), counted(master))

	master, former = former, master
	master.Do(t, "CLUSTER", "FAILOVER")
	kit.Await(t, "all of them at the new master", func() bool { return counted(master) == int64(len(ears)) })
	former.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	master.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	kit.Await(t, "all of them once more", func() bool { return counted(master) == int64(len(ears)) })
}

// A master that comes back takes itself for one until it hears that its replica has taken over. Who listens there by
// then would not be counted any more.
func TestNobodyStaysAtAMasterThatHasBecomeAReplica(t *testing.T) {
	t.Parallel()
	r := &ring{Cluster: redistest.StartCluster(t, 1)}
	r.NeedSharded(t)
	master, former := r.Nodes[0], r.AddReplica(t, r.Nodes[0])
	counted := func(node *redistest.Server) any { return counted(t, node, "channel") }
	master, former = former, master
	former.Stop()
	master.Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
	master.Pause() // so it cannot tell
	former.Restart()
	listen(newHub(t, refreshed(t, former.Addr()), true), "channel")
	kit.Await(t, "it at the former master", func() bool { return counted(former) == int64(1) })
	master.Resume()
	kit.Await(t, "the replica to be one", func() bool { return former.Do(t, "ROLE").([]any)[0] == "slave" })
	kit.Await(t, "it at the new master", func() bool { return counted(master) == int64(1) })
	kit.Await(t, "it nowhere else", func() bool { return counted(former) == int64(0) })
}

// refreshed is a client of a cluster that asks every second which node has which slots.
func refreshed(t *testing.T, addrs ...string) rueidis.Client {
	t.Helper()
	return refreshedAs(t, func(*rueidis.ClientOption) {}, addrs...)
}

func refreshedAs(t *testing.T, login func(*rueidis.ClientOption), addrs ...string) rueidis.Client {
	t.Helper()
	opt := rueidis.ClientOption{
		InitAddress: addrs, PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true,
		ClusterOption: rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
	}
	login(&opt)
	client, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// counted is how many listen to a sharded channel at a node, as it says.
func counted(t *testing.T, node *redistest.Server, channel string) any {
	t.Helper()
	return node.Do(t, "PUBSUB", "SHARDNUMSUB", channel).([]any)[1]
}

func TestPlainMessagesOfAClusterAreHeardFromEveryNode(t *testing.T) {
	t.Parallel()
	r := newRing(t, false)
	var home *redistest.Server // the node at which the hub happens to listen
	for _, node := range r.Nodes {
		if len(subscribed(t, node)) > 0 {
			require.Nil(t, home, "at one node")
			home = node
		}
	}
	for _, node := range r.Nodes {
		for _, e := range r.ears[node][:2] {
			e.hears(t, "a message", func() { node.Do(t, "PUBLISH", e.channel, "0") })
		}
	}
	before := r.calm(nil)
	home.Stop()
	r.each(func(_ *redistest.Server, e *ear) {
		kit.Await(t, "the new subscription of "+e.channel, func() bool { return e.woken.Load() > before[e.channel] })
	})
}

// A node that has left the cluster hears none of its messages, and nobody ends the connections to it.
func TestPlainMessagesAreNotAwaitedAtANodeThatHasLeft(t *testing.T) {
	t.Parallel()
	r := newRing(t, false)
	var gone *redistest.Server
	var rest []*redistest.Server
	for _, node := range r.Nodes {
		if len(node.Strs(t, "PUBSUB", "CHANNELS")) > 0 {
			gone = node
		} else {
			rest = append(rest, node)
		}
	}
	require.Len(t, rest, 2)
	id := gone.Str(t, "CLUSTER", "MYID")
	for _, node := range rest {
		node.Do(t, "CLUSTER", "FORGET", id)
	}
	gone.Do(t, "CLUSTER", "RESET", "SOFT")
	r.each(func(_ *redistest.Server, e *ear) {
		e.hears(t, "a message", func() {
			kit.Await(t, "a subscriber of "+e.channel, func() bool {
				return slices.ContainsFunc(rest, func(n *redistest.Server) bool { return n.Int(t, "PUBLISH", e.channel, "0") > 0 })
			})
		})
	})
}

// Where nodes do not tell their hosts, as behind an address that clients know better, a node names another one by its
// port alone.
func TestNodesThatTellNoHostAreFound(t *testing.T) {
	t.Parallel()
	r := &ring{Cluster: redistest.StartCluster(t, 3)}
	r.NeedSharded(t)
	ears := map[string]*redistest.Server{}
	for i := range 30 {
		name := "channel:" + strconv.Itoa(i)
		ears[name] = r.NodeOf(t, name)
	}
	for _, node := range r.Nodes {
		node.Do(t, "CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
	}
	r.hub = newHubWithLog(t, refreshed(t, r.Addrs()...), true, &r.log)
	for name, node := range ears {
		e := listen(r.hub, name)
		kit.Await(t, "the confirmation of "+name, func() bool { return e.woken.Load() > 0 })
		r.assertHears(t, node, e)
	}
	r.hub.Close()
	assert.NotContains(t, r.log.String(), "interrupted", "MOVED is followed at once")
	assert.NotContains(t, r.log.String(), "refused", "MOVED is followed at once")
}
