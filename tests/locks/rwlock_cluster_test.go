package locks

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A resharding is a cluster with sessions whose locks are caught on their way to another node.
type resharding struct {
	*redistest.Cluster
	mine, theirs, writer *holdfast.Session
}

// newResharding starts a cluster in which messages do not depend on the slot, so that waiters hear of a release
// wherever the lock is.
func newResharding(t *testing.T) *resharding {
	t.Helper()
	r := &resharding{Cluster: redistest.StartCluster(t, 2)}
	for _, s := range []**holdfast.Session{&r.mine, &r.theirs, &r.writer} {
		*s = kit.OpenCluster(t, r.Cluster, &holdfast.Options{Lease: 20 * time.Second, PubSub: holdfast.PubSubPlain})
	}
	return r
}

// name returns a name on the first node. All slots move from there to the second one, because nodes that move slots
// to and fro too fast disagree about them.
func (r *resharding) name(t *testing.T, what string) string {
	t.Helper()
	for i := 0; ; i++ {
		if name := what + "." + strconv.Itoa(i); r.NodeOf(t, name) == r.Nodes[0] {
			return name
		}
	}
}

// open begins to move the slot of a name, and moves the keys whose bit is set.
func (r *resharding) open(t *testing.T, name string, split int, keys ...string) *redistest.Move {
	t.Helper()
	move := r.OpenSlot(t, name, r.Nodes[1])
	for i, key := range keys {
		if split&(1<<i) != 0 {
			move.Take(t, key)
		}
	}
	return move
}

// readHold is the key of a read hold.
func readHold(name string, hold *holdfast.Hold, n int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", name, hold.ID(), n)
}

// splits runs a test for each way in which the keys of a lock can be spread over two nodes, including that all of
// them are still on the old node, or already on the new one.
func splits(t *testing.T, r *resharding, what string, keys int, test func(t *testing.T, name string, split int)) {
	for split := range 1 << keys {
		t.Run(fmt.Sprintf("%s:%0*b", what, keys, split), func(t *testing.T) {
			name := r.name(t, what)
			test(t, name, split)
			for _, node := range r.Nodes {
				assert.Empty(t, node.Strs(t, "KEYS", "*"+name+"*"), "nothing is left")
			}
		})
	}
}

// refuseWriter asserts that nobody may write.
func (r *resharding) refuseWriter(t *testing.T, name string) {
	t.Helper()
	hold, err := rwlock.New(r.writer, name, nil).Write().TryLock(t.Context())
	if assert.Error(t, err, "nobody may write while somebody reads") {
		return
	}
	_ = hold.Release()
}

// release begins to release a hold, and waits until it is released, or was refused for the first time. The returned
// function waits until it is released.
func (r *resharding) release(t *testing.T, hold *holdfast.Hold, atOnce bool) (finished func()) {
	t.Helper()
	r.refused(t)
	released := make(chan error, 1)
	go func() { released <- hold.Release() }()
	finished = func() { require.NoError(t, kit.Within(t, 5*time.Second, released, "the release")) }
	if atOnce {
		finished()
		return func() {}
	}
	kit.Await(t, "the release to be refused", func() bool { return r.refused(t) })
	return finished
}

// refused reports whether, since the last time, a node has refused a call because its keys are on two nodes.
func (r *resharding) refused(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(r.Nodes, func(n *redistest.Server) bool {
		stats := n.Str(t, "INFO", "errorstats")
		n.Do(t, "CONFIG", "RESETSTAT")
		return strings.Contains(stats, "errorstat_TRYAGAIN")
	})
}

// tryAgain reports whether a call was refused because its keys are on two nodes.
func tryAgain(err error) bool { return err != nil && strings.Contains(err.Error(), "TRYAGAIN") }

// While a slot moves, the keys of a lock may be on two nodes. Readers keep their holds, whatever others do.
func TestAReadLockOnItsWayToAnotherNode(t *testing.T) {
	t.Parallel()
	r := newResharding(t)
	half := func(s *holdfast.Session, name string) *rwlock.Half { return rwlock.New(s, name, nil).Read() }

	// One of two readers leaves: at once, or when its keys are on one node again.
	splits(t, r, "release", 3, func(t *testing.T, name string, split int) {
		mine, theirs := kit.Lock(t, t.Context(), half(r.mine, name)), kit.Lock(t, t.Context(), half(r.theirs, name))
		move := r.open(t, name, split, name, readHold(name, mine, 1), readHold(name, theirs, 1))
		released := r.release(t, mine, split&1 == split>>1&1)
		r.refuseWriter(t, name)
		move.Finish(t)
		released()
		r.refuseWriter(t, name)
		require.NoError(t, theirs.Err())
		held, err := half(r.theirs, name).Held(theirs.Context(t.Context()))
		require.NoError(t, err)
		require.True(t, held)
		require.NoError(t, theirs.Release())
		require.NoError(t, kit.Lock(t, t.Context(), rwlock.New(r.writer, name, nil).Write()).Release())
	})

	// A hold is renewed at once, or after another try.
	splits(t, r, "renewal", 2, func(t *testing.T, name string, split int) {
		hold := kit.Lock(t, t.Context(), half(r.mine, name))
		move := r.open(t, name, split, name, readHold(name, hold, 1))
		err := hold.Extend(t.Context(), time.Minute)
		if split == 0 || split == 3 {
			require.NoError(t, err)
		} else {
			require.True(t, tryAgain(err), "%v", err)
		}
		require.NoError(t, hold.Err())
		r.refuseWriter(t, name)
		move.Finish(t)
		require.NoError(t, hold.Extend(t.Context(), time.Minute))
		require.NoError(t, hold.Release())
	})

	// Readers are known, even where their hold's key cannot be seen.
	splits(t, r, "holders", 2, func(t *testing.T, name string, split int) {
		hold := kit.Lock(t, t.Context(), half(r.mine, name))
		move := r.open(t, name, split, name, readHold(name, hold, 1))
		holders, err := half(r.theirs, name).Holders(t.Context())
		require.NoError(t, err)
		if assert.Len(t, holders, 1) {
			assert.Equal(t, hold.ID(), holders[0].ID)
			assert.Greater(t, holders[0].Lease, 10*time.Second)
		}
		move.Finish(t)
		require.NoError(t, hold.Release())
	})

	// An inner hold is released, then the outer one.
	splits(t, r, "nested", 3, func(t *testing.T, name string, split int) {
		outer := kit.Lock(t, t.Context(), half(r.mine, name))
		inner := kit.Lock(t, outer.Context(t.Context()), half(r.mine, name))
		move := r.open(t, name, split, name, readHold(name, outer, 1), readHold(name, outer, 2))
		released := r.release(t, inner, split == 0 || split == 7)
		r.refuseWriter(t, name)
		move.Finish(t)
		released()
		require.NoError(t, outer.Err())
		r.refuseWriter(t, name)
		require.NoError(t, outer.Release())
	})

	// ForceUnlock frees the lock wherever it is, and the message is heard.
	splits(t, r, "force", 2, func(t *testing.T, name string, split int) {
		hold := kit.Lock(t, t.Context(), half(r.mine, name))
		key := readHold(name, hold, 1)
		move := r.open(t, name, split, name, key)
		was, err := half(r.theirs, name).ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, was)
		move.Finish(t)
		require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
		r.NodeOf(t, name).Do(t, "DEL", key) // it belongs to nobody until its lease has ended
	})

	// A reader that comes while the slot moves waits until it has moved.
	t.Run("acquisition", func(t *testing.T) {
		name := r.name(t, "acquisition")
		theirs := kit.Lock(t, t.Context(), half(r.theirs, name))
		move := r.open(t, name, 1, name)
		got := kit.GoLock(t.Context(), half(r.mine, name).Lock)
		kit.Await(t, "the attempt to be refused", func() bool { return r.refused(t) })
		move.Finish(t)
		mine := kit.Within(t, 5*time.Second, got, "the reader's turn")
		require.NoError(t, mine.Err)
		require.NoError(t, theirs.Release())
		r.refuseWriter(t, name)
		require.NoError(t, mine.Hold.Release())
	})

	// A reader that died delays nobody for longer than its lease, once the slot has moved.
	t.Run("dead", func(t *testing.T) {
		name := r.name(t, "dead")
		dead := kit.Lock(t, t.Context(), half(r.theirs, name))
		mine := kit.Lock(t, t.Context(), half(r.mine, name))
		r.NodeOf(t, name).Do(t, "DEL", readHold(name, dead, 1))
		require.NoError(t, mine.Release())
		require.NoError(t, kit.Lock(t, t.Context(), rwlock.New(r.writer, name, nil).Write()).Release())
	})

	// A writer that goes on reading after a downgrade keeps the lock, wherever its keys are.
	splits(t, r, "downgrade", 2, func(t *testing.T, name string, split int) {
		l := rwlock.New(r.mine, name, nil)
		writing := kit.Lock(t, t.Context(), l.Write())
		reading := kit.Lock(t, writing.Context(t.Context()), l.Read())
		move := r.open(t, name, split, name, readHold(name, reading, 1))
		require.NoError(t, writing.Release())
		r.refuseWriter(t, name)
		require.NoError(t, reading.Err())
		move.Finish(t)
		r.refuseWriter(t, name)
		require.NoError(t, reading.Extend(t.Context(), time.Minute))
		require.NoError(t, reading.Release())
	})
}

// Slots that move under load cost time, but neither a lock nor a call.
func TestAReadWriteLockMovesUnderLoad(t *testing.T) {
	t.Parallel()
	r := newResharding(t)
	for range kit.Stressed(4, 10) {
		name := r.name(t, "loaded")
		var readers, writers atomic.Int64
		var wg sync.WaitGroup
		moved := make(chan struct{})
		work := func(half *rwlock.Half, inside, others *atomic.Int64, most int64) {
			for done := false; !done; {
				select {
				case <-moved:
					done = true // once more
				default:
				}
				assert.NoError(t, holdfast.Do(t.Context(), half.Lock, func(ctx context.Context) error {
					assert.LessOrEqual(t, inside.Add(1), most)
					assert.Zero(t, others.Load(), "somebody reads while somebody writes")
					inside.Add(-1)
					return ctx.Err()
				}))
			}
		}
		for _, s := range []*holdfast.Session{r.mine, r.theirs} {
			l := rwlock.New(s, name, nil)
			for range 2 {
				wg.Go(func() { work(l.Read(), &readers, &writers, 4) })
			}
			wg.Go(func() { work(l.Write(), &writers, &readers, 1) })
		}
		move := r.open(t, name, 0)
		for range 5 { // key by key
			for _, key := range move.From.Strs(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(int(wire.Slot(name))), "1") {
				move.Take(t, key)
			}
		}
		move.Finish(t)
		close(moved)
		wg.Wait()
		for _, node := range r.Nodes {
			assert.Empty(t, node.Strs(t, "KEYS", "*"+name+"*"), "nothing is left")
		}
	}
}
