package locks

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// mostRounds is how often all sessions of a ring may tell for what they wait before it is found: as often as they do in
// two seconds, of which they wait for half a second before they tell. That no process may stand still meanwhile cannot
// be asked for here; BenchmarkRings prints how long it takes.
const mostRounds = int((2*time.Second - 500*time.Millisecond) / presence.Round)

// newRings makes rings of so many owners, each on a server of its own.
func newRings(t *testing.T, apart string, breaks bool, sizes ...int) (
	rings []*kit.Ring, servers []*redistest.Server,
) {
	t.Helper()
	for _, owners := range sizes {
		srv := redistest.Start(t)
		servers = append(servers, srv)
		rings = append(rings, kit.NewRing(t, srv, owners, apart, breaks))
	}
	return rings, servers
}

// Of two owners, or five, that wait for each other the youngest fails in time, wherever they are.
func TestRingsAreBrokenInAFewLooks(t *testing.T) {
	t.Parallel()
	for _, apart := range kit.Rings {
		t.Run(apart, func(t *testing.T) {
			t.Parallel()
			rings, _ := newRings(t, apart, true, 2, 5)
			began, rounds := make([]time.Time, len(rings)), make([]func() int, len(rings))
			for i, r := range rings {
				r.Close(t)
				began[i], rounds[i] = time.Now(), r.Rounds(t)
			}
			found := make([]bool, len(rings))
			kit.AwaitFor(t, time.Minute, "all ends", func() bool {
				for i, r := range rings {
					if found[i] {
						continue
					}
					n := rounds[i]()
					if found[i] = len(r.Ended) > 0; found[i] {
						requireBroken(t, r, <-r.Ended)
						t.Log(len(r.IDs), "owners: after", time.Since(began[i]), "and", n, "rounds")
						assert.LessOrEqual(t, n, mostRounds)
					}
				}
				return !slices.Contains(found, false)
			})
			for _, r := range rings {
				r.Leave()
			}
		})
	}
}

// requireBroken requires the youngest to have failed, with an error that names all.
func requireBroken(t *testing.T, r *kit.Ring, end kit.RingEnd) {
	t.Helper()
	require.Equal(t, len(r.IDs)-1, end.Who)
	require.Contains(t, end.Err, holdfast.ErrDeadlock.Error())
	for i, id := range r.IDs {
		require.Contains(t, end.Err, id)
		require.Contains(t, end.Err, fmt.Sprintf("%q", r.Names[i]))
	}
}

// What the command asks names all their processes.
func TestRingsAreNamed(t *testing.T) {
	t.Parallel()
	rings, servers := newRings(t, kit.Rings[2], false, 2, 3)
	for _, r := range rings {
		r.Close(t)
	}
	for i, r := range rings {
		client := kit.NewClient(t, servers[i].Addr())
		var found []*survey.Deadlock
		kit.AwaitFor(t, time.Minute, "a deadlock", func() bool {
			var err error
			found, err = survey.Deadlocks(t.Context(), client)
			require.NoError(t, err)
			return len(found) > 0
		})
		require.Len(t, found, 1)
		var ids, names []string
		pids := map[int]bool{}
		for _, w := range found[0].Waits {
			ids, names = append(ids, w.Owner), append(names, w.Name)
			pids[w.Process.PID] = true
		}
		assert.ElementsMatch(t, r.IDs, ids)
		assert.ElementsMatch(t, r.Names, names)
		assert.Len(t, pids, len(r.IDs))
		r.Leave()
	}
}

// As long as nobody waits for long, sessions that would tell for what they wait, and break deadlocks, tell no more than
// that they are there, and ask for nothing.
func TestOnlyLongWaitsCostTraffic(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}},
		&holdfast.Options{Lease: time.Hour, BreakDeadlocks: true})
	wanted := rlock.New(s, "wanted", nil)
	outer := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
	nested := outer.Context(t.Context())
	kit.Await(t, "its key", func() bool { return len(srv.Strs(t, "KEYS", "holdfast_session:*")) == 1 })

	srv.ResetStats(t)
	began, tellings, waits := time.Now(), int64(0), 0
	for ; time.Since(began) < 2*time.Second || waits < 20; waits++ {
		before := time.Now()
		other := kit.Lock(t, t.Context(), wanted)
		got := kit.GoLock(nested, wanted.Lock)
		kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
		require.NoError(t, other.Release())
		h := kit.Granted(t, time.Minute, got, "the nested lock")
		require.NoError(t, h.Release())
		if waited := time.Since(before); waited >= 500*time.Millisecond { // the machine stood still
			tellings += 1 + int64(waited/(250*time.Millisecond))
		}
	}
	stats := srv.CommandStats(t)
	t.Log(waits, "waits:", stats)
	assert.LessOrEqual(t, stats["set"], tellings)
	assert.LessOrEqual(t, stats["get"], 2*tellings) // what others tell
	require.NoError(t, outer.Release())
}
