package locks

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// onEachNode returns names on each node of a cluster: one that decides the slot as a whole, and one by its hash tag.
func onEachNode(t *testing.T, cluster *redistest.Cluster, of string) (names []string) {
	t.Helper()
	for _, node := range cluster.Nodes {
		for _, form := range []string{"job:%d:%s", "app{%d}%s:job"} {
			name := ""
			for i := 0; name == "" || cluster.NodeOf(t, name) != node; i++ {
				name = fmt.Sprintf(form, i, of)
			}
			names = append(names, name)
		}
	}
	return names
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for mode, pubsub := range map[string]holdfast.PubSubMode{
		"auto": holdfast.PubSubAuto, "sharded": holdfast.PubSubSharded, "plain": holdfast.PubSubPlain,
	} {
		t.Run(mode, func(t *testing.T) {
			if pubsub == holdfast.PubSubSharded {
				cluster.NeedSharded(t)
			}
			opts := &holdfast.Options{Lease: kit.Lease, PubSub: pubsub}
			a, b := kit.OpenCluster(t, cluster, opts), kit.OpenCluster(t, cluster, opts)
			for _, k := range kit.OnOneServer() {
				if pubsub == holdfast.PubSubAuto && k.Name != "rlock" {
					continue // it is one of the other two
				}
				t.Run(k.Name, func(t *testing.T) {
					names := onEachNode(t, cluster, mode+k.Name)
					exclusion(t, k, []*holdfast.Session{a, b}, names)

					// On each node, a release wakes the waiter, not a timer.
					holds, waits := make([]*holdfast.Hold, len(names)), make([]<-chan kit.Result, len(names))
					for i, name := range names {
						holds[i] = kit.Lock(t, t.Context(), k.Rival(a, name, 0))
						waits[i] = kit.GoLock(t.Context(), k.Make(b, name, 0).Lock)
						node := cluster.NodeOf(t, name)
						kit.Await(t, "the waiter", func() bool {
							return k.Polls || subscribers(t, cluster, node, name, mode)
						})
					}
					settled()
					for i, hold := range holds {
						require.NoError(t, hold.Release())
						require.NoError(t, kit.Granted(t, kit.Told, waits[i], "the waiter's lock").Release())
					}
				})
			}
		})
	}
	names := onEachNode(t, cluster, "")
	t.Run("renewals go to every node", func(t *testing.T) {
		const lease = 5 * time.Second
		s := kit.OpenCluster(t, cluster, &holdfast.Options{Lease: lease})
		var holds []*holdfast.Hold
		for _, name := range names {
			holds = append(holds, kit.Lock(t, t.Context(), rlock.New(s, "renewed:"+name, nil)))
		}
		<-time.After(lease * 3 / 2) // the passing of leases is what is tested
		for _, hold := range holds {
			assert.NoError(t, hold.Err())
			assert.NoError(t, hold.Release())
		}
	})
	t.Run("names whose keys would not share a slot are refused", func(t *testing.T) {
		s := kit.OpenCluster(t, cluster, nil)
		for _, name := range []string{"}", "a}b", "{", "a{b", "a{}b", "}{a}"} {
			_, err := rlock.New(s, name, nil).Lock(t.Context())
			assert.ErrorContains(t, err, "cannot be used in a cluster", "%q", name)
		}
	})
	t.Run("Close releases everywhere", func(t *testing.T) {
		s := kit.OpenCluster(t, cluster, nil)
		for _, name := range names {
			kit.Lock(t, t.Context(), rlock.New(s, "closed:"+name, nil))
		}
		require.NoError(t, s.Close())
		for key := range cluster.Keyspace(t) {
			assert.NotContains(t, key, "closed:")
		}
	})
}

// subscribers reports whether somebody listens for releases of the name.
func subscribers(t *testing.T, cluster *redistest.Cluster, node *redistest.Server, name, mode string) bool {
	t.Helper()
	const channel = "*_*:"
	if name[0] != 'a' { // otherwise it has its own hash tag
		name = "{" + name + "}"
	}
	if mode == "sharded" || mode == "auto" && cluster.Sharded() {
		return len(node.Strs(t, "PUBSUB", "SHARDCHANNELS", channel+name+"*")) > 0
	}
	for _, n := range cluster.Nodes { // plain subscriptions are on any node that the client chooses
		if len(n.Strs(t, "PUBSUB", "CHANNELS", channel+name+"*")) > 0 {
			return true
		}
	}
	return false
}

func TestASlotThatMovesKeepsItsWaiter(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	cluster.NeedSharded(t)
	a, b := kit.OpenCluster(t, cluster, nil), kit.OpenCluster(t, cluster, nil)
	for i := range 3 {
		name := fmt.Sprint("moving:", i)
		hold := kit.Lock(t, t.Context(), rlock.New(a, name, nil))
		got := kit.GoLock(t.Context(), rlock.New(b, name, nil).Lock)
		from := cluster.NodeOf(t, name)
		kit.Await(t, "the waiter", func() bool { return subscribers(t, cluster, from, name, "sharded") })

		to := cluster.Nodes[0]
		if to == from {
			to = cluster.Nodes[1]
		}
		cluster.MoveSlot(t, name, to)
		kit.Await(t, "the subscription at the new node",
			func() bool { return subscribers(t, cluster, to, name, "sharded") })
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Release())
		r := kit.Within(t, kit.Told, got, "the waiter's lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	}
}

// While a node is down, or during its failover, programs still start: only the locks on that node wait.
func TestASessionOpensWhicheverNodeOfAClusterIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	for _, n := range cluster.Nodes {
		n.Stop()
		for range 3 {
			s := kit.OpenCluster(t, cluster, nil)
			for i := range 9 {
				name := fmt.Sprintf("opened:%d", i)
				if cluster.NodeOf(t, name) != n {
					require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, name, nil)).Release())
				}
			}
			require.NoError(t, s.Close())
		}
		n.Restart()
		cluster.AwaitOK(t)
	}
}

// ofNoSlots starts a node of a cluster that has no slots. Its client knows no node, like one that finds a node that is
// down before one that is up.
func ofNoSlots(t *testing.T) (*redistest.Server, rueidis.Client) {
	t.Helper()
	srv := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr()}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.Empty(t, client.Nodes())
	return srv, client
}

func TestAClientThatKnowsNoNodeYetIsMadeToAsk(t *testing.T) {
	t.Parallel()
	srv, client := ofNoSlots(t)
	_, err := holdfast.NewSession(client, nil)
	require.ErrorContains(t, err, "knows no node")
	srv.AddSlots(t, 0, wire.Slots)
	_, err = survey.Overview(client, false).Walk(t.Context(), "", func([]*survey.Object) error { return nil })
	require.NoError(t, err)
	require.NotEmpty(t, client.Nodes())

	srv, client = ofNoSlots(t)
	srv.AddSlots(t, 0, wire.Slots)
	s, err := holdfast.NewSession(client, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// The node may be silent to which the client sends what makes it ask.
func TestAClientThatKnowsNoNodeYetDoesNotWaitForASilentOne(t *testing.T) {
	t.Parallel()
	well, client := ofNoSlots(t)
	still, _ := ofNoSlots(t)
	asked := int(wire.Slot("any"))
	well.AddSlots(t, 0, asked)
	well.AddSlots(t, asked+1, wire.Slots)
	still.AddSlots(t, asked, asked+1)
	still.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", "2")
	host, port, err := net.SplitHostPort(still.Addr())
	require.NoError(t, err)
	well.Do(t, "CLUSTER", "MEET", host, port)
	kit.Await(t, "all slots", func() bool {
		return strings.Contains(well.Str(t, "CLUSTER", "INFO"), "cluster_slots_assigned:16384")
	})
	still.Pause()
	defer still.Resume()
	s, err := holdfast.NewSession(client, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// namesOn returns n names in different slots that are on a node.
func namesOn(t *testing.T, cluster *redistest.Cluster, node *redistest.Server, n int) (names []string) {
	t.Helper()
	for i := 0; len(names) < n; i++ {
		if name := "on:" + strconv.Itoa(i); cluster.NodeOf(t, name) == node {
			names = append(names, name)
		}
	}
	return names
}

// What is given up on one node is given back at once, whatever another node does.
func TestANodeThatStandsStillKeepsNothingFromBeingGivenBack(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	well, still := cluster.Nodes[0], cluster.Nodes[2]
	opts := &holdfast.Options{Lease: 15 * time.Second}
	a, b := kit.OpenCluster(t, cluster, opts), kit.OpenCluster(t, cluster, opts)
	stuck, given := namesOn(t, cluster, still, 1)[0], namesOn(t, cluster, well, 1)[0]
	for _, name := range []string{stuck, given} {
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(a, name, nil)).Release())
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(b, name, nil)).Release())
	}

	still.Pause()
	_, err := rlock.New(a, stuck, nil).TryLockFor(t.Context(), 50*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	for range 3 {
		well.Pause() // so that the attempt is cut off, and granted afterwards
		_, err = rlock.New(a, given, nil).TryLockFor(t.Context(), 50*time.Millisecond)
		require.ErrorIs(t, err, holdfast.ErrUnknown)
		well.Resume()
		r := kit.Within(t, kit.Told, kit.GoLock(t.Context(), rlock.New(b, given, nil).Lock), "what was given up")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	}
	still.Resume()
}

// A node that has become a master knows no scripts, so it is sent them, whatever another node does meanwhile.
func TestANodeThatStandsStillKeepsCloseFromNoOtherNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	well, still := cluster.Nodes[0], cluster.Nodes[2]
	s := kit.OpenCluster(t, cluster, &holdfast.Options{Lease: 30 * time.Second})
	for _, node := range []*redistest.Server{well, still} {
		kit.Lock(t, t.Context(), rlock.New(s, namesOn(t, cluster, node, 1)[0], nil))
	}
	well.Do(t, "SCRIPT", "FLUSH")
	still.Pause()
	defer still.Resume()
	err := s.Close()
	require.Empty(t, well.Keyspace(t))
	require.ErrorContains(t, err, "1 of 2 releases failed")
}

// The client sends nothing at all of a batch if it knows no owner of one of its slots. That is so from Redis 8 on while
// a master without a replica is down, and with any version when nobody has a slot.
func TestCloseGivesBackWhatIsOnSlotsThatHaveAnOwner(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
	s := kit.OpenCluster(t, cluster, &holdfast.Options{Lease: 30 * time.Second})
	var names []string
	for _, n := range cluster.Nodes {
		names = append(names, namesOn(t, cluster, n, 3)...)
	}
	for _, name := range names {
		kit.Lock(t, t.Context(), rlock.New(s, name, nil))
	}
	lost := names[0]
	for _, n := range cluster.Nodes {
		n.Do(t, "CLUSTER", "DELSLOTS", strconv.Itoa(int(wire.Slot(lost))))
	}
	client := (*session.Session)(s).Config().Client
	kit.Await(t, "the client to learn that nobody has the slot", func() bool {
		return errors.Is(client.Do(t.Context(), client.B().Get().Key(lost).Build()).Error(), rueidis.ErrNoSlot)
	})
	require.ErrorContains(t, s.Close(), "1 of 9 releases failed")
	for _, n := range cluster.Nodes {
		assert.Subset(t, []string{lost}, n.Strs(t, "KEYS", "*"))
	}
}

// The first waiter of a session for a lock of a slot hears of its release, whichever node might have told where the
// slot is.
func TestANodeThatStandsStillKeepsNobodyFromHearing(t *testing.T) {
	t.Parallel()
	for mode, pubsub := range map[string]holdfast.PubSubMode{
		"sharded": holdfast.PubSubSharded,
		"plain":   holdfast.PubSubPlain,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
			if mode == "sharded" {
				cluster.NeedSharded(t)
			}
			opts := &holdfast.Options{Lease: 15 * time.Second, PubSub: pubsub}
			well, still := cluster.Nodes[:2], cluster.Nodes[2]
			names := [][]string{namesOn(t, cluster, well[0], 8), namesOn(t, cluster, well[1], 8)}
			a, waiters := kit.OpenCluster(t, cluster, opts), make([]*holdfast.Session, 4)
			for i := range waiters {
				waiters[i] = kit.OpenCluster(t, cluster, opts)
			}
			still.Pause()
			for i := range 16 {
				b, name := waiters[i/4], names[i%2][i/2]
				hold := kit.Lock(t, t.Context(), rlock.New(a, name, nil))
				got := kit.GoLock(t.Context(), rlock.New(b, name, nil).Lock)
				kit.AwaitSoon(t, 2*time.Second, "a listener for "+name, func() bool { return heardOn(t, well, name) })
				require.NoError(t, hold.Release())
				r := kit.Within(t, 2*time.Second, got, "the waiter's lock")
				require.NoError(t, r.Err)
				require.NoError(t, r.Hold.Release())
			}
			still.Resume()
		})
	}
}

// heardOn reports whether somebody listens on one of the nodes for releases of the name. Redis 6.2 has no shard
// channels.
func heardOn(t *testing.T, nodes []*redistest.Server, name string) bool {
	t.Helper()
	return slices.ContainsFunc(nodes, func(n *redistest.Server) bool {
		return slices.ContainsFunc([]string{"CHANNELS", "SHARDCHANNELS"}, func(list string) bool {
			heard, err := n.Try("PUBSUB", list, "*{"+name+"}")
			channels, _ := heard.([]any)
			return err == nil && len(channels) > 0
		})
	})
}

// A node that runs a slow script when a session opens does not make its messages plain for ever.
func TestABusyNodeDoesNotMakeTheMessagesOfASessionPlain(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, "--lua-time-limit", "20")
	c.NeedSharded(t)
	busy := c.Nodes[0]
	conn, err := redistest.Dial(busy.Addr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Send("EVAL", "while true do end", "0"))
	kit.Await(t, "a busy server", func() bool {
		_, err := busy.Try("PING")
		return err != nil
	})
	defer busy.Do(t, "SCRIPT", "KILL")
	for range 10 { // each asks the nodes in another order
		s := kit.OpenWith(t, rueidis.ClientOption{InitAddress: c.Addrs()[1:]}, nil)
		require.True(t, (*session.Session)(s).Config().Sharded)
		require.NoError(t, s.Close())
	}
}
