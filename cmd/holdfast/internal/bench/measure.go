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

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/rlock"
)

// measure measures each way to work for its share of the time, and tells what came of it.
func measure(ctx context.Context, redis *cli.Redis, goroutines int, duration time.Duration, tell func(row) error) error {
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
	err = rounds(ctx, client, session, goroutines, duration, tell)
	if stopped := cli.Stopped(ctx); stopped != nil {
		return cli.Exit(stopped.Code, fmt.Errorf("bench: %w", stopped.Err))
	}
	if _, coded := errors.AsType[*cli.ExitError](err); coded || err == nil {
		return err
	}
	code := cli.ExitUnavailable
	if errors.Is(err, holdfast.ErrUnknown) {
		code = cli.ExitTempFail
	}
	return cli.Exit(code, fmt.Errorf("%s: %w", redis.Place(), err))
}

// rounds goes through the ways to work.
func rounds(
	ctx context.Context, client rueidis.Client, session *holdfast.Session, goroutines int, duration time.Duration, tell func(row) error,
) error {
	prefix := "holdfast_bench:" + rand.Text() + ":"
	alone := make([]*rlock.Mutex, goroutines)
	for i := range alone {
		alone[i] = rlock.New(session, fmt.Sprint(prefix, i), nil)
	}
	shared := rlock.New(session, prefix+"shared", nil)
	for _, way := range []struct {
		what string
		do   func(ctx context.Context, i int) error
	}{
		{"round trip", func(ctx context.Context, i int) error {
			return client.Do(ctx, client.B().Exists().Key(alone[i].Name()).Build()).Error()
		}},
		{"alone", func(ctx context.Context, i int) error { return once(ctx, alone[i]) }},
		{"contended", func(ctx context.Context, _ int) error { return once(ctx, shared) }},
	} {
		took, elapsed, err := work(ctx, goroutines, duration/3, way.do)
		if err == nil {
			err = tell(summary(way.what, goroutines, took, elapsed))
		}
		if err != nil {
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

// work makes goroutines do something over and over, and returns how long each time took. The first time is not
// counted: it loads scripts and subscribes.
func work(
	ctx context.Context, goroutines int, duration time.Duration, do func(ctx context.Context, i int) error,
) (took []time.Duration, elapsed time.Duration, err error) {
	const patience = 5 * time.Second // on a server that takes no writes a lock is waited for without end
	once, done := context.WithTimeout(ctx, patience)
	err = do(once, 0)
	if done(); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	ctx, cancel := context.WithDeadline(ctx, began.Add(duration))
	defer cancel()
	var mu sync.Mutex // guards took and err
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			var mine []time.Duration
			var failed error
			for failed == nil && ctx.Err() == nil {
				start := time.Now()
				if failed = do(ctx, i); failed == nil {
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
	return took, time.Since(began), err
}

func tenths(x float64) float64 { return math.Round(10*x) / 10 }

func summary(what string, goroutines int, took []time.Duration, elapsed time.Duration) row {
	r := row{What: what, Goroutines: goroutines, PerSecond: tenths(float64(len(took)) / elapsed.Seconds())}
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
