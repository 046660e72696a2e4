package peers

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	usualLease = 30 * time.Second
	baseline   = "bare EVALSHA (R1)"
)

// Settings narrow a measurement.
type Settings struct {
	Rows, Libraries *regexp.Regexp
	Rounds          int
	Window          time.Duration
	Names, Holds    int           // of waiters, and kept
	Lease           time.Duration // of what is kept
}

// A row is work, and what each library did of it in each round.
type row struct {
	title   string
	measure func(f *fleet, c contender, window time.Duration) sample
	once    bool // in the last round
	results map[string][]sample
}

// Tables are all that is measured.
type Tables []*table

// A table is rows of the same quantities.
type table struct {
	letter, title, about string
	columns              []column
	pivots               []string // the quantities that have a small table of their own
	plots                []plot
	rows                 []*row
}

// Measure fills the tables, and has them saved after each round and at the end, also if that is early.
func Measure(tb testing.TB, set Settings, save func(Tables)) {
	f, began := newFleet(tb, set), time.Now()
	tables := plan(set)
	defer func() { save(tables) }()
	for round := range set.Rounds {
		save(tables)
		for _, t := range tables {
			for _, r := range t.rows {
				if r.once && round < set.Rounds-1 || !set.Rows.MatchString(t.title+", "+r.title) {
					continue
				}
				f.runRow(t, r, set, round)
				fmt.Printf("%6.0f s  round %d  %s, %s\n", time.Since(began).Seconds(), round+1, t.title, r.title)
			}
		}
	}
}

// runRow has each library do the row's work, in another order in each round. R1 does it before the first, after every
// second one, and after the last, so all are measured next to it: *of R1* is of the mean of the two that are around.
func (f *fleet) runRow(t *table, r *row, set Settings, round int) {
	var others []contender
	var bare *contender
	for _, c := range contenders {
		switch {
		case !strings.Contains(c.in, t.letter) || !set.Libraries.MatchString(c.name) || c.open == nil && f.classpath == "":
		case c.name == baseline:
			bare = &c
		default:
			others = append(others, c)
		}
	}
	if bare == nil {
		for _, c := range turned(others, round) {
			f.runOne(r, c, set.Window)
		}
		return
	}
	before := f.runOne(r, *bare, set.Window)
	for few := range slices.Chunk(turned(others, round), besideR1) {
		var samples []sample
		for _, c := range few {
			samples = append(samples, f.runOne(r, c, set.Window))
		}
		after := f.runOne(r, *bare, set.Window)
		for _, s := range samples {
			s["ofR1"] = 2 * s["rate"] / (before["rate"] + after["rate"])
		}
		after["ofR1"] = after["rate"] / before["rate"]
		after["noise"] = math.Abs(after["ofR1"] - 1)
		before = after
	}
}

// besideR1 is how many libraries are measured between two measurements of R1.
const besideR1 = 2

// turned is the list, begun at another place in each round.
func turned(list []contender, round int) []contender {
	first := 0
	if len(list) > 0 {
		first = round * (besideR1 + 1) % len(list)
	}
	return slices.Concat(list[first:], list[:first])
}

func (f *fleet) runOne(r *row, c contender, window time.Duration) sample {
	s := r.measure(f, c, window)
	r.results[c.name] = append(r.results[c.name], s)
	if wrong := s["overlaps"] + s["failed"] + s["hanging"] + s["lost"]; wrong > 0 {
		fmt.Printf("*** %s, %s: %.0f times two holders at once, %.0f calls failed, %.0f hung, %.0f holds lost\n",
			c.name, r.title, s["overlaps"], s["failed"], s["hanging"], s["lost"])
		if s["overlaps"] > 0 && slices.Contains([]string{"rlock", "fairlock", "setlock"}, c.name) {
			f.tb.Errorf("%s: two holders at once", c.name)
		}
	}
	return s
}

func plan(set Settings) Tables {
	alone := &table{
		letter: "u", title: "Nobody else wants the lock",
		about: "One process, a new one for a single goroutine; each goroutine, or thread of Java, locks and releases " +
			"a name of its own.",
		columns: []column{rate, ofR1, p50, p99, calls, server, client, allocs, bytes},
		pivots:  []string{"rate", "ofR1", "server", "client"},
		plots: []plot{
			{"alone", "rate", "goroutines of one process, contexts that cannot end", "acquisitions a second", 0, 4},
			{"alone-bound", "rate", "goroutines of one process, contexts that can end", "acquisitions a second", 4, 8},
		},
	}
	for _, bound := range []bool{false, true} {
		for _, threads := range []int{1, 16, 128, 512} {
			alone.add(fmt.Sprintf("%d %s", threads, map[bool]string{false: "free", true: "bound"}[bound]),
				shape{processes: 1, threads: threads, bound: bound, fresh: threads == 1, servers: 1})
		}
	}
	hot := &table{
		letter: "h", title: "Everybody wants one lock",
		about:   "Each process has one goroutine, or thread; where there is one process, it has 16.",
		columns: []column{rate, p50, p99, calls, server, client, jain},
		pivots:  []string{"rate", "calls", "p99", "jain"},
		plots: []plot{
			{"hot", "rate", "processes that want it all the time (1: sixteen goroutines)", "acquisitions a second", 0, 4},
			{"hot-calls", "calls", "processes that want it all the time, 1 ms of work", "calls an acquisition", 4, 8},
			{"hot-jain", "jain", "processes that want it all the time, 1 ms of work", "how evenly they get it", 4, 8},
		},
	}
	for _, work := range []time.Duration{0, time.Millisecond} {
		for _, n := range []int{1, 4, 16, 48} {
			threads := 1
			if n == 1 {
				threads = 16
			}
			hot.add(fmt.Sprintf("%d, %v", n, work),
				shape{processes: n, threads: threads, hot: true, work: work, bound: true, servers: 1})
		}
	}
	red := &table{
		letter: "r", title: "RedLock on five servers",
		about:   "One process; each goroutine locks and releases a name of its own.",
		columns: []column{rate, p50, p99, calls, server, client, allocs, bytes},
	}
	for _, threads := range []int{1, 16} {
		red.add(fmt.Sprint(threads), shape{processes: 1, threads: threads, bound: true, servers: 5})
	}
	waiters := &table{
		letter: "w", title: "Waiters",
		about: "A process waits for names that another one has, first for one, then for many more. *Each* is what a waiter " +
			"takes besides the first one; that needs the connections, too.",
		columns: []column{rss, heap, first, idle},
		rows:    []*row{{title: fmt.Sprintf("%d waiters for a name each", set.Names), once: true, measure: waitersRow(set)}},
	}
	kept := &table{
		letter: "k", title: "Locks that are kept",
		columns: []column{rss, heap, renewals, server, client, lost},
		rows:    []*row{{title: fmt.Sprintf("%d renewed holds", set.Holds), once: true, measure: keptRow(set)}},
	}
	tables := Tables{alone, hot, red, waiters, kept}
	for _, t := range tables {
		for _, r := range t.rows {
			r.results = map[string][]sample{}
		}
	}
	return tables
}

func (t *table) add(title string, s shape) {
	t.rows = append(t.rows, &row{title: title, measure: func(f *fleet, c contender, window time.Duration) sample {
		settle := 150 * time.Millisecond
		if c.open == nil && !f.warm[c.name] {
			settle, f.warm[c.name] = 50*window, true // for the compiler
		}
		return f.measure(c, s, settle, window)
	}})
}

// waitersRow measures a process that waits for names which another one has: what each waiter takes once there is one,
// and what that one takes for all.
func waitersRow(set Settings) func(*fleet, contender, time.Duration) sample {
	return func(f *fleet, c contender, window time.Duration) sample {
		srv := f.serversOf(c, 1)
		holder, waiter := f.fresh(c), f.fresh(c)
		defer holder.w.Kill()
		defer waiter.w.Kill()
		open := fmt.Sprintf("open %s %s %d 1", c.id(), addresses(srv), (10 * time.Minute).Milliseconds())
		all([]*process{holder, waiter}, asking(open))
		f.board.Places[0].Crowds.Store(0)
		holder.ask("hold 1 first")
		holder.ask(fmt.Sprintf("hold %d waited", set.Names))
		none := waiter.ask("rest")
		waiter.ask("wait 1 first")
		time.Sleep(3 * window)
		one := waiter.ask("rest")
		waiter.ask(fmt.Sprintf("wait %d waited", set.Names))
		time.Sleep(3 * window)
		all := waiter.ask("rest")
		srv[0].ResetStats(f.tb)
		quiet := 10 * window // several signs of life of each, if there are such
		time.Sleep(quiet)
		n := float64(set.Names)
		return sample{
			"rss": (all["rss"] - one["rss"]) / n, "heap": (all["heap"] - one["heap"]) / n, "first": one["rss"] - none["rss"],
			"idle": sentTo(f.tb, srv, c.sent) / (n + 1) / quiet.Seconds(), "overlaps": float64(f.board.Places[0].Crowds.Load()),
		}
	}
}

// keptRow measures a process that keeps many locks for two leases.
func keptRow(set Settings) func(*fleet, contender, time.Duration) sample {
	return func(f *fleet, c contender, _ time.Duration) sample {
		srv := f.serversOf(c, 1)
		p := f.fresh(c)
		defer p.w.Kill()
		p.ask(fmt.Sprintf("open %s %s %d 1", c.id(), addresses(srv), set.Lease.Milliseconds()))
		before := p.ask("rest")
		p.ask(fmt.Sprintf("hold %d kept", set.Holds))
		after, spent, worked := p.ask("rest"), p.ask("usage"), cpu(f.tb, srv)
		srv[0].ResetStats(f.tb)
		const leases = 2
		time.Sleep(leases * set.Lease)
		n, each := float64(set.Holds), float64(set.Holds)*leases
		s := sample{
			"rss": (after["rss"] - before["rss"]) / n, "heap": (after["heap"] - before["heap"]) / n,
			"renewals": sentTo(f.tb, srv, c.sent) / each, "client": (p.ask("usage")["cpu"] - spent["cpu"]) / each,
			"server": (cpu(f.tb, srv) - worked) / each,
		}
		keys := len(srv[0].Strs(f.tb, "KEYS", "*kept*"))
		s["lost"] = math.Max(0, n-float64(keys))
		return s
	}
}

// median returns the middle of a quantity's values.
func median(samples []sample, key string) float64 {
	var values []float64
	for _, s := range samples {
		if v, ok := s[key]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}
