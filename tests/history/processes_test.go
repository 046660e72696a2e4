package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A nap is what a sleeper found when it woke up.
type nap struct {
	Holding bool          // it has the lock now; all other fields but Granted are of naps that are over
	Granted bool          // by a release of another process
	Slept   time.Duration // between two looks
	Held    int           // how many looks, of a thousand at the hold and a thousand at its context, said held
	Err     string        // of the hold
	Cause   string        // of the context
	Release string        // what releasing returned
}

const looks = 1000

// sleeper holds a lock again and again, and looks at it whenever it notices that it did not run for a lease.
func sleeper(args []string) {
	var last holdfast.Acquired
	s := kit.OpenObserved(args[0], kit.WorkerLease, noting(&last))
	l := kit.KindOf(args[2]).Make(s, args[1], 0)
	for {
		h, err := l.Lock(context.Background())
		kit.Must(err)
		ctx := h.Context(context.Background())
		kit.Say(nap{Holding: true, Granted: last.Granted})
		slept := awaitNap()
		held := 0
		for range looks {
			if h.Err() == nil {
				held++
			}
			if ctx.Err() == nil {
				held++
			}
		}
		kit.Say(nap{
			Slept: slept, Held: held, Err: kit.ClassOf(h.Err()),
			Cause: kit.ClassOf(context.Cause(ctx)), Release: kit.ClassOf(h.Release()),
		})
	}
}

// noting notes how the last call has ended, of those that have one after the other.
func noting(last *holdfast.Acquired) *holdfast.Observer {
	return &holdfast.Observer{
		Acquire: func(context.Context, holdfast.Subject) func(holdfast.Acquired) {
			return func(a holdfast.Acquired) { *last = a }
		},
	}
}

// awaitNap returns after this process did not run for a lease, as soon as it runs again.
func awaitNap() time.Duration {
	for before := worker.Now(); ; {
		time.Sleep(time.Millisecond)
		now := worker.Now()
		if now-before > kit.WorkerLease {
			return now - before
		}
		before = now
	}
}

// excluding are the kinds of locks of which one process has each at a time, and whether a release grants them.
var excluding = map[string]bool{"rlock fenced": true, "fairlock": true, writers: false, "semaphore expirable": false}

// A process that was stopped for longer than its lease knows that it has lost the lock from its first look on, whether
// a call had taken it or a release had granted it.
func TestAStoppedProcessNeverSaysHeld(t *testing.T) {
	t.Parallel()
	const processes, rounds = 10, 5
	srv := redistest.Start(t)
	kinds := slices.Sorted(maps.Keys(excluding))
	var granted atomic.Int64
	kit.InParallel(t, processes, kit.UpTo(processes), func(i int) string { return fmt.Sprintf("process %d", i) },
		func(t *testing.T, i int) {
			naps := make(chan nap, 2*rounds)
			w := worker.Start(t, worker.Hear(t, func(n nap) { naps <- n }),
				"sleeper", srv.Addr(), fmt.Sprintf("lock %d", i), kinds[i%len(kinds)])
			defer passBack(t, kit.KindOf(kinds[i%len(kinds)]).Make(kit.Open(t, srv.Addr(), nil), fmt.Sprintf("lock %d", i), 0))()
			for range rounds {
				has := kit.Within(t, 10*time.Second, naps, "a hold")
				require.True(t, has.Holding)
				if has.Granted {
					granted.Add(1)
				}
				kit.SleepUntil(time.Now().Add(rand.N(kit.WorkerLease / 3))) // in any phase of the renewals
				w.Pause()
				kit.SleepUntil(time.Now().Add(kit.WorkerLease * 5 / 4))
				w.Resume()
				n := kit.Within(t, 10*time.Second, naps, "the looks")
				require.False(t, n.Holding)
				require.Zero(t, n.Held, "looks that said held, after %v", n.Slept)
				require.Equal(t, []string{"lost", "lost", "lost"}, []string{n.Err, n.Cause, n.Release})
			}
		})
	t.Log(granted.Load(), "of", processes*rounds, "granted by a release")
	require.Greater(t, granted.Load(), int64(rounds))
}

// passBack has a lock whenever it can for a moment in which others begin to wait for it, until it is told to end.
func passBack(t *testing.T, l kit.Locker) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			h, err := l.Lock(ctx)
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
				return
			}
			time.Sleep(100 * time.Millisecond)
			assert.NoError(t, h.Release())
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// A belief is what a contender reports of itself.
type belief struct {
	What string // "waits", "holds", "still holds", "released", "lost"
	// for "waits" and "holds" a moment after it; for the others a moment before the question was asked
	At      time.Duration
	Token   int64
	Granted bool   // by a release of another process
	Err     string // of a release
}

// contender takes one lock again and again, and reports when it believes that it holds the lock.
func contender(args []string) {
	var last holdfast.Acquired
	s := kit.OpenObserved(args[0], kit.WorkerLease, noting(&last))
	l := kit.KindOf(args[2]).Make(s, args[1], 0)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-worker.Stopped()
		cancel()
	}()
	for {
		kit.Say(belief{What: "waits", At: worker.Now()})
		h, err := l.Lock(ctx)
		if ctx.Err() != nil && err != nil {
			kit.Must(s.Close())
			return
		}
		kit.Must(err)
		kit.Say(belief{What: "holds", At: worker.Now(), Token: h.Token(), Granted: last.Granted})
		for end := worker.Now() + holding(); ; time.Sleep(time.Millisecond) {
			at := worker.Now()
			if h.Err() != nil {
				kit.Say(belief{What: "lost", At: at})
				break
			}
			kit.Say(belief{What: "still holds", At: at})
			if at > end {
				at := worker.Now()
				err := h.Release()
				kit.Say(belief{What: "released", At: at, Err: kit.ClassOf(err)})
				break
			}
		}
	}
}

// holding is how long a contender holds: in most cases not at all, sometimes longer than a lease.
func holding() time.Duration {
	if rand.N(20) == 0 {
		return kit.WorkerLease * 3 / 2
	}
	return rand.N(20 * time.Millisecond)
}

// An interval is a time for which one contender certainly held the lock: from when it got it until it last asked.
type interval struct {
	who      int
	from, to time.Duration
	token    int64
}

// A witness records what one contender reports.
type witness struct {
	w   *worker.Worker
	who int

	mu        sync.Mutex
	began     belief // the hold that it has been granted, and not yet looked at
	holds     []interval
	granted   int    // how many of them were, by a release of another process
	state     string // its last report
	surprises []string
}

func (w *witness) hear(line string) {
	var b belief
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := json.Unmarshal([]byte(line), &b); err != nil {
		w.surprises = append(w.surprises, fmt.Sprintf("%q: %v", line, err))
	}
	w.state = b.What
	switch b.What {
	case "holds":
		w.began = b
		if b.Granted {
			w.granted++
		}
	case "still holds":
		if w.began.What != "" {
			w.holds = append(w.holds, interval{who: w.who, from: w.began.At, token: w.began.Token})
			w.began = belief{}
		}
		w.holds[len(w.holds)-1].to = b.At
	case "released":
		// A process that was stopped during its release may find that it has lost the hold, or that no reply came in
		// time.
		if b.Err != "done" && b.Err != "lost" && b.Err != "unknown" {
			w.surprises = append(w.surprises, "release: "+b.Err)
		}
	}
}

func (w *witness) says(what ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(what, w.state)
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.holds)
}

// However holders and waiters are killed and stopped, no two ever believe that they hold the lock at the same time.
func TestBeliefsOfProcessesNeverOverlap(t *testing.T) {
	t.Parallel()
	for kind, grants := range excluding {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			granted := beliefsNeverOverlap(t, kit.KindOf(kind))
			require.Equal(t, grants, granted > 0)
		})
	}
}

// beliefsNeverOverlap returns how many holds a release has granted.
func beliefsNeverOverlap(t *testing.T, k kit.Kind) (granted int) {
	t.Helper()
	const contenders, blows = 5, 18
	srv := redistest.Start(t)
	var all []*witness
	start := func() *witness {
		w := &witness{who: len(all)}
		w.w = worker.Start(t, w.hear, "contender", srv.Addr(), "orders", k.Name)
		all = append(all, w)
		return w
	}
	var alive []*witness
	for range contenders {
		alive = append(alive, start())
	}
	did := map[string]int{}
	for blow := range blows {
		states := [][]string{{"holds", "still holds"}, {"waits"}}[blow%2]
		i := awaitOne(t, alive, states)
		if blow%3 == 0 {
			alive[i].w.Kill()
			did["killed while "+states[0]]++
			alive[i] = start()
			continue
		}
		did["stopped while "+states[0]]++
		alive[i].w.Pause()
		kit.SleepUntil(time.Now().Add(rand.N(kit.WorkerLease * 3 / 2)))
		alive[i].w.Resume()
	}
	for _, w := range alive { // everybody who is left gets the lock again
		before := w.count()
		kit.Await(t, "the lock for everybody", func() bool { return w.count() > before })
	}
	for _, w := range alive {
		w.w.End()
		kit.Within(t, 20*time.Second, w.w.Ended(), "the end of a contender")
	}
	for _, w := range all {
		granted += w.granted
	}
	t.Log(did, "holds:", noOverlap(t, all, k.Fenced), "granted:", granted)
	if !k.Permits {
		kit.Await(t, "the end of the lock", func() bool { return len(srv.Strs(t, "KEYS", "orders")) == 0 })
	}
	return granted
}

// awaitOne waits until one of the contenders is in one of the states, and returns which.
func awaitOne(t *testing.T, of []*witness, states []string) (found int) {
	t.Helper()
	kit.Await(t, strconv.Quote(states[0]), func() bool {
		for _, i := range rand.Perm(len(of)) {
			if of[i].says(states...) {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

// noOverlap checks that no two intervals overlap and that tokens, if there are any, increase with time. It returns the
// number of intervals.
func noOverlap(t *testing.T, all []*witness, fenced bool) int {
	t.Helper()
	var holds []interval
	for _, w := range all {
		holds = append(holds, w.holds...)
		require.Empty(t, w.surprises)
	}
	sortApart(t, holds)
	for i, h := range holds[1:] {
		require.True(t, !fenced || holds[i].token < h.token)
	}
	return len(holds)
}

// sortApart sorts what was held of a lock, and checks that no two intervals overlap.
func sortApart(t *testing.T, holds []interval) {
	t.Helper()
	if i := sortByTime(holds); i > 0 {
		require.Fail(t, "two believed to hold at the same time", "%v and %v", holds[i-1], holds[i])
	}
}

// sortByTime sorts what was held of a lock, and returns which interval is the first one that began before the one
// before it had ended; 0 if there is none.
func sortByTime(holds []interval) int {
	slices.SortFunc(holds, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(holds); i++ {
		if holds[i].from <= holds[i-1].to {
			return i
		}
	}
	return 0
}
