// Package bench measures what locks cost on a Redis of the user's, beside bare round trips.
package bench

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// Command is the command "bench".
func Command(redis *cli.Redis) *cobra.Command {
	var duration time.Duration
	var goroutines int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what locks cost on this Redis",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case goroutines < 1 || goroutines > 10_000:
				return cli.Usagef("--goroutines is %d, must be 1 to 10000", goroutines)
			case duration < 100*time.Millisecond:
				return cli.Usagef("--time is %v, must be at least 100ms", duration)
			}
			return measure(cmd.Context(), redis, goroutines, duration, func(r row) error {
				if asJSON {
					return cli.Exit(cli.ExitNo, cli.WriteJSON(os.Stdout, r))
				}
				_, err := fmt.Printf("%-10s  %4d goroutines  %9.0f /s  p50 %8s  p99 %8s  worst %8s\n",
					r.What, r.Goroutines, r.PerSecond, micros(r.P50), micros(r.P99), micros(r.Worst))
				return cli.Exit(cli.ExitNo, err)
			})
		},
	}
	cli.SecondsVar(cmd.Flags(), &duration, "time", 5*time.Second, "how long to measure in all")
	cmd.Flags().IntVar(&goroutines, "goroutines", 16, "`number` of goroutines that work at the same time")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// A row is what was measured of one way to work.
type row struct {
	What       string  `json:"what"`
	Goroutines int     `json:"goroutines"`
	PerSecond  float64 `json:"per_second"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Worst      float64 `json:"worst_us"`
}

// micros is a number of µs as people read it.
func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	if d >= 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
