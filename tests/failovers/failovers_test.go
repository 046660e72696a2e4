// Package failovers kills masters under load, and looks from outside for locks that two processes have: those of
// sessions that ask all replicas (Options.Acks), and those of sessions that ask none.
package failovers

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/worker"
)

func TestMain(m *testing.M) { kit.Main(m, map[string]func([]string){"holder": holder}) }

// failoversVariable is an environment variable that asks for more failovers than the few of the default, in all.
const failoversVariable = "HOLDFAST_FAILOVERS"

// manyFailovers take so long that they mostly wait in two deployments of each kind at once.
const manyFailovers = 20

func failovers(t *testing.T) int {
	t.Helper()
	text := os.Getenv(failoversVariable)
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, failoversVariable)
	return n
}

// longOutage is longer than elections take that do not fail.
const longOutage = 15 * time.Second

// ways are what happens to the stream to the replica before its master is killed.
var ways = []string{"held back and lost", "not touched", "cut off", "held back and delivered when the master is dead"}

// A lock that all replicas have is nobody else's after a failover. One that no replica was asked for may be: that the
// same failovers find such holders shows that they would find the others.
func TestNobodyElseGetsWhatAllReplicasHave(t *testing.T) {
	t.Parallel()
	n, starts := failovers(t), map[string]func(*testing.T) *shard{"Sentinel": startSentinel, "cluster": startCluster}
	if n > manyFailovers {
		starts["another Sentinel"], starts["another cluster"] = startSentinel, startCluster
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, start(t))
			// A failover shows nothing if the replica still has, of the locks that are kept, what its master had before.
			for i, each := 0, (n+len(starts)-1)/len(starts); i < each || c.crowds(none) == 0 && i < 3*each; i++ {
				c.failOver(t, ways[i%len(ways)], i/len(ways)%2 == 0)
				if i%10 == 9 {
					t.Log(c)
				}
				require.Zero(t, c.crowds(all), "failover %d, with the stream %s: two holders", i+1, ways[i%len(ways)])
			}
			c.report(t)
			require.Positive(t, c.crowds(none), "with no replica asked, the failovers show nothing")
		})
	}
}

// A campaign is a shard whose master fails again and again.
type campaign struct {
	*shard
	board   *board.Board
	workers [][]*worker.Worker // by group; the first of each keeps holds

	done    int
	outages time.Duration // from the kill until everybody knows the new master
	found   [2]int        // failovers with two holders

	mu     sync.Mutex
	errors map[string]int // that calls have failed with
}

func newCampaign(t *testing.T, s *shard) *campaign {
	t.Helper()
	c := &campaign{shard: s, errors: map[string]int{}}
	c.plan.Board = filepath.Join(t.TempDir(), "board")
	var err error
	c.board, err = board.Open(c.plan.Board)
	require.NoError(t, err)
	for g := range groups {
		c.workers = append(c.workers, []*worker.Worker{c.start(t, g, true), c.start(t, g, false)})
	}
	return c
}

// start starts a process of a group.
func (c *campaign) start(t *testing.T, group int, keeps bool) *worker.Worker {
	t.Helper()
	p := c.plan
	p.Group, p.Keeps = group, keeps
	text, err := json.Marshal(p)
	require.NoError(t, err)
	return worker.Start(t, c.hear, "holder", string(text))
}

func (c *campaign) hear(failed string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors[failed]++
}

// sum adds up what the places of a group's locks say.
func (c *campaign) sum(group int, of func(*board.Place) int64) (sum int64) {
	for i := range kinds {
		sum += of(placeOf(c.board, group, i))
	}
	return sum
}

func (c *campaign) crowds(group int) int64 {
	return c.sum(group, func(p *board.Place) int64 { return p.Crowds.Load() })
}

func (c *campaign) taken(group int) int64 {
	return c.sum(group, func(p *board.Place) int64 { return p.Taken.Load() })
}

// failOver lets the shard's master fail once, under load, when the stream to its replica was treated in that way. If
// asked, those who have locks are stopped meanwhile, so that nobody can tell them that their locks are lost.
func (c *campaign) failOver(t *testing.T, way string, stops bool) {
	t.Helper()
	c.awaitWhole(t)
	c.enter(going)
	var before, crowds [2]int64
	for g := range groups {
		before[g], crowds[g] = c.taken(g), c.crowds(g)
		keptOf(c.board, g).Store(0)
	}
	c.await(t, "load", func() bool { return c.taken(all) >= before[all]+20 && c.taken(none) >= before[none]+20 })

	master, replica := c.members[c.master], c.members[1-c.master]
	c.enter(keeping)
	c.await(t, "holds that all replicas have", func() bool { return keptOf(c.board, all).Load() > 0 })
	stream := master.stream()
	lost := way == "held back and lost" || way == "cut off"
	switch way {
	case "not touched":
	case "cut off":
		master.proxy.SetServer(nowhere)
		stream.Cut()
	default:
		stream.Stall(proxy.ToClient)
	}
	c.enter(kept)
	c.await(t, "holds that no replica was asked for", func() bool { return keptOf(c.board, none).Load() > 0 })
	kit.SleepUntil(time.Now().Add(time.Duration(rand.IntN(100)) * time.Millisecond)) // any moment
	if stops {
		for _, workers := range c.workers {
			workers[0].Pause()
		}
	}
	killed := time.Now()
	master.Stop()
	switch {
	case lost:
		stream.Cut()
	default:
		stream.Resume()
	}
	c.await(t, "another master", func() bool { return replica.role() == "master" && c.agree(replica, false) == "" })
	outage := time.Since(killed)
	c.outages += outage
	if outage > longOutage {
		t.Logf("failover %d, with the stream %s, took %v; the replica:\n%s", c.done+1, way, outage, replica.LogTail())
	}

	second := func() bool { return c.crowds(none) > crowds[none] }
	patience := time.Second
	if lost && stops { // a waiter looks after six seconds, when its session is back
		patience = 15 * time.Second
	}
	for end := time.Now().Add(patience); !second() && time.Now().Before(end); {
		kit.SleepUntil(time.Now().Add(5 * time.Millisecond))
	}
	kit.SleepUntil(time.Now().Add(300 * time.Millisecond)) // for those who would get what all replicas have
	for _, workers := range c.workers {
		workers[0].Resume()
	}
	c.rejoin(t, master)
	c.awaitWhole(t)
	if stops {
		c.replace(t)
	}
	c.enter(going)
	c.done++ // with the next round
	for g := range groups {
		if c.crowds(g) > crowds[g] {
			c.found[g]++
		}
	}
}

// enter begins a phase of the round.
func (c *campaign) enter(phase int64) { c.board.Open.Store(int64(c.done)*phases + phase) }

// replace puts new processes in the place of those that were stopped, as their owners would.
func (c *campaign) replace(t *testing.T) {
	t.Helper()
	for g, workers := range c.workers {
		workers[0].Kill()
		for i := range kinds {
			for round := range int64(2) {
				trustOf(c.board, g, i, true, round).Store(0)
			}
		}
		workers[0] = c.start(t, g, true)
	}
}

// await waits for as long as a failover, its elections included, can take on a busy machine.
func (c *campaign) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(c)
		}
	}()
	kit.AwaitFor(t, 2*time.Minute, fmt.Sprintf("failover %d: %s", c.done+1, what), holds)
}

// String is what everybody knows at the moment.
func (c *campaign) String() string {
	var text strings.Builder
	for g, group := range groups {
		fmt.Fprintf(&text, "%s: %d acquisitions, %d of them beside a holder, in %d failovers, %d kept; ",
			group.name, c.taken(g), c.crowds(g), c.found[g], keptOf(c.board, g).Load())
	}
	for _, m := range c.members {
		fmt.Fprintf(&text, "%s is a %q; ", m.Addr(), m.role())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("after %d failovers: %s%s; calls failed with %v",
		c.done, &text, c.agree(c.members[c.master], true), c.errors)
}

// report logs the figures, and ends the processes.
func (c *campaign) report(t *testing.T) {
	t.Helper()
	for _, w := range slices.Concat(c.workers...) {
		w.End()
	}
	for _, w := range slices.Concat(c.workers...) {
		kit.Within(t, time.Minute, w.Ended(), "the end of a process")
	}
	t.Logf("%d failovers, each for %v", c.done, (c.outages / time.Duration(c.done)).Round(time.Millisecond))
	for g, group := range groups {
		asked := c.sum(g, func(p *board.Place) int64 { return p.Asked.Load() })
		t.Logf("replicas asked: %s; %d acquisitions of %d calls; %d were granted beside a holder, in %d of the failovers",
			group.name, c.taken(g), asked, c.crowds(g), c.found[g])
	}
	for _, text := range slices.Sorted(maps.Keys(c.errors)) {
		t.Logf("%d calls failed: %s", c.errors[text], text)
	}
}
