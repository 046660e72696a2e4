package bench_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/tests/bench"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/worker"
)

var window = flag.Duration("window", 2*time.Second, "how long PassingOn measures a row; 10s shows who starves")

func init() {
	flag.IntVar(&bench.MaxProcesses, "processes", bench.MaxProcesses,
		"how many processes PassingOn starts at most; where a row has more, each has several sessions")
}

// A passing is a row: what is measured, what it should be, and how it is measured. The note is one more result.
type passing struct {
	what, limit string
	measure     func(tb testing.TB) (p bench.Passing, note string)
}

// What a lock costs that passes from one to the next, from 1 process to 200. Calls and commands hardly depend on the
// machine; rates and times do. To compare two versions, give what each prints to benchstat:
//
//	go test -run='^$' -bench=PassingOn ./bench -window=10s
func BenchmarkPassingOn(b *testing.B) {
	const ms = time.Millisecond
	const few = "≤ 2.3 calls, the same at 4, 48 and 200"
	const fair = "≤ 2.2 calls, ≤ 20 inside, ≤ 70 µs, Jain 1.00"
	var lines []string
	rows := []passing{
		busy("rlock", 1, 1, 0, "2 calls, 7 inside"),
		busy("rlock", 1, 128, 0, "≤ 0.1 calls"),
		busy("rlock", 1, 128, ms, "≤ 0.3 calls, ≥ 0.97 of a mutex"),
		busy("rlock", 4, 8, 0, "≤ 0.3 calls, least share ≥ 0.8 in 10 s"),
		busy("rlock", 4, 8, 5*ms, "≤ 7 calls"),
		busy("rlock", 48, 2, ms, "≤ 2.3 calls, ≤ 110 µs, Jain ≥ 0.97"),
		busy("rlock", 4, 1, ms, few),
		busy("rlock", 48, 1, ms, few),
		busy("rlock", 200, 1, ms, few),
		busy("fairlock", 1, 1, 0, "2 calls, 7 inside"),
		busy("fairlock", 4, 8, 0, fair),
		busy("fairlock", 48, 2, ms, fair),
		busy("fairlock", 200, 1, ms, fair),
		busy("write half", 4, 8, 0, "≤ 3.2 calls"),
		busy("write half", 48, 1, ms, "≤ 3.2 calls"),
		busy("setlock", 4, 8, 0, "none"),
		busy("bare list", 48, 1, ms, "what BLPOP and RPUSH cost here"),
		busy("bare list", 48, 2, ms, "what BLPOP and RPUSH cost here"),
		busy("semaphore", 1, 1, 0, "2 calls"),
		busy("semaphore", 1, 128, 2*ms, "≤ 4 calls"),
		busy("semaphore", 4, 32, 2*ms, "none"),
		busy("semaphore", 48, 1, ms, "≤ 3.2 calls"),
		busy("leased semaphore", 1, 128, 2*ms, "≤ 4 calls"),
		busy("leased semaphore", 48, 1, ms, "≤ 3.2 calls"),
		once("rlock", 50, "≤ 160 calls"),
		once("fairlock", 50, "none"),
		idle("rlock", 1000, "no more calls, 2 connections"),
	}
	for _, kind := range []string{"rlock", "fairlock", "write half", "semaphore", "leased semaphore"} {
		rows = append(rows, gone(kind, "killed", bench.Killed, 3, "≤ 50 ms"), gone(kind, "frozen", bench.Frozen, 1, "≤ 10 s"),
			gone(kind, "cut off", bench.CutOff, 1, "≤ 10 s"))
	}
	for _, processes := range []int{2, 10, 50} {
		rows = append(rows, besideJava(processes, ms, "Java has at least half of a fair share"))
	}
	for _, row := range rows {
		b.Run(row.what, func(b *testing.B) { // each takes more than a second, and so is not repeated
			p, note := row.measure(b)
			var line strings.Builder
			line.WriteString(row.what)
			b.ReportMetric(0, "ns/op") // leaves it out
			for _, c := range columns(p) {
				if p.Acquisitions == 0 {
					line.WriteString("\t–")
					continue
				}
				line.WriteString("\t" + strconv.FormatFloat(c.value, 'f', c.digits, 64))
				b.ReportMetric(c.value, c.unit)
			}
			lines = append(lines, line.String()+"\t"+note+"\t"+row.limit)
		})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	var head strings.Builder
	head.WriteString("\nprocesses × goroutines, work")
	for _, c := range columns(bench.Passing{}) {
		head.WriteString("\t" + c.unit)
	}
	fmt.Fprintln(w, head.String()+"\t\tlimit\n"+strings.Join(lines, "\n"))
	_ = w.Flush()
}

type column struct {
	unit   string // acq is an acquisition
	value  float64
	digits int
}

func columns(p bench.Passing) []column {
	return []column{
		{"acq/s", p.PerSecond, 0},
		{"calls/acq", p.Calls, 3},
		{"inside/acq", p.Inside, 1},
		{"script-µs/acq", p.Script, 1},
		{"server-µs/acq", p.CPU, 1},
		{"Jain-processes", p.Jain, 3},
		{"Jain-goroutines", p.Within, 3},
		{"least-share", p.Least, 2},
	}
}

// busy is a row of goroutines that take a lock all the time.
func busy(kind string, processes, goroutines int, work time.Duration, limit string) passing {
	s := bench.Shape{Kind: kind, Processes: processes, Goroutines: goroutines, Work: work}
	measure := func(tb testing.TB) (bench.Passing, string) {
		p := bench.MeasurePassing(tb, s, *window)
		if kind == "rlock" && processes == 1 && work > 0 {
			return p, fmt.Sprintf("%.3f of a mutex", bench.MeasureBesideMutex(tb, s, *window))
		}
		return p, started(p, processes)
	}
	return passing{fmt.Sprintf("%s %d×%d %v", kind, processes, goroutines, work), limit, measure}
}

func started(p bench.Passing, processes int) string {
	if p.Started == processes {
		return ""
	}
	return fmt.Sprintf("in %d processes", p.Started)
}

// once is a row of processes that take a lock once each.
func once(kind string, processes int, limit string) passing {
	measure := func(tb testing.TB) (bench.Passing, string) {
		p := bench.MeasureOnce(tb, kind, processes)
		return p, fmt.Sprintf("%.0f calls %s", p.Calls*float64(p.Acquisitions), started(p, processes))
	}
	return passing{fmt.Sprintf("%s %d×1 once", kind, processes), limit, measure}
}

// gone is a row of two waiters of which the first one cannot take the lock when its turn comes.
func gone(kind, what string, happens func(*worker.Worker, *proxy.Proxy), rounds int, limit string) passing {
	measure := func(tb testing.TB) (bench.Passing, string) {
		var longest time.Duration
		for range rounds {
			longest = max(longest, bench.MeasureSuccession(tb, kind, happens))
		}
		return bench.Passing{}, fmt.Sprintf("the second has it %v later", longest.Round(time.Millisecond/10))
	}
	return passing{kind + " first waiter " + what, limit, measure}
}

// besideJava is a row of processes that take an rlock beside a thread of Redisson, if there is Java.
func besideJava(processes int, work time.Duration, limit string) passing {
	measure := func(tb testing.TB) (bench.Passing, string) {
		java, err := interop.Launch("")
		if errors.Is(err, interop.ErrNoJava) {
			return bench.Passing{}, err.Error()
		}
		if err != nil {
			tb.Fatal(err)
		}
		defer java.Close()
		s := bench.Shape{Kind: "rlock", Processes: processes, Goroutines: 1, Work: work}
		p, share := bench.MeasureBesideJava(tb, java, s, *window)
		return p, fmt.Sprintf("Java has %.2f of a fair share", share)
	}
	return passing{fmt.Sprintf("rlock %d×1 %v beside Java", processes, work), limit, measure}
}

// idle is a row of one process that waits for locks which nobody releases.
func idle(kind string, names int, limit string) passing {
	measure := func(tb testing.TB) (bench.Passing, string) {
		p := bench.MeasureIdle(tb, kind, names, 20*time.Second) // several signs of life of each
		return p, fmt.Sprintf("%.0f calls/s, %d connections", p.Calls, p.Connections)
	}
	return passing{fmt.Sprintf("%s 1×%d idle", kind, names), limit, measure}
}
