// Package bench measures what locks cost on a Redis of the user's, beside bare round trips.
package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/rlock"
)

// A bench is what the flags say.
type bench struct {
	goroutines int
	duration   time.Duration
	asJSON     bool
}

// Command is the command "bench".
func Command(redis *cli.Redis) *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what locks cost on this Redis",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.goroutines < 1 || b.goroutines > 10_000:
				return cli.Usagef("--goroutines is %d, must be 1 to 10000", b.goroutines)
			case b.duration < 100*time.Millisecond:
				return cli.Usagef("--time is %v, must be at least 100ms", b.duration)
			}
			return b.run(cmd.Context(), redis)
		},
	}
	cli.SecondsVar(cmd.Flags(), &b.duration, "time", 5*time.Second, "how long to measure in all")
	cmd.Flags().IntVar(&b.goroutines, "goroutines", 16, "`number` of goroutines that work at the same time")
	cmd.Flags().BoolVar(&b.asJSON, "json", false, "print one JSON object per line")
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

func (b *bench) print(r row) error {
	micros := func(us float64) string { return cli.Roughly(time.Duration(us * float64(time.Microsecond))) }
	return cli.Print(b.asJSON, r, fmt.Sprintf("%-10s  %4d goroutines  %9.0f /s  p50 %8s  p99 %8s  worst %8s\n",
		r.What, r.Goroutines, r.PerSecond, micros(r.P50), micros(r.P99), micros(r.Worst)))
}

// run connects, measures, and gives what ended it an exit code.
func (b *bench) run(ctx context.Context, redis *cli.Redis) error {
	client, err := redis.Client(nil)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := redis.Open(&holdfast.Options{Label: "holdfast bench"})
	if err != nil {
		return err
	}
	defer session.Close()

	ctx, release := cli.UntilSignal(ctx)
	defer release()
	cli.OutliveReaders()
	err = b.measure(ctx, client, session)
	if stopped := cli.Stopped(ctx); stopped != nil {
		return cli.Exit(stopped.Code, fmt.Errorf("bench: %w", stopped.Err))
	}
	return redis.Failure(ctx, err)
}

// A way is one way to work; goroutine i does it over and over.
type way struct {
	what string
	do   func(ctx context.Context, i int) error
}

// measure measures each way to work for its share of the time, and prints a row for it.
func (b *bench) measure(ctx context.Context, client rueidis.Client, session *holdfast.Session) error {
	prefix := "holdfast_bench:" + rand.Text() + ":"
	alone := make([]*rlock.Mutex, b.goroutines)
	for i := range alone {
		alone[i] = rlock.New(session, fmt.Sprint(prefix, i), nil)
	}
	shared := rlock.New(session, prefix+"shared", nil)
	for _, w := range []way{
		{"round trip", func(ctx context.Context, i int) error {
			return client.Do(ctx, client.B().Exists().Key(alone[i].Name()).Build()).Error()
		}},
		{"alone", func(ctx context.Context, i int) error { return once(ctx, alone[i]) }},
		{"contended", func(ctx context.Context, _ int) error { return once(ctx, shared) }},
	} {
		measured, err := b.work(ctx, w)
		if err != nil {
			return err
		}
		if err := b.print(measured); err != nil {
			return err
		}
	}
	return nil
}

// once locks and releases.
func once(ctx context.Context, l *rlock.Mutex) error {
	hold, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Release()
}

// work makes goroutines work over and over, and returns what was measured. The first time is not counted: it loads
// scripts and subscribes.
func (b *bench) work(ctx context.Context, w way) (row, error) {
	const patience = 5 * time.Second // on a server that takes no writes a lock is waited for without end
	once, done := context.WithTimeout(ctx, patience)
	err := w.do(once, 0)
	if done(); err != nil {
		return row{}, err
	}
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(b.duration/3))
	defer cancel()
	var took []time.Duration
	var mu sync.Mutex // guards took and err
	var all sync.WaitGroup
	for i := range b.goroutines {
		all.Go(func() {
			var mine []time.Duration
			var failed error
			for failed == nil && ctx.Err() == nil {
				start := time.Now()
				if failed = w.do(ctx, i); failed == nil {
					mine = append(mine, time.Since(start))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			if failed != nil && !errors.Is(failed, context.DeadlineExceeded) {
				err = failed
				cancel()
			}
		})
	}
	all.Wait()
	return b.row(w.what, took, time.Since(began)), err
}

func tenths(x float64) float64 { return math.Round(10*x) / 10 }

func (b *bench) row(what string, took []time.Duration, elapsed time.Duration) row {
	r := row{What: what, Goroutines: b.goroutines, PerSecond: tenths(float64(len(took)) / elapsed.Seconds())}
	if len(took) == 0 {
		return r
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return tenths(float64(took[int(share*float64(len(took)-1))]) / float64(time.Microsecond))
	}
	r.P50, r.P99, r.Worst = at(0.5), at(0.99), at(1)
	return r
}
