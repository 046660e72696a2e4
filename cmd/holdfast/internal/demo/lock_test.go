package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// struck is a story in which worker 1, goroutine 0, has been struck when it had read 7.
func struck() (*lockStory, *fault, time.Time) {
	l := newLockStory(&stage{})
	f := &fault{done: "stopped", worker: 1, read: 7, at: time.Now()}
	_ = l.take(event{What: holds, worker: 1, Value: 7})
	_ = l.take(event{What: lingers, worker: 1, Value: 7})
	l.faults = append(l.faults, f)
	return l, f, f.at
}

func TestTakeover(t *testing.T) {
	l, f, at := struck()
	require.NoError(t, l.take(event{What: holds, worker: 2, Value: 6}), "held before, heard late")
	require.Zero(t, f.heir)
	require.NoError(t, l.take(event{What: holds, worker: 3, Value: 7, at: at.Add(time.Second)}))
	require.NoError(t, l.take(event{What: holds, worker: 2, Value: 8, at: at.Add(2 * time.Second)}))
	require.Equal(t, 3, f.heir)
	require.Equal(t, time.Second, f.after)
}

func TestResumed(t *testing.T) {
	l, f, at := struck()
	f.resumed = at.Add(2 * time.Second)
	require.NoError(t, l.take(event{What: holds, worker: 3, Value: 7}))
	require.NoError(t, l.take(event{What: wrote, worker: 1, Goroutine: 1, Value: 7}), "another goroutine, before")
	require.NoError(t, l.take(event{What: lost, worker: 1, Goroutine: 1, Text: "another"}))
	require.Empty(t, f.learned)

	late := *l
	require.EqualError(t, late.take(event{What: wrote, worker: 1, Value: 8}), "worker 1 wrote 8 when worker 3 had taken over")

	require.NoError(t, l.take(event{What: lost, worker: 1, Text: "did not", at: f.resumed.Add(time.Millisecond)}))
	require.Equal(t, "did not", f.learned)
	require.Equal(t, time.Millisecond, f.delay)
}

func TestHolder(t *testing.T) {
	l := newLockStory(&stage{})
	is := func(worker, goroutine int) {
		t.Helper()
		w, g := l.holder()
		require.Equal(t, [2]int{worker, goroutine}, [2]int{w, g})
	}
	is(0, 0)
	_ = l.take(event{What: holds, worker: 2, Goroutine: 1, Value: 0})
	is(2, 1)
	_ = l.take(event{What: holds, worker: 4, Goroutine: 2, Value: 1})
	is(4, 2) // whoever has read more, though the other's write is not yet heard of
	_ = l.take(event{What: wrote, worker: 4, Goroutine: 2, Value: 2})
	is(4, 2) // not released yet
	_ = l.take(event{What: wrote, worker: 2, Goroutine: 1, Value: 1})
	_ = l.take(event{What: waiting, worker: 2, Goroutine: 1})
	_ = l.take(event{What: waiting, worker: 4, Goroutine: 2})
	is(0, 0)
	require.Equal(t, 2, l.waiting())
}
