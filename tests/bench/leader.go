package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Elections are what terms cost.
type Elections struct {
	Next, Worst time.Duration // from a resignation to the next leader: median, worst
	Renewals    float64       // commands for each lease of a term that lasts
}

// MeasureElections lets two candidates lead in turn, and then one for some leases.
func MeasureElections(tb testing.TB, terms int) (e Elections) {
	srv := redistest.Start(tb)
	const lease, election = 2 * time.Second, "billing"
	type term struct {
		who int
		ctx context.Context
	}
	led := make(chan term, 1)
	ended := make(chan struct{}, 2)
	var stops [2]context.CancelFunc
	for who := range stops {
		var ctx context.Context
		ctx, stops[who] = context.WithCancel(context.Background())
		s := open(tb, lease, srv.Addr())
		go func() {
			defer func() { ended <- struct{}{} }()
			_ = leader.Run(ctx, s, election, func(ctx context.Context) error {
				led <- term{who, ctx}
				<-ctx.Done()
				return nil
			})
		}()
	}
	onlooker := open(tb, 30*time.Second, srv.Addr())
	now := <-led
	settled := func(candidates int) {
		ctx := context.Background()
		kit.Await(tb, "a candidate, and a record", func() bool {
			all, err := leader.Candidates(ctx, onlooker, election)
			must(tb, err)
			l, err := leader.Current(ctx, onlooker, election)
			must(tb, err)
			return len(all) == candidates && l.Term == leader.Term(now.ctx)
		})
	}
	var took []time.Duration
	for range terms {
		settled(1)
		began := time.Now()
		must(tb, leader.Resign(now.ctx))
		now = <-led
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	e.Next, e.Worst = took[terms/2], took[terms-1]
	stops[1-now.who]()
	<-ended
	settled(0)
	srv.ResetStats(tb)
	const leases = 4
	time.Sleep(leases * lease)
	e.Renewals = float64(srv.CommandStats(tb)["evalsha"]) / leases
	stops[now.who]()
	<-ended
	return e
}
