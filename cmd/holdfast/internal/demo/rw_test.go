package demo

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTornRead(t *testing.T) {
	r := newRWStory(&stage{})
	require.NoError(t, r.take(event{What: holds, worker: 3, Value: 7}))
	require.NoError(t, r.take(event{What: saw, worker: 3, Value: 7}))
	require.Equal(t, 1, r.ledger.all().reads)
	require.EqualError(t, r.take(event{What: torn, worker: 4, Text: differ(8, 7)}),
		"worker 4 has read a half-written document, with 8 at its head and 7 at its foot")
}

func TestLostInTheMidst(t *testing.T) {
	r := newRWStory(&stage{})
	for _, worker := range []int{1, 3} {
		require.NoError(t, r.take(event{What: lost, worker: worker, Text: "while it waited"}))
		require.NoError(t, r.take(event{What: holds, worker: worker, Value: 7}))
	}
	require.NoError(t, r.take(event{What: lost, worker: 3, Text: "a reader"}))
	require.EqualError(t, r.take(event{What: lost, worker: 1, Text: "too slow"}),
		"worker 1 lost the lock in the midst of writing: too slow")
}

// downgradedAt7 is a story in which worker 1 has written 7 and goes on reading.
func downgradedAt7(t *testing.T) *rwStory {
	t.Helper()
	r := newRWStory(&stage{})
	require.NoError(t, r.take(event{What: wrote, worker: 1, Value: 7}))
	require.NoError(t, r.take(event{What: keeps, worker: 1, Value: 7, at: time.Now()}))
	return r
}

func TestDowngrade(t *testing.T) {
	r := downgradedAt7(t)
	d := r.downgraded
	require.NoError(t, r.take(event{What: holds, worker: 3, Value: 6}), "before, and heard late")
	require.Zero(t, r.atNumber(7))
	require.NoError(t, r.take(event{What: holds, worker: 4, Value: 7}))
	require.NoError(t, r.take(event{What: holds, worker: 3, Value: 7}))
	require.Equal(t, 2, r.atNumber(7))
	require.NoError(t, r.take(event{What: waiting, worker: 2}))
	d.over = true
	require.NoError(t, r.take(event{What: holds, worker: 2, Value: 7}), "heard before the last read of worker 1")
	require.Zero(t, d.kept)
	require.NoError(t, r.take(event{What: saw, worker: 1, Value: 7, at: d.at.Add(time.Second)}))
	require.Equal(t, time.Second, d.kept)
}

func TestWriterBesideDowngrade(t *testing.T) {
	require.EqualError(t, downgradedAt7(t).take(event{What: holds, worker: 2, Value: 7}),
		"worker 2 got in to write while worker 1 went on reading")
	require.EqualError(t, downgradedAt7(t).take(event{What: saw, worker: 1, Value: 8}),
		"worker 1 wrote 7, went on reading, and has read 8")
}

func TestDocument(t *testing.T) {
	d := documentIn(filepath.Join(t.TempDir(), "document"))
	require.Error(t, d.audit())
	require.NoError(t, d.head.write(3))
	require.NoError(t, d.foot.write(3))
	require.NoError(t, d.audit())
	require.NoError(t, d.head.write(4))
	require.EqualError(t, d.audit(), "the document was left half-written, with 4 at its head and 3 at its foot")
}

// Workers that a story waits for are those that are not dead.
func TestReaders(t *testing.T) {
	r := newRWStory(&stage{})
	require.Equal(t, []int{3, 4, 5, 6, 7, 8}, r.readers())
	r.away[8] = true
	require.Equal(t, []int{3, 4, 5, 6, 7}, r.readers())
	for w := 3; w <= 8; w++ {
		require.NoError(t, r.take(event{What: holds, worker: w, Value: 1}))
	}
	require.Equal(t, 5, r.reading(), "one that is gone does not read")
	require.Zero(t, r.writer())
}
