//go:build unix

package bench_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/tests/bench"
)

// A lock beside bare commands on a client that nobody has set up: what a user compares first.
func BenchmarkBeside(b *testing.B) {
	ending := b.Context()
	for _, c := range []struct {
		what string
		ctx  context.Context
	}{{"a context without an end", context.Background()}, {"one that can be cancelled", ending}} {
		for _, goroutines := range []int{1, 16, 128, 512} {
			r := bench.MeasureBeside(b, c.ctx, bench.Reentrant, goroutines, 7)
			limit := "0.95, CPU 1.15"
			if goroutines > 16 {
				limit = "1.00, CPU 1.00"
			}
			row(fmt.Sprintf("rate of a lock of bare commands', %d goroutines, %s", goroutines, c.what),
				fmt.Sprintf("%.3f (%.3f..%.3f), noise %.3f; CPU %.2f, %v of %v; allocations %.1f, bytes %.0f",
					r.Rate, r.Low, r.High, r.Noise, r.CPU, r.Ours, r.Bare, r.Allocs, r.Bytes), limit)
		}
	}
}
