package bench

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// MeasureRing measures how long it takes from when owners wait for each other to when the youngest is told.
func MeasureRing(tb testing.TB, owners int, apart string) time.Duration {
	tb.Helper()
	r := kit.NewRing(tb, redistest.Start(tb), owners, apart, true)
	defer r.Leave()
	r.Close(tb)
	began := time.Now()
	kit.Within(tb, time.Minute, r.Ended, "an end")
	return time.Since(began)
}
