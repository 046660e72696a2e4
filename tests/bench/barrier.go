package bench

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Generations are what a barrier costs.
type Generations struct {
	Median, Worst time.Duration // from the last arrival until all have gone on
	Calls         float64       // of all parties
}

// MeasureGenerations lets parties, each with a session of its own, go through generations.
func MeasureGenerations(tb testing.TB, parties, generations int) (g Generations) {
	srv := redistest.Start(tb)
	ctx := context.Background()
	var all []*barrier.Party
	for range parties {
		p, err := barrier.New(open(tb, 30*time.Second, srv.Addr()), "stages", parties, nil).Join(ctx)
		must(tb, err)
		all = append(all, p)
	}
	generation := func() time.Duration {
		var waiting sync.WaitGroup
		for _, p := range all[1:] {
			waiting.Go(func() { _, _ = p.Await(ctx) })
		}
		kit.Await(tb, "all but one", func() bool {
			return srv.Str(tb, "HGET", "holdfast_barrier:{stages}", "arrived") == strconv.Itoa(parties-1)
		})
		began := time.Now()
		_, err := all[0].Await(ctx)
		must(tb, err)
		waiting.Wait()
		return time.Since(began)
	}
	generation() // all subscribe
	srv.ResetStats(tb)
	var took []time.Duration
	for range generations {
		took = append(took, generation())
	}
	slices.Sort(took)
	return Generations{
		Median: took[generations/2], Worst: took[generations-1],
		Calls: float64(srv.CommandStats(tb)["evalsha"]) / float64(generations),
	}
}
