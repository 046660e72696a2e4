package bench

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A Shape says who passes a lock on to whom.
type Shape struct {
	Kind                  string // one of takers
	Processes, Goroutines int    // Goroutines in each process
	Work                  time.Duration
	Turns                 int  // of each goroutine; 0: any number
	OwnNames              bool // the goroutines of a process want a lock each
	MayFail               bool // goroutines whose call fails take no more
}

func (s Shape) mayHold() int64 {
	if strings.HasSuffix(s.Kind, "semaphore") {
		return permits
	}
	return 1
}

// MaxProcesses is how many processes are started at most. Where a shape has more, each process has several sessions:
// to the server a session is what a process is.
var MaxProcesses = 200

// Passing is what an acquisition costs in a shape, and who gets the lock how often.
type Passing struct {
	Started       int // processes
	Acquisitions  int64
	PerSecond     float64
	Calls, Inside float64 // scripts, and commands inside them: per acquisition, or per second if there are none
	Script, CPU   float64 // µs per acquisition in scripts, and of the server altogether
	Jain          float64 // Jain's index over processes: 1 is fair
	Within        float64 // the same over goroutines
	Least         float64 // the least share of a process, relative to a fair share
	Connections   int
}

// crew is a shape that runs.
type crew struct {
	Shape
	tb      testing.TB
	srv     *redistest.Server
	board   *board.Board
	workers []*worker.Worker
}

// assemble starts a server and the processes. These stand behind a barrier when it returns.
func assemble(tb testing.TB, s Shape) *crew {
	return assembleBehind(tb, s, func(_ int, server string) string { return server })
}

// assembleBehind is assemble with processes that reach the server at the addresses that front returns.
func assembleBehind(tb testing.TB, s Shape, front func(process int, server string) string) *crew {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "board")
	b, err := board.Open(path)
	must(tb, err)
	c := &crew{Shape: s, tb: tb, srv: redistest.Start(tb), board: b}
	ready := make(chan string, s.Processes)
	n := min(s.Processes, MaxProcesses)
	for i := range n {
		first, next := i*s.Processes/n, (i+1)*s.Processes/n
		o := order{Shape: s, Addr: front(i, c.srv.Addr()), Board: path, Process: i, First: first, Sessions: next - first}
		text, err := json.Marshal(o)
		must(tb, err)
		c.workers = append(c.workers, worker.Start(tb, func(line string) { ready <- line }, "taker", string(text)))
	}
	for _, w := range c.workers {
		select {
		case <-ready:
		case <-w.Ended():
			tb.Fatal("a process has ended before the measurement")
		case <-time.After(time.Minute):
			tb.Fatal("a process does not start")
		}
	}
	return c
}

// hold takes the lock, or all permits, in this process, and returns what releases it, or one of them.
func (c *crew) hold() (release func()) {
	take := takers[c.Kind](open(c.tb, 30*time.Second, c.srv.Addr()), c.srv.Addr(), passed)
	var give func() error
	for range c.mayHold() {
		var err error
		give, err = take()
		must(c.tb, err)
		c.board.Holders.Add(1)
	}
	return func() {
		c.board.Holders.Add(-1)
		must(c.tb, give())
	}
}

// begin lets the first n processes begin. It returns a second after all their goroutines have asked for the lock.
func (c *crew) begin(n int) {
	c.board.Open.Store(int64(n))
	c.await("all ask", time.Minute, func() bool {
		for i := range n * c.Processes / len(c.workers) * c.Goroutines {
			if c.board.Places[i].Asked.Load() == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(time.Second)
}

// taken returns how often each goroutine has had the lock.
func (c *crew) taken() []int64 {
	counts := make([]int64, c.Processes*c.Goroutines)
	for i := range counts {
		counts[i] = c.board.Places[i].Taken.Load()
	}
	return counts
}

func (c *crew) sum() (n int64) {
	for _, taken := range c.taken() {
		n += taken
	}
	return n
}

func (c *crew) await(what string, limit time.Duration, cond func() bool) {
	c.tb.Helper()
	for end := time.Now().Add(limit); !cond(); time.Sleep(time.Millisecond / 2) {
		if time.Now().After(end) {
			c.tb.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// watch measures while f runs.
func (c *crew) watch(f func()) Passing {
	before := c.taken()
	cpu, began := c.srv.CPU(c.tb), time.Now()
	c.srv.ResetStats(c.tb)
	f()
	took := time.Since(began)
	after := c.taken()
	stats, script := c.srv.CommandStats(c.tb), workedFor(c.tb, c.srv)
	p := Passing{Started: len(c.workers), Connections: c.srv.Connections(c.tb), CPU: c.srv.CPU(c.tb) - cpu}

	perSession := make([]int64, c.Processes)
	for i := range after {
		after[i] -= before[i]
		perSession[i/c.Goroutines] += after[i]
		p.Acquisitions += after[i]
	}
	for name, calls := range stats {
		switch name {
		case "evalsha", "eval", "fcall":
			p.Calls += float64(calls)
		case "ping", "hello", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "script|load", "client|setinfo":
		default:
			p.Inside += float64(calls)
		}
	}
	p.PerSecond = float64(p.Acquisitions) / took.Seconds()
	per := float64(p.Acquisitions)
	if per == 0 {
		per = took.Seconds()
	}
	p.Calls, p.Inside, p.Script, p.CPU = p.Calls/per, p.Inside/per, script/per, p.CPU/per
	p.Jain, p.Least = board.Fairness(perSession)
	p.Within, _ = board.Fairness(after)
	if n := c.board.Crowds.Load(); n > 0 {
		c.tb.Errorf("%d times there were too many holders", n)
	}
	return p
}

// MeasurePassing measures a shape for a while in which everybody is busy.
func MeasurePassing(tb testing.TB, s Shape, window time.Duration) Passing {
	c := assemble(tb, s)
	c.begin(len(c.workers))
	return c.watch(func() { time.Sleep(window) })
}

// MeasureBesideMutex returns at which rate a lock passes on inside a process, relative to a mutex: in turns, as
// others may use the machine too.
func MeasureBesideMutex(tb testing.TB, s Shape, window time.Duration) float64 {
	mutex := s
	mutex.Kind = "mutex"
	crews, taken := []*crew{assemble(tb, s), assemble(tb, mutex)}, []int64{0, 0}
	const turn = 200 * time.Millisecond
	for range window / turn {
		for i, c := range crews {
			c.board.Open.Store(1)
			time.Sleep(turn / 4)
			before := c.sum()
			time.Sleep(turn)
			taken[i] += c.sum() - before
			c.board.Open.Store(0)
			time.Sleep(turn / 4)
		}
	}
	return float64(taken[0]) / float64(taken[1])
}

// MeasureOnce measures how a lock passes once through processes in which one goroutine each waits: the costs from
// their asking to the last release, the rate from the first release on.
func MeasureOnce(tb testing.TB, kind string, processes int) Passing {
	c := assemble(tb, Shape{Kind: kind, Processes: processes, Goroutines: 1, Turns: 1})
	release := c.hold()
	var took time.Duration
	p := c.watch(func() {
		c.begin(len(c.workers))
		began := time.Now()
		release()
		for _, w := range c.workers {
			<-w.Ended()
		}
		took = time.Since(began)
	})
	p.PerSecond = float64(p.Acquisitions) / took.Seconds()
	return p
}

// MeasureIdle measures what one process sends that waits for many locks, all held by this one, and its connections.
func MeasureIdle(tb testing.TB, kind string, names int, window time.Duration) Passing {
	c := assemble(tb, Shape{Kind: kind, Processes: 1, Goroutines: names, OwnNames: true})
	s := open(tb, time.Hour, c.srv.Addr()) // nothing is renewed meanwhile
	for i := range names {
		_, err := takers[kind](s, c.srv.Addr(), ownName(i))()
		must(tb, err)
	}
	c.begin(1)
	p := c.watch(func() { time.Sleep(window) })
	p.Connections-- // the holder's
	return p
}

// What may happen to a waiter that is a process and has a proxy between itself and the server.
var (
	Killed = func(w *worker.Worker, _ *proxy.Proxy) { w.Kill() }
	Frozen = func(w *worker.Worker, _ *proxy.Proxy) { w.Pause() }
	CutOff = func(_ *worker.Worker, p *proxy.Proxy) { p.Silence() }
)

// MeasureSuccession returns how long after a release the second waiter has the lock if something happened to the first
// one just before. Both are processes.
func MeasureSuccession(tb testing.TB, kind string, happens func(*worker.Worker, *proxy.Proxy)) time.Duration {
	var way *proxy.Proxy
	shape := Shape{Kind: kind, Processes: 2, Goroutines: 1, Turns: 1, MayFail: true}
	c := assembleBehind(tb, shape, func(process int, server string) string {
		if process > 0 {
			return server
		}
		way = proxy.Start(tb, server)
		return way.Addr()
	})
	release := c.hold()
	c.begin(1)
	c.begin(2)
	happens(c.workers[0], way)
	began := time.Now()
	release()
	c.await("the second waiter has the lock", time.Minute, func() bool { return c.board.Places[1].Taken.Load() > 0 })
	return time.Since(began)
}

// MeasureBesideJava is MeasurePassing of an rlock that a thread of Redisson also takes all the time. It returns the
// thread's share too, relative to a fair one. The calls are those of all.
func MeasureBesideJava(tb testing.TB, java *interop.Java, s Shape, window time.Duration) (p Passing, share float64) {
	const warmUp = time.Second // Java compiles
	c := assemble(tb, s)
	client := java.Connect(tb, interop.Config{Addresses: []string{c.srv.Addr()}})
	racer := client.Thread(tb, "racer").Object(interop.RLock, passed)
	c.begin(len(c.workers))
	turns := racer.StartTurns(-time.Millisecond, warmUp, window, s.Work)
	time.Sleep(warmUp)
	p = c.watch(func() { time.Sleep(window) })
	n, _ := turns.OK(tb).Turns()
	return p, float64(n) * float64(s.Processes+1) / float64(p.Acquisitions+int64(n))
}
