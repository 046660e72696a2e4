package locks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A lined is a kind of lock that a release hands to the next waiter.
type lined struct {
	name        string
	take        func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error)
	queue, told string   // key of the list of waiters, and how the channels begin on which sessions are told
	moves       []string // what may become of the lock's slot
}

var linedKinds = []lined{
	{
		"rlock", func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return rlock.New(s, name, nil).Lock(ctx)
		},
		"holdfast_line:{%s}", "holdfast_line:{%s}:",
		[]string{"stays", "moves", "is half moved"},
	},
	{ // which waits while its slot is half moved
		"fairlock", func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return fairlock.New(s, name, nil).Lock(ctx)
		},
		"redisson_lock_queue:{%s}", "holdfast_fair:{%s}:",
		[]string{"stays", "moves"},
	},
	{
		"write half", func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return rwlock.New(s, name, nil).Write().Lock(ctx)
		},
		"holdfast_rwlock_line:{%s}", "holdfast_rwlock_line:{%s}:",
		[]string{"stays", "moves", "is half moved"},
	},
}

// waits has a call of a session of its own wait for the lock, and returns when n wait.
func (k lined) waits(
	t *testing.T, s *holdfast.Session, name string, srv func() *redistest.Server, n int,
) <-chan kit.Result {
	t.Helper()
	got := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) { return k.take(ctx, s, name) })
	kit.Await(t, "one more that waits", func() bool {
		return srv().Int(t, "LLEN", fmt.Sprintf(k.queue, name)) == int64(n)
	})
	return got
}

// passes has the lock pass on from a hold to all that wait.
func passes(t *testing.T, h *holdfast.Hold, got []<-chan kit.Result, limit time.Duration, granted func(i int)) {
	t.Helper()
	began := time.Now()
	all := make(chan kit.Result)
	for _, g := range got {
		go func() { all <- <-g }()
	}
	for i := range got {
		require.NoError(t, h.Release(), "%d", i)
		h = kit.Granted(t, limit, all, "one of those that wait")
		t.Log(i, time.Since(began))
		granted(i)
	}
	require.NoError(t, h.Release())
}

// In a cluster the line is where the lock is, whichever messages tell of a grant, and moves with its slot.
func TestALineInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	for mode, pubsub := range map[string]holdfast.PubSubMode{
		"sharded": holdfast.PubSubSharded, "plain": holdfast.PubSubPlain,
	} {
		for _, k := range linedKinds {
			t.Run(mode+" "+k.name, func(t *testing.T) {
				if pubsub == holdfast.PubSubSharded {
					cluster.NeedSharded(t)
				}
				open := func() *holdfast.Session {
					return kit.OpenCluster(t, cluster, &holdfast.Options{Lease: kit.Lease, PubSub: pubsub})
				}
				for _, move := range k.moves {
					t.Log(move)
					name := mode + " " + k.name + " " + move
					h, err := k.take(t.Context(), open(), name)
					require.NoError(t, err)
					node := cluster.NodeOf(t, name)
					var got []<-chan kit.Result
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
					passes(t, h, got, 3*kit.LongestWait, func(i int) {
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
			opt := rueidis.ClientOption{
				InitAddress: set.SentinelAddrs(), Sentinel: rueidis.SentinelOption{MasterSet: set.MasterName},
			}
			open := func() *holdfast.Session {
				return kit.OpenWith(t, opt, &holdfast.Options{Lease: 12 * time.Second})
			}
			h, err := k.take(t.Context(), open(), "orders")
			require.NoError(t, err)
			var got []<-chan kit.Result
			for i := range 5 {
				got = append(got, k.waits(t, open(), "orders", set.Master, i+1))
			}
			require.EqualValues(t, 1, set.Master().Int(t, "WAIT", "1", "1000"), "the replica has it")
			set.Failover(t)
			require.NoError(t, h.Err())
			kit.Await(t, "somebody who listens at the new master", func() bool {
				return len(set.Master().Strs(t, "PUBSUB", "CHANNELS", fmt.Sprintf(k.told, "orders")+"*")) > 0
			})
			passes(t, h, got, kit.LongestWait, func(int) {})
			kit.Await(t, "an empty server", func() bool { return len(set.Master().Keyspace(t)) == 0 })
		})
	}
}
