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

// resumed is struck when worker 3 has taken over, and worker 1 goes on.
func resumed(t *testing.T) (*lockStory, *fault, time.Time) {
	t.Helper()
	l, f, at := struck()
	f.resumed = at.Add(2 * time.Second)
	require.NoError(t, l.take(event{What: holds, worker: 3, Value: 7}))
	return l, f, at
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
	l, f, _ := resumed(t)
	require.NoError(t, l.take(event{What: wrote, worker: 1, Goroutine: 1, Value: 7}), "another goroutine, before")
	require.NoError(t, l.take(event{What: lost, worker: 1, Goroutine: 1, Text: "another"}))
	require.Empty(t, f.learned)

	require.NoError(t, l.take(event{What: lost, worker: 1, Text: "did not", at: f.resumed.Add(time.Millisecond)}))
	require.Equal(t, "did not", f.learned)
	require.Equal(t, time.Millisecond, f.delay)
}

func TestLateWrite(t *testing.T) {
	l, _, _ := resumed(t)
	require.EqualError(t, l.take(event{What: wrote, worker: 1, Value: 8}), "worker 1 wrote 8 when worker 3 had taken over")
}
