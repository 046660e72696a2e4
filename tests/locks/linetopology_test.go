package locks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// In a cluster the line is where the lock is, whichever messages tell of a grant, and moves with its slot.
func TestALineInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	for mode, pubsub := range map[string]holdfast.PubSubMode{
		"sharded": holdfast.PubSubSharded, "plain": holdfast.PubSubPlain,
	} {
		t.Run(mode, func(t *testing.T) {
			if pubsub == holdfast.PubSubSharded {
				cluster.NeedSharded(t)
			}
			open := func() *holdfast.Session {
				return kit.OpenCluster(t, cluster, &holdfast.Options{Lease: kit.Lease, PubSub: pubsub})
			}
			for _, move := range []string{"stays", "moves", "is half moved"} {
				name := mode + " " + move
				h := kit.Lock(t, t.Context(), rlock.New(open(), name, nil))
				node := cluster.NodeOf(t, name)
				var got []<-chan kit.Result
				for i := range 4 {
					got = append(got, kit.GoLock(t.Context(), rlock.New(open(), name, nil).Lock))
					kit.Await(t, "one more in the line", func() bool {
						return node.Int(t, "LLEN", fmt.Sprintf("holdfast_line:{%s}", name)) == int64(i+1)
					})
				}
				to := cluster.Nodes[0]
				if to == node {
					to = cluster.Nodes[1]
				}
				var half *redistest.Move
				switch move {
				case "moves":
					cluster.MoveSlot(t, name, to)
				case "is half moved":
					half = cluster.OpenSlot(t, name, to)
					half.Take(t, fmt.Sprintf("holdfast_line:{%s}", name))
				}
				began := time.Now()
				all := make(chan kit.Result)
				for _, g := range got {
					go func() { all <- <-g }()
				}
				for i := range got {
					require.NoError(t, h.Release(), "%d", i)
					h = kit.Granted(t, 3*kit.LongestWait, all, "one of those that wait")
					t.Log(move, i, time.Since(began))
					if i == 1 && half != nil {
						half.Finish(t)
					}
				}
				require.NoError(t, h.Release())
			}
			kit.Await(t, "an empty cluster", func() bool {
				space := cluster.Keyspace(t)
				for key := range space { // what nobody could reach while it was elsewhere
					if strings.HasPrefix(key, "holdfast_line") && strings.Contains(key, "half") {
						delete(space, key)
					}
				}
				return len(space) == 0
			})
		})
	}
}

// A line survives a failover as far as the replica knew it; the others stand anew.
func TestALineAtAFailover(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	opt := rueidis.ClientOption{
		InitAddress: set.SentinelAddrs(), Sentinel: rueidis.SentinelOption{MasterSet: set.MasterName},
	}
	open := func() *rlock.Mutex {
		return rlock.New(kit.OpenWith(t, opt, &holdfast.Options{Lease: 12 * time.Second}), "orders", nil)
	}
	h := kit.Lock(t, t.Context(), open())
	var got []<-chan kit.Result
	for i := range 5 {
		got = append(got, kit.GoLock(t.Context(), open().Lock))
		kit.Await(t, "one more in the line", func() bool { return set.Master().Int(t, "LLEN", lineKey) == int64(i+1) })
	}
	require.EqualValues(t, 1, set.Master().Int(t, "WAIT", "1", "1000"), "the replica has it")
	set.Failover(t)
	require.NoError(t, h.Err())
	all := make(chan kit.Result)
	for _, g := range got {
		go func() { all <- <-g }()
	}
	kit.Await(t, "somebody who listens at the new master", func() bool {
		return len(set.Master().Strs(t, "PUBSUB", "CHANNELS", lineKey+":*")) > 0
	})
	began := time.Now()
	for range got {
		require.NoError(t, h.Release())
		h = kit.Granted(t, kit.LongestWait, all, "one of those that wait")
		t.Log(time.Since(began))
	}
	require.NoError(t, h.Release())
	kit.Await(t, "an empty server", func() bool { return len(set.Master().Keyspace(t)) == 0 })
}
