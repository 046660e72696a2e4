package locks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
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
		for _, k := range linedLocks {
			t.Run(mode+" "+k.name, func(t *testing.T) {
				if pubsub == holdfast.PubSubSharded {
					cluster.NeedSharded(t)
				}
				open := func() *holdfast.Session {
					return kit.OpenCluster(t, cluster, &holdfast.Options{Lease: 15 * time.Second, PubSub: pubsub})
				}
				for _, move := range k.moves {
					t.Log(move)
					name := mode + " " + k.name + " " + move
					give, err := k.take(t.Context(), open(), name)
					require.NoError(t, err)
					node := cluster.NodeOf(t, name)
					var got []<-chan permitsTaken
					for i := range 4 {
						got = append(got, k.waits(t, open(), name, func() *redistest.Server { return node }, i+1))
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
						half.Take(t, fmt.Sprintf(k.queue, name))
					}
					if half != nil && k.stops {
						given := make(chan error, 1)
						go func() { given <- give() }()
						settled()
						for _, g := range got {
							require.Empty(t, g)
						}
						require.Empty(t, given)
						half.Finish(t)
						half, give = nil, func() error { return <-given }
					}
					passes(t, give, got, 3*kit.LongestWait, func(i int) {
						if i == 1 && half != nil {
							half.Finish(t)
						}
					})
				}
				kit.Await(t, "an empty cluster", func() bool {
					space := cluster.Keyspace(t)
					for key := range space { // what nobody could reach while it was elsewhere
						if (strings.HasPrefix(key, "holdfast_line") || strings.HasPrefix(key, "holdfast_rwlock_")) &&
							strings.Contains(key, "is half") {
							delete(space, key)
						}
					}
					return len(space) == 0
				})
			})
		}
	}
}

// A line survives a failover as far as the replica knew it; the others stand anew.
func TestALineAtAFailover(t *testing.T) {
	t.Parallel()
	for _, k := range linedKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			set := redistest.StartSentinels(t)
			opt := kit.BySentinel(set)
			open := func() *holdfast.Session {
				return kit.OpenWith(t, opt, &holdfast.Options{Lease: 12 * time.Second})
			}
			if k.permits {
				set.Master().Do(t, "SET", "orders", "1")
			}
			give, err := k.take(t.Context(), open(), "orders")
			require.NoError(t, err)
			var fails atomic.Bool
			if take := k.take; k.name == counting {
				k.take = func(ctx context.Context, s *holdfast.Session, name string) (func() error, error) {
					give, err := take(ctx, s, name)
					if errors.Is(err, holdfast.ErrUnknown) && fails.Load() { // it was asking; no permit is free
						return take(ctx, s, name)
					}
					return give, err
				}
			}
			var got []<-chan permitsTaken
			for i := range 5 {
				got = append(got, k.waits(t, open(), "orders", set.Master, i+1))
			}
			set.Master().AwaitReplica(t)
			fails.Store(true)
			set.Failover(t)
			listen := 1
			if k.name == counting { // whoever still asks the old master is told that nobody knows
				listen = len(got)
			}
			kit.Await(t, "somebody who listens at the new master", func() bool {
				return len(set.Master().Strs(t, "PUBSUB", "CHANNELS", fmt.Sprintf(k.told, "orders")+"*")) >= listen
			})
			fails.Store(false)
			passes(t, give, got, kit.LongestWait, func(int) {})
			kit.Await(t, "an empty server", func() bool {
				space := set.Master().Keyspace(t)
				if k.permits {
					delete(space, "orders")
				}
				return len(space) == 0
			})
		})
	}
}
