package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The size of the history.
const (
	historians     = 4 // processes
	clientsEach    = 2
	deedsEach      = 3600 // of a process that is left alone
	leastDeeds     = 10_000
	historyLocks   = 8
	historyWait    = time.Second         // of waiters in a queue
	historySettled = 3 * kit.WorkerLease // nothing happens any more so long after a call with an unknown outcome
)

// historian does things to locks of a kind.
func historian(args []string) {
	k := kit.KindOf(args[2])
	narrate(args, kit.WorkerLease, func(c *client) { c.once(k) })
}

// narrate has the clients of this process do things to locks, and say of each when it began and what came of it.
func narrate(args []string, lease time.Duration, once func(c *client)) {
	s := kit.OpenWorker(args[0], lease)
	first, err := strconv.Atoi(args[1])
	kit.Must(err)
	var wg sync.WaitGroup
	for i := range clientsEach {
		c := &client{session: s, number: first + i, tell: func(d deed) { kit.Say(d) }}
		wg.Go(func() {
			for c.serial.Load() < deedsEach/clientsEach {
				once(c)
			}
		})
	}
	wg.Wait()
	_ = s.Close() // what it cannot give back ends with the lease
}

// A client of a history has one tenure after the other.
type client struct {
	session *holdfast.Session
	number  int
	serial  atomic.Int64
	tell    func(d deed) // hears each deed twice
}

// tag names the tenure that the client has next.
func (c *client) tag() string { return fmt.Sprintf("%d.%d", c.number, c.serial.Load()) }

// do does a deed and says so, before and after.
func (c *client) do(d deed, does func() string) string {
	d.Client, d.Serial, d.Call = c.number, int(c.serial.Add(1)), worker.Now()
	c.tell(d)
	d.Out = does()
	d.Return = worker.Now()
	c.tell(d)
	return d.Out
}

// outcome is the class of an error, as the model knows it.
func outcome(err error) string {
	class := kit.ClassOf(err)
	for _, known := range []string{"unknown", "lost", "not held"} {
		if strings.Contains(class, known) {
			return known // whatever else it says, such as a deadline
		}
	}
	// These match no error of ours. A connection that ends says so of a call that could not have changed anything.
	for _, refusal := range []string{": dial tcp ", ": read tcp ", ": the call reached the server too late"} {
		if strings.Contains(class, refusal) {
			return "refused"
		}
	}
	return class
}

// patience is how long a client waits: mostly for one attempt.
func patience() time.Duration { return max(0, rand.N(25*time.Millisecond)-20*time.Millisecond) }

// hurried sometimes leaves little time, so that replies come too late.
func hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	if rand.N(50) == 0 {
		return context.WithTimeout(ctx, rand.N(2*time.Millisecond))
	}
	return ctx, func() {}
}

// anyLock is the name of one of the locks.
func anyLock() string { return fmt.Sprint("lock ", rand.N(historyLocks)) }

// once takes a lock once, does some things under it if it got it, and gives it back.
func (c *client) once(k kit.Kind) {
	l := k.Make(c.session, anyLock(), 0)
	tag := c.tag()
	var holds []*holdfast.Hold
	take := func(ctx context.Context) (out string) {
		h, err := l.TryLockFor(ctx, patience())
		if err == nil {
			holds = append(holds, h)
		}
		if errors.Is(err, holdfast.ErrBusy) && k.Queues {
			return "promised" // or held
		}
		return outcome(err)
	}
	ctx, cancel := hurried(context.Background())
	c.do(deed{Lock: l.Name(), Kind: opTake, Tag: tag}, func() string { return take(ctx) })
	cancel()
	if len(holds) == 0 {
		return
	}
	ctx = holds[0].Context(context.Background())
	for range rand.N(4) {
		switch rand.N(3) {
		case 0:
			c.do(deed{Lock: l.Name(), Kind: opReenter, Tag: tag}, func() string { return take(ctx) })
		case 1:
			c.look(deed{Lock: l.Name(), Kind: opCount, Tag: tag}, holds, func() (any, error) { return l.HoldCount(ctx) })
		case 2:
			c.look(deed{Lock: l.Name(), Kind: opLocked}, nil, func() (any, error) { return l.Locked(ctx) })
		}
	}
	rand.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
	deadline := lastDeadline(holds)
	for _, h := range holds {
		c.do(deed{Lock: l.Name(), Kind: opRelease, Tag: tag, Until: deadline}, func() string { return outcome(h.Release()) })
	}
}

// lastDeadline is the moment until which one of the holds is trusted.
func lastDeadline(holds []*holdfast.Hold) (last time.Duration) {
	for _, h := range holds {
		last = max(last, worker.Now()+time.Until(h.Deadline()))
	}
	return last
}

// look looks at a lock. What it sees counts if it sees anything, and if the holds that it is about are held still.
func (c *client) look(d deed, holds []*holdfast.Hold, at func() (any, error)) {
	c.do(d, func() string {
		seen, err := at()
		for _, h := range holds {
			if h.Err() != nil {
				return "nothing"
			}
		}
		if err != nil {
			return "nothing"
		}
		return fmt.Sprint(seen)
	})
}

// A historybook hears what one process did.
type historybook struct {
	mu    sync.Mutex
	deeds map[string]deed // by client and serial
	wrong []string
}

func (b *historybook) hear(line string) {
	var d deed
	if err := json.Unmarshal([]byte(line), &d); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, line)
		return
	}
	b.write(d)
}

func (b *historybook) write(d deed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deeds[fmt.Sprint(d.Client, " ", d.Serial)] = d
}

// outs counts the deeds by what came of them.
func (b *historybook) outs(t *testing.T, counts map[string]int) {
	t.Helper()
	for _, d := range b.deeds {
		require.NotContains(t, d.Out, "other")
		counts[d.String()]++
	}
}

func (b *historybook) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.deeds)
}

// awaitDeeds waits until the book has so many: on a busy machine for longer than [await] would.
func (b *historybook) awaitDeeds(t *testing.T, n int) {
	t.Helper()
	kit.AwaitFor(t, time.Minute, "deeds of a history", func() bool { return b.size() > n })
}

// last is the last deed of each client that was about a tenure.
func (b *historybook) last() map[int]deed {
	last := map[int]deed{}
	for _, d := range b.deeds {
		if d.Serial >= last[d.Client].Serial && d.Tag != "" {
			last[d.Client] = d
		}
	}
	return last
}

// holding reports whether the last that was heard of some client is that it holds.
func (b *historybook) holding() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.last() {
		if d.Kind == opTake && d.Out == "done" || d.Kind == opReenter || d.Kind == opCount {
			return true
		}
	}
	return false
}

// A subject is what a history is about.
type subject struct {
	role, arg string      // of the processes
	releases  proxy.Match // the runs of scripts that give back
	model     porcupine.Model
	rare      []string                                // what must have happened, or the history proves too little
	settle    func(t *testing.T, s *holdfast.Session) // brings about what nobody does who does not look; nil: nothing
}

// Four processes take, re-enter, look at and release locks, while replies get lost, one of them is stopped for longer
// than its lease and one is killed. All that they saw must be explained by a reentrant mutex.
func TestAHistoryOfFourProcessesIsThatOfAMutex(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rlock", "fairlock"} {
		k := kit.KindOf(name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writeHistory(t, subject{
				role: "historian", arg: name, releases: kit.ScriptOf(k, "release"), model: reentrantMutex,
				rare: []string{"take unknown", "release unknown", "release lost"},
				settle: func(t *testing.T, s *holdfast.Session) {
					if !k.Queues {
						return
					}
					kit.SleepUntil(time.Now().Add(historyWait)) // the dead of a queue are forgotten when somebody looks
					for i := range historyLocks {
						kit.Lock(t, t.Context(), k.Make(s, fmt.Sprint("lock ", i), 10*time.Millisecond))
					}
				},
			})
		})
	}
}

// doomed are the wire owners, one of fifty, of whose releases nobody hears: how fast a machine is does not matter to that.
var doomed = regexp.MustCompile("^[0-9a-f-]{36}:[0-9]*[05]0$")

func writeHistory(t *testing.T, about subject) {
	srv := redistest.Start(t)
	books := make([]*historybook, historians)
	workers := make([]*worker.Worker, historians)
	for i := range historians {
		p := proxy.Start(t, srv.Addr())
		scripts := proxy.Command("EVALSHA", "EVAL")
		p.On(func(command []string) bool {
			switch {
			case int(time.Now().UnixMilli()/500)%(2*historians) == i: // now this one loses everything, then that
				return scripts(command)
			case about.releases(command) && slices.ContainsFunc(command, doomed.MatchString): // and all copies
				return true
			}
			return rand.N(100) == 0 && scripts(command)
		}, proxy.DropReply, proxy.EveryTime)
		books[i] = &historybook{deeds: map[string]deed{}}
		workers[i] = worker.Start(t, books[i].hear, about.role, p.Addr(), strconv.Itoa(i*clientsEach), about.arg)
	}
	books[0].awaitDeeds(t, deedsEach/3)
	workers[0].Kill()
	killed := worker.Now()
	books[1].awaitDeeds(t, deedsEach/2)
	kit.Await(t, "a hold of the second process", func() bool {
		workers[1].Pause()
		kit.SleepUntil(time.Now().Add(20 * time.Millisecond)) // in which it is heard out
		if !books[1].holding() {
			workers[1].Resume()
			return false
		}
		return true
	})
	kit.SleepUntil(time.Now().Add(kit.WorkerLease * 5 / 4))
	workers[1].Resume()
	for _, w := range workers {
		kit.Within(t, time.Minute, w.Ended(), "the end of a history")
	}
	var history []porcupine.Operation
	outs, total := map[string]int{}, 0
	for i, b := range books {
		require.Empty(t, b.wrong)
		end := time.Duration(0)
		if i == 0 {
			end = killed
		}
		history = append(history, b.operations(end)...)
		b.outs(t, outs)
		total += len(b.deeds)
	}
	t.Log(total, outs)
	require.GreaterOrEqual(t, total, leastDeeds)
	for _, rare := range about.rare {
		n := 0
		for out, count := range outs {
			if strings.HasSuffix(out, rare) { // of any half
				n += count
			}
		}
		require.NotZero(t, n, "no %s", rare)
	}
	began := time.Now()
	checkHistory(t, about.model, history)
	t.Log("checked in", time.Since(began))
	if about.settle != nil {
		about.settle(t, kit.Open(t, srv.Addr(), nil))
	}
	kit.Await(t, "the end of all leases", func() bool { return len(srv.Strs(t, "KEYS", "*")) == 0 })
}

func checkHistory(t *testing.T, model porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model, history, time.Minute)
	if result != porcupine.Ok {
		path := t.ArtifactDir() + "/history.html"
		require.NoError(t, porcupine.VisualizePath(model, info, path))
		t.Fatalf("the history is %v: see %s, with -artifacts", result, path)
	}
}

// happened is a deed of a history that somebody made up.
func happened(d deed, from, to int64) porcupine.Operation {
	return porcupine.Operation{ClientId: d.Client, Input: d, Call: from, Return: to}
}

// A checker that finds nothing proves nothing.
func TestTheModelRefusesTwoHolders(t *testing.T) {
	t.Parallel()
	at := happened
	first := at(deed{Client: 0, Kind: opTake, Tag: "a", Out: "done"}, 1, 2)
	second := at(deed{Client: 1, Kind: opTake, Tag: "b", Out: "done"}, 3, 4)
	released := at(deed{Client: 0, Kind: opRelease, Tag: "a", Out: "done"}, 5, 6)
	lost := at(deed{Client: 0, Kind: opRelease, Tag: "a", Out: "lost"}, 5, 6)
	unknown := at(deed{Client: 0, Kind: opRelease, Tag: "a", Out: "unknown"}, 2, 3)
	orphaned := func(from int64) porcupine.Operation {
		return at(deed{Client: 0, Kind: opOrphan, Tag: "a"}, from, 100)
	}
	busy := at(deed{Client: 1, Kind: opTake, Tag: "b", Out: "busy"}, 3, 4)
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		legal   bool
	}{
		{"two holders", []porcupine.Operation{first, second, released}, false},
		{"a second holder before the deadline of a loss", []porcupine.Operation{first, second, lost, orphaned(5)}, false},
		{"a second holder after the deadline of a loss", []porcupine.Operation{first, second, lost, orphaned(2)}, true},
		{"a second holder after a release without a reply", []porcupine.Operation{first, second, unknown}, true},
		{"nobody in the way", []porcupine.Operation{busy}, false},
		{"somebody in the way", []porcupine.Operation{first, busy, released}, true},
	} {
		require.Equal(t, c.legal, porcupine.CheckOperations(reentrantMutex, c.history), c.name)
	}
}
