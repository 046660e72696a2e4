package bench_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/tests/bench"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// The cost of one lock and release is counted, so each limit is today's cost. Allocations are counted only without
// the race detector, which allocates itself. Their bytes have a little room for what the session does besides.
func TestCosts(t *testing.T) {
	for what, c := range map[string]struct {
		kind                          bench.Kind
		inside, allocs, within, bytes float64
	}{
		"a reentrant lock":          {bench.Reentrant, 7, 3, 8, 300},
		"a fair lock":               {bench.Fair, 7, 3, 8, 300},
		"a write half":              {bench.Write, 7, 3, 8, 300},
		"a read half":               {bench.Read, 9, 5, 10, 460},
		"a lock of one string":      {bench.Set, 6, 3, 8, 300},
		"a permit with a lease":     {bench.Leased(8), 12, 6, 11, 320},
		"a read half behind others": {bench.PreferredRead, 10, 5, 10, 460},
	} {
		t.Run(what, func(t *testing.T) {
			u := bench.MeasureUncontended(t, context.Background(), c.kind)
			assert.EqualValues(t, 2, math.Round(u.Commands))
			// publishing which process it is adds one command in thousands
			assert.LessOrEqual(t, math.Round(u.Inner), c.inside)
			ending := bench.MeasureUncontended(t, t.Context(), c.kind)
			assert.EqualValues(t, 2, math.Round(ending.Commands))
			if !kit.Racing() {
				assert.LessOrEqual(t, u.Allocs, c.allocs)
				assert.LessOrEqual(t, u.AllocsWithin, c.within)
				assert.LessOrEqual(t, u.Bytes, c.bytes)
				assert.LessOrEqual(t, ending.Allocs, c.allocs)
				assert.LessOrEqual(t, ending.Bytes, c.bytes)
			}
		})
	}
}

func TestCostsOfAGuardedWrite(t *testing.T) {
	g := bench.MeasureGuarded(t)
	assert.EqualValues(t, 1, g.Commands)
	assert.EqualValues(t, 2, g.Inner)
	if !kit.Racing() {
		assert.LessOrEqual(t, g.Allocs, 8.0)
	}
}

const allocsOfAHandTo = 20

func TestCostsOfAHoldHandedToAnotherSession(t *testing.T) {
	h := bench.MeasureHandTo(t)
	assert.EqualValues(t, 1, h.Commands)
	if !kit.Racing() {
		assert.LessOrEqual(t, h.Allocs, float64(allocsOfAHandTo))
	}
}

const renewalsOfATerm = 3.5 // three, and what falls on the edges of four leases

func TestCostsOfATermThatLasts(t *testing.T) {
	e := bench.MeasureElections(t, 5)
	assert.LessOrEqual(t, e.Renewals, renewalsOfATerm)
}

// A RedLock on five servers allocates no more than redsync's.
func TestCostsOfARedLock(t *testing.T) {
	m := bench.MeasureMajority(t, 5, 0)
	assert.EqualValues(t, 2, math.Round(m.Commands))
	assert.Less(t, m.Ages, 0.1, "a server that has forgotten nothing is asked for its age once")
	if !kit.Racing() {
		assert.LessOrEqual(t, m.Allocs, 86.0)
	}
}

// What a waiter of an rlock and a hold may take. Stacks come in powers of two: an attempt and a sleep need so few and
// so small frames that 4 KiB are enough, with 256 bytes of a caller's.
const (
	heapOfAWaiter  = 1640
	stackOfAWaiter = 4<<10 + 512
	heapOfAHold    = 320
)

// Each waits for a name of its own. The figures are 1,570, 1,940 and 1,200 bytes of heap.
func TestMemoryOfAWaiter(t *testing.T) {
	if kit.Racing() {
		t.Skip("the race detector makes frames larger")
	}
	for what, of := range map[string]struct {
		kind     bench.Kind
		channels int
		heap     int64
	}{
		"a reentrant lock":     {bench.Reentrant, 3, heapOfAWaiter},
		"a fair lock":          {bench.Fair, 2, 2020},
		"a lock of one string": {bench.Set, 1, 1270},
	} {
		t.Run(what, func(t *testing.T) {
			w := bench.MeasureWaiters(t, of.kind, 2000, of.channels, 0)
			assert.LessOrEqual(t, w.Heap, of.heap)
			assert.LessOrEqual(t, w.Stack, int64(stackOfAWaiter))
		})
	}
}

func TestMemoryOfAHold(t *testing.T) {
	if kit.Racing() {
		t.Skip("the race detector allocates, too")
	}
	assert.LessOrEqual(t, bench.MeasureHold(t, 5000), int64(heapOfAHold))
}
