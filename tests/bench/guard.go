package bench

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Guards writes under a hold, with a guard and without one.
func Guards(tb testing.TB, s *holdfast.Session, c rueidis.Client, name string) (ours, bare func()) {
	ctx := context.Background()
	h, err := rlock.New(s, name, nil).Lock(ctx)
	must(tb, err)
	set := func() rueidis.Completed { return c.B().Set().Key("stock").Value("1").Build() }
	bare = func() { must(tb, c.Do(ctx, set()).Error()) }
	return func() {
		_, err := h.Guard(ctx, set())
		must(tb, err)
	}, bare
}

// Guarded is what a guarded write costs.
type Guarded struct{ Commands, Inner, Allocs float64 }

// MeasureGuarded counts over many of them.
func MeasureGuarded(tb testing.TB) (g Guarded) {
	srv := redistest.Start(tb)
	s := open(tb, 30*time.Second, srv.Addr())
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr()}, DisableCache: true})
	must(tb, err)
	defer c.Close()
	write, _ := Guards(tb, s, c, "orders:42")
	write()
	const writes = 1000
	srv.ResetStats(tb)
	for range writes {
		write()
	}
	for name, calls := range srv.CommandStats(tb) {
		switch name {
		case "evalsha":
			g.Commands = math.Round(float64(calls) / writes)
		case "hexists", "set":
			g.Inner += math.Round(float64(calls) / writes)
		}
	}
	g.Allocs = testing.AllocsPerRun(writes, write)
	return g
}
