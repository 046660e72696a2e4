package bench_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/tests/bench"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The table is printed after all benchmarks; each row has what was measured and the limit.
var table [][3]string

func row(what, measured, limit string) { table = append(table, [3]string{what, measured, limit}) }

func TestMain(m *testing.M) {
	worker.Run(bench.Roles)
	code := m.Run()
	if len(table) > 0 {
		w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "\nwhat\tmeasured\tlimit")
		for _, r := range table {
			fmt.Fprintf(w, "%s\t%s\t%s\n", r[0], r[1], r[2])
		}
		_ = w.Flush()
	}
	os.Exit(code)
}

func BenchmarkUncontended(b *testing.B) {
	u := bench.MeasureUncontended(b, context.Background(), bench.Reentrant)
	row("uncontended lock + release: commands, round trips", fmt.Sprintf("%.0f", u.Commands), "2")
	row("  commands inside scripts", fmt.Sprintf("%.0f", u.Inner), "9")
	row("  allocations, bytes", fmt.Sprintf("%.0f, %.0f", u.Allocs, u.Bytes), "4, 300")
	row("  allocations with Hold.Context", fmt.Sprintf("%.0f", u.AllocsWithin), "9")
	for _, other := range []struct {
		what string
		kind bench.Kind
	}{
		{"a fair lock", bench.Fair},
		{"a write half", bench.Write},
		{"a read half", bench.Read},
		{"a read half behind preferred writers", bench.PreferredRead},
		{"a lock of one string", bench.Set},
		{"a permit with a lease", bench.Leased(8)},
	} {
		u := bench.MeasureUncontended(b, context.Background(), other.kind)
		row("the same of "+other.what, fmt.Sprintf("%.0f, inside %.0f, allocations %.0f", u.Commands, u.Inner,
			u.Allocs), "2, 9, 7")
	}
}

func BenchmarkTime(b *testing.B) {
	for _, goroutines := range []int{1, 16, 128} {
		measureTime(b, "", bench.Locks, goroutines, "1.10")
	}
	for _, goroutines := range []int{1, 128} {
		measureTime(b, " of a permit", bench.Permits, goroutines, "none")
		measureTime(b, " of a permit with a lease", bench.LeasedPermits, goroutines, "none")
	}
}

func measureTime(b *testing.B, what string, pair bench.Pair, goroutines int, limit string) {
	b.Helper()
	r := bench.MeasureRatio(b, pair, goroutines, 40)
	row(fmt.Sprintf("  time%s, of two bare EVALSHA, %d goroutines", what, goroutines),
		fmt.Sprintf("%.3f (%.3f..%.3f), bare of bare %.3f", r.Ours, r.Low, r.High, r.Noise), limit)
}

func BenchmarkGuard(b *testing.B) {
	g := bench.MeasureGuarded(b)
	row("a guarded SET: commands, round trips", fmt.Sprint(g.Commands), "1")
	row("  commands inside the script", fmt.Sprint(g.Inner), "2")
	row("  allocations", fmt.Sprint(g.Allocs), "8")
	for _, goroutines := range []int{1, 128} {
		r := bench.MeasureRatio(b, bench.Guards, goroutines, 40)
		row(fmt.Sprintf("  time, of a bare SET, %d goroutines", goroutines),
			fmt.Sprintf("%.3f (%.3f..%.3f), bare of bare %.3f", r.Ours, r.Low, r.High, r.Noise), "none")
	}
}

func BenchmarkHandTo(b *testing.B) {
	h := bench.MeasureHandTo(b)
	row("a hold handed to another session: commands, round trips", fmt.Sprint(h.Commands), "1")
	row("  allocations", fmt.Sprint(h.Allocs), fmt.Sprint(allocsOfAHandTo))
}

func BenchmarkElections(b *testing.B) {
	e := bench.MeasureElections(b, 100)
	row("the next leader after a resignation: median (worst of 100)", fmt.Sprintf("%v (%v)",
		e.Next.Round(10*time.Microsecond), e.Worst.Round(10*time.Microsecond)), "50ms, of a quiet machine")
	row("  commands per lease of a term that lasts", fmt.Sprintf("%.1f", e.Renewals), fmt.Sprint(renewalsOfATerm))
}

func BenchmarkGenerations(b *testing.B) {
	for _, parties := range []int{8, 48} {
		g := bench.MeasureGenerations(b, parties, 100)
		row(fmt.Sprintf("a barrier of %d parties: until all have gone on, median (worst of 100)", parties),
			fmt.Sprintf("%v (%v)", g.Median.Round(10*time.Microsecond), g.Worst.Round(10*time.Microsecond)), "none")
		row("  commands for each generation", fmt.Sprintf("%.1f", g.Calls), fmt.Sprint(2*parties-1))
	}
}

func BenchmarkWaiters(b *testing.B) {
	w := bench.MeasureWaiters(b, bench.Reentrant, 2000, 3, 20*time.Second)
	row("2,000 waiters on 2,000 names: connections", fmt.Sprint(w.Connections), "2")
	row("  bytes of heap per waiter", fmt.Sprint(w.Heap), fmt.Sprint(heapOfAWaiter))
	row("  bytes of stack per waiter", fmt.Sprint(w.Stack), fmt.Sprint(stackOfAWaiter))
	row("  looks per waiter and second when idle", fmt.Sprintf("%.2f", w.Idle), "0.25 (5 s ± 20 %)")
}

func BenchmarkHolds(b *testing.B) {
	h := bench.MeasureHolds(b, 10000)
	row("10,000 renewed holds: commands per hold and lease", fmt.Sprintf("%.4f", h.Commands), "0.01")
	row("  bytes of heap per hold", fmt.Sprint(h.Bytes), fmt.Sprint(heapOfAHold))
	row("  lost", fmt.Sprint(h.Lost), "0")
	c := bench.MeasureClusterHolds(b, 3000, 100)
	row("3,000 renewed holds in 100 slots of a cluster: commands per slot and lease",
		fmt.Sprintf("%.2f", c.PerSlot), "3")
	row("  lost", fmt.Sprint(c.Lost), "0")
}

func BenchmarkReaders(b *testing.B) {
	few, many := bench.MeasureReaders(b, 10), bench.MeasureReaders(b, 1000)
	row("µs of the server for a reader to come and go, with 10 others, with 1,000",
		fmt.Sprintf("%.0f, %.0f", few, many), "none")
}

func BenchmarkSeveral(b *testing.B) {
	u := bench.MeasureUncontended(b, context.Background(), bench.Several(8))
	row("8 locks as one, lock + release: commands",
		fmt.Sprintf("%.0f, inside %.0f, allocations %.0f", u.Commands, u.Inner, u.Allocs), "2, none, none")
	near, far := bench.MeasureMajority(b, 5, 0), bench.MeasureMajority(b, 5, time.Millisecond)
	row("a lock on 5 servers: commands per server", fmt.Sprintf("%.2f", near.Commands), "2")
	row("  allocations", fmt.Sprintf("%.0f", near.Allocs), "86")
	row("  time, of 5 locks at once on one machine",
		fmt.Sprintf("%.2f of %v", ratio(near.Lock+near.Release, near.Single), near.Single), "none")
	row("  time of lock, of release, of the slowest server's, where they answer after 1 … 5 ms",
		fmt.Sprintf("%.2f of %v, %.2f of %v", ratio(far.Lock, far.OneLock), far.OneLock,
			ratio(far.Release, far.OneReturn), far.OneReturn), "1.5")
}

func BenchmarkRings(b *testing.B) {
	for _, apart := range kit.Rings {
		for owners := 2; owners <= 5; owners++ {
			row(fmt.Sprintf("s until %d owners %s that wait for each other are found", owners, apart),
				fmt.Sprintf("%.2f", bench.MeasureRing(b, owners, apart).Seconds()), "2")
		}
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
