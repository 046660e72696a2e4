package bench

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// HandedTo is what it costs to hand a hold to another session.
type HandedTo struct{ Commands, Allocs float64 }

// MeasureHandTo counts over many times.
func MeasureHandTo(tb testing.TB) (h HandedTo) {
	srv := redistest.Start(tb)
	sessions := []*holdfast.Session{open(tb, 30*time.Second, srv.Addr()), open(tb, 30*time.Second, srv.Addr())}
	ctx := context.Background()
	hold, err := rlock.New(sessions[0], "orders:42", nil).Lock(ctx)
	must(tb, err)
	to := 0
	handTo := func() {
		to = 1 - to
		hold, err = hold.HandTo(ctx, sessions[to])
		must(tb, err)
	}
	handTo()
	const times = 1000
	srv.ResetStats(tb)
	for range times {
		handTo()
	}
	for name, calls := range srv.CommandStats(tb) {
		if name == "evalsha" {
			h.Commands = math.Round(float64(calls) / times)
		}
	}
	h.Allocs = testing.AllocsPerRun(times, handTo)
	return h
}
