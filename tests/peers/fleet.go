package peers

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A process obeys lines, see [obey].
type process struct {
	tb      testing.TB
	w       *worker.Worker
	answers chan string
}

// A sample is what was measured, by the name of the quantity.
type sample map[string]float64

func startProcess(tb testing.TB, start func(hear func(line string)) *worker.Worker) *process {
	p := &process{tb: tb, answers: make(chan string, 1)}
	p.w = start(func(line string) { p.answers <- line })
	return p
}

func (p *process) ask(line string) sample {
	p.w.Tell(line)
	return p.answer(line)
}

func (p *process) answer(to string) sample {
	select {
	case line := <-p.answers:
		s := sample{}
		for word := range strings.FieldsSeq(line) {
			name, text, _ := strings.Cut(word, "=")
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				p.tb.Fatalf("%s: %q", to, line)
			}
			s[name] = value
		}
		return s
	case <-p.w.Ended():
		p.tb.Fatalf("%s: the process has ended", to)
	case <-time.After(5 * time.Minute):
		p.tb.Fatalf("%s: no answer", to)
	}
	return nil
}

// A fleet is all processes of a measurement, and the servers.
type fleet struct {
	tb        testing.TB
	path      string
	board     *board.Board
	processes []*process // in Go
	java      *process
	classpath string          // "": there is no Java
	warm      map[string]bool // what of Java has run for a while
	servers   map[string][]*redistest.Server
	runs      int // how many there have been, for names of their own
}

func newFleet(tb testing.TB, set Settings) *fleet {
	f := &fleet{
		tb: tb, path: filepath.Join(tb.TempDir(), "board"),
		servers: map[string][]*redistest.Server{}, warm: map[string]bool{},
	}
	var err error
	if f.board, err = board.Open(f.path); err != nil {
		tb.Fatal(err)
	}
	inJava := func(c contender) bool { return c.open == nil && set.Libraries.MatchString(c.name) }
	if !slices.ContainsFunc(contenders, inJava) {
		return f
	}
	f.classpath, err = interop.Classpath("")
	if errors.Is(err, interop.ErrNoJava) {
		fmt.Printf("\n*** NO JAVA: REDISSON IS LEFT OUT. Install a JDK 17 and Maven to have it measured: %v ***\n\n", err)
	} else if err != nil {
		tb.Fatal(err)
	}
	return f
}

// crew returns n processes that run a library; all that Redisson runs in is one, with n clients.
func (f *fleet) crew(c contender, n int) []*process {
	if c.open == nil {
		if f.java == nil {
			f.java = f.fresh(c)
		}
		return []*process{f.java}
	}
	for len(f.processes) < n {
		f.processes = append(f.processes, f.fresh(c))
	}
	return f.processes[:n]
}

// fresh starts a process.
func (f *fleet) fresh(c contender) *process {
	return startProcess(f.tb, func(hear func(line string)) *worker.Worker {
		if c.open != nil {
			return worker.Start(f.tb, hear, "peer", f.path)
		}
		// Java compiles the source when it starts.
		return worker.StartCommand(f.tb, hear, "java", exec.Command("java", "-Xmx4g", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f.classpath, "Peer.java", f.path))
	})
}

func (f *fleet) serversOf(c contender, n int) (servers []*redistest.Server) {
	key := fmt.Sprint(c.name, n)
	for len(f.servers[key]) < n {
		f.servers[key] = append(f.servers[key], redistest.Start(f.tb))
	}
	return f.servers[key]
}

func addresses(servers []*redistest.Server) string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return strings.Join(addrs, ",")
}

// A shape is who locks what, and for how long.
type shape struct {
	processes, threads int // threads, or goroutines, in each process
	hot                bool
	work               time.Duration
	bound              bool // contexts can be cancelled
	servers            int

	fresh bool // in a new process: where two calls have met on a connection, clients of rueidis use it otherwise
}

// measure has a library do the work of a shape, first to settle and then for the window.
func (f *fleet) measure(c contender, s shape, settle, window time.Duration) sample {
	servers, crew := f.serversOf(c, s.servers), []*process(nil)
	if s.fresh && c.open != nil {
		p := f.fresh(c)
		defer p.w.Kill()
		crew = []*process{p}
	} else {
		crew = f.crew(c, s.processes)
	}
	f.runs++
	threads, kind, ctx := s.threads, "own", "free"
	if c.open == nil {
		threads *= s.processes // in one process
	}
	if s.hot {
		kind = "hot"
	}
	if s.bound {
		ctx = "bound"
	}
	for i := range f.board.Places {
		f.board.Places[i] = board.Place{}
	}
	all(crew, func(int) string {
		return fmt.Sprintf("open %s %s %d %d", c.id(), addresses(servers), usualLease.Milliseconds(), s.processes)
	})
	all(crew, func(i int) string {
		return fmt.Sprintf("run %d %s %d %s %d orders%d", threads, kind, s.work.Microseconds(), ctx, i*threads, f.runs)
	})
	f.board.Open.Store(warming)
	places := f.board.Places[:s.processes*s.threads]
	for end := time.Now().Add(10 * time.Second); !everybody(places) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(settle)

	// A reading takes a while on a busy machine, so each goes with what had been acquired by then.
	for _, srv := range servers {
		srv.ResetStats(f.tb)
	}
	atCalls := acquired(places)
	spent, atSpent := total(all(crew, asking("usage"))), acquired(places)
	worked, atWorked := cpu(f.tb, servers), acquired(places)
	counts, began := taken(places), time.Now()
	f.board.Open.Store(measuring)
	time.Sleep(window)
	f.board.Open.Store(warming)
	n, seconds := taken(places), time.Since(began).Seconds()
	m := total(all(crew, asking("usage")))
	perSpent := acquired(places) - atSpent
	worked = cpu(f.tb, servers) - worked
	perWorked := acquired(places) - atWorked
	calls := sentTo(f.tb, servers, c.sent)
	perCalls := acquired(places) - atCalls
	f.board.Open.Store(shut)
	took := total(all(crew, asking("stop")))

	acquisitions := int64(0)
	for i := range n {
		n[i] -= counts[i]
		acquisitions += n[i]
	}
	result := sample{
		"rate": float64(acquisitions) / seconds, "calls": calls / perCalls, "server": worked / perWorked,
		"client": (m["cpu"] - spent["cpu"]) / perSpent, "allocs": (m["allocs"] - spent["allocs"]) / perSpent,
		"bytes": (m["bytes"] - spent["bytes"]) / perSpent, "p50": took.percentile(50), "p99": took.percentile(99),
		"failed": took["failed"], "hanging": took["hanging"],
	}
	if c.open == nil { // Java does not say
		delete(result, "allocs")
		delete(result, "bytes")
	}
	result["jain"], _ = board.Fairness(n)
	for i := range f.board.Places {
		result["overlaps"] += float64(f.board.Places[i].Crowds.Load())
	}
	return result
}

func everybody(places []board.Place) bool {
	for i := range places {
		if places[i].Asked.Load() == 0 {
			return false
		}
	}
	return true
}

func taken(places []board.Place) (counts []int64) {
	for i := range places {
		counts = append(counts, places[i].Taken.Load())
	}
	return counts
}

func acquired(places []board.Place) (n float64) {
	for _, count := range taken(places) {
		n += float64(count)
	}
	return n
}

func asking(what string) func(int) string { return func(int) string { return what } }

// all asks all processes at once.
func all(crew []*process, line func(i int) string) (answers []sample) {
	for i, p := range crew {
		p.w.Tell(line(i))
	}
	for i, p := range crew {
		answers = append(answers, p.answer(line(i)))
	}
	return answers
}

func total(samples []sample) sample {
	sum := sample{}
	for _, s := range samples {
		for name, value := range s {
			sum[name] += value
		}
	}
	return sum
}

// percentile returns how many ms the percentile of calls took, within 4.5 %.
func (s sample) percentile(p float64) float64 {
	bucket := func(i int) float64 { return s[fmt.Sprint("took", i)] }
	n := 0.0
	for i := range buckets {
		n += bucket(i)
	}
	if n == 0 {
		return math.NaN()
	}
	below := 0.0
	for i := range buckets {
		if below += bucket(i); below >= n*p/100 {
			return math.Exp2((float64(i)+0.5)/8) / 1e6
		}
	}
	return math.NaN()
}

func cpu(tb testing.TB, servers []*redistest.Server) (micros float64) {
	for _, s := range servers {
		micros += s.CPU(tb)
	}
	return micros
}

// sentTo counts what clients have sent: scripts, subscriptions, and commands that are not inside a script.
func sentTo(tb testing.TB, servers []*redistest.Server, more []string) (n float64) {
	for _, s := range servers {
		stats := s.CommandStats(tb)
		for _, name := range append([]string{"evalsha", "eval", "subscribe", "unsubscribe", "ssubscribe"}, more...) {
			n += float64(stats[name])
		}
	}
	return n
}
