package demo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHolder(t *testing.T) {
	c := newCrew(&stage{}, 4, 3)
	is := func(worker, goroutine int) {
		t.Helper()
		w, g := c.holder()
		require.Equal(t, [2]int{worker, goroutine}, [2]int{w, g})
	}
	is(0, 0)
	c.take(event{What: holds, worker: 2, Goroutine: 1, Value: 0})
	is(2, 1)
	c.take(event{What: holds, worker: 4, Goroutine: 2, Value: 1})
	is(4, 2) // whoever has read more, though the other's write is not yet heard of
	c.take(event{What: wrote, worker: 4, Goroutine: 2, Value: 2})
	is(4, 2) // not released yet
	c.take(event{What: wrote, worker: 2, Goroutine: 1, Value: 1})
	c.take(event{What: waiting, worker: 2, Goroutine: 1})
	c.take(event{What: waiting, worker: 4, Goroutine: 2})
	is(0, 0)
	require.Equal(t, 2, c.waiting())
	c.away[2] = true
	require.Equal(t, 1, c.waiting(), "one that is gone does not wait")
}
