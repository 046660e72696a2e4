package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

func TestLedgerFindsLostUpdates(t *testing.T) {
	l := ledger{}
	for n := 1; n <= 3; n++ {
		require.NoError(t, l.take(event{What: wrote, worker: n, Value: n}))
	}
	require.NoError(t, l.audit(3))
	require.EqualError(t, l.audit(2), "lost updates: the counter is 2 after 3 writes")
	require.EqualError(t, l.take(event{What: wrote, worker: 4, Value: 2}),
		"a lost update: worker 2 and worker 4 both wrote 2")
	require.NoError(t, l.take(event{What: wrote, worker: 1, Value: 5}))
	require.EqualError(t, l.audit(4), "nobody reported writing 4, and the counter is 4")
}

// A worker that reads what the victim has read comes after it; one that reads less had the lock before.
func TestTakeover(t *testing.T) {
	began := time.Now()
	l := &lockStory{victim: victim{worker: 1, read: 7, at: began}}
	for _, e := range []event{
		{What: holds, worker: 2, Value: 6},
		{What: holds, worker: 3, Value: 7, at: began.Add(time.Second)},
		{What: holds, worker: 2, Value: 8, at: began.Add(2 * time.Second)},
	} {
		l.take(e)
	}
	require.Equal(t, 3, l.victim.heir)
	require.Equal(t, time.Second, l.victim.after)
}

func TestQueueInOrder(t *testing.T) {
	for served, want := range map[string]string{
		"abc":  "",
		"xabc": "",
		"acb":  "out of order: number 3 of the queue was served as number 2",
	} {
		f := &fairStory{stage: &stage{Screen: &cli.Screen{Out: new(strings.Builder)}}, grants: map[string]int{}}
		for i, id := range strings.Split(served, "") {
			f.grants[id] = i
		}
		if err := f.inOrder([]string{"a", "b", "c"}); want == "" {
			require.NoError(t, err, served)
		} else {
			require.EqualError(t, err, want)
		}
	}
}

func TestWorkersAtWork(t *testing.T) {
	folder := t.TempDir()
	for worker, want := range []int{1, 2, 3} {
		at, err := enter(folder, worker)
		require.NoError(t, err)
		require.Equal(t, want, at)
	}
	require.NoError(t, leave(folder, 1))
	at, err := enter(folder, 7)
	require.NoError(t, err)
	require.Equal(t, 3, at)

	p := &poolStory{}
	for _, e := range []event{{What: holds, Value: 3}, {What: did}, {What: holds, Value: 2}, {What: did}} {
		p.take(e)
	}
	require.Equal(t, [2]int{3, 2}, [2]int{p.most, p.done})
}

// A worker that cannot reach the server says why, and the demo ends with its words.
func TestWorkerWithoutServer(t *testing.T) {
	var orders strings.Builder
	require.NoError(t, json.NewEncoder(&orders).Encode(setup{
		Scene: "lock", Redis: "redis://127.0.0.1:1", Lease: time.Second,
	}))
	err := work(t.Context(), strings.NewReader(orders.String()), io.Discard)
	require.ErrorContains(t, err, "open: dial tcp 127.0.0.1:1: ")
}

func TestHelpNamesTheScenes(t *testing.T) {
	text, err := os.ReadFile("../cli/help/demo.txt")
	require.NoError(t, err)
	for _, s := range scenes() {
		require.Contains(t, string(text), fmt.Sprintf("  %-8s %s\n", s.name, s.short))
	}
}
