package bench

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// MeasurePermits has goroutines of so many sessions take one of so many permits each, hold it for a
// moment, and give it back, for 10 s. The shares are those of acquisitions.
func MeasurePermits(tb testing.TB, sessions, goroutines, permits int, held time.Duration) Contended {
	srv := redistest.Start(tb)
	counts := make([]int64, sessions*goroutines)
	var pools []*semaphore.Semaphore
	for range sessions {
		p := semaphore.New(open(tb, 30*time.Second, srv.Addr()), "pool")
		_, err := p.TrySetPermits(context.Background(), permits)
		must(tb, err)
		must(tb, p.Acquire(context.Background(), 1))
		must(tb, p.Release(context.Background(), 1))
		pools = append(pools, p)
	}
	srv.ResetStats(tb)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() {
			for p := pools[i/goroutines]; p.Acquire(ctx, 1) == nil; {
				counts[i]++
				if held > 0 {
					time.Sleep(held)
				}
				must(tb, p.Release(ctx, 1))
			}
		})
	}
	wg.Wait()
	return contended(tb, srv, counts, sessions)
}

// contended sums up what was counted by goroutine, those of one session after those of another.
func contended(tb testing.TB, srv *redistest.Server, counts []int64, sessions int) Contended {
	var c Contended
	perSession, goroutines := make([]int64, sessions), len(counts)/sessions
	for i, n := range counts {
		c.Acquisitions += n
		perSession[i/goroutines] += n
	}
	var commands int64
	for _, name := range []string{"evalsha", "eval", "subscribe", "unsubscribe"} {
		commands += srv.CommandStats(tb)[name]
	}
	c.Commands = float64(commands) / float64(c.Acquisitions)
	c.Session = float64(slices.Min(perSession)) * float64(sessions) / float64(c.Acquisitions)
	c.Goroutine = float64(slices.Min(counts)) * float64(len(counts)) / float64(c.Acquisitions)
	return c
}
