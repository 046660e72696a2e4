package interop_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The mixed stress. HOLDFAST_STRESS=10m has it go on for so long.
const (
	stressTime  = 12 * time.Second
	stressLease = 6 * time.Second // a busy machine must not lose Java's locks: Java does not learn of it
	stressBlow  = 3 * time.Second // from one kill to the next
	stressRound = 1500 * time.Millisecond
	// stressLimit is of anything that must end by itself: Java gets a MultiLock late where many want its members.
	stressLimit = 3 * time.Minute

	// calmWait is Redisson's fairLockWaitTimeout, and hastyWait how long all wait for the fair lock that the killed
	// use.
	calmWait  = 6 * time.Second
	hastyWait = 2 * time.Second
	// A request that was made so much earlier was in the queue first, also on a busy machine.
	surelyEarlier = 1500 * time.Millisecond
)

// Two JVMs and two processes in Go use all kinds at once, while one of each language is killed and replaced over and
// over. Nobody is inside with anybody whom that should keep out, tokens grow, who came first is first, all meet at the
// latches, and in the end everything is as if nothing had been.
//
// It goes on for 12 s; by hand for as long as HOLDFAST_STRESS says, 10m for instance.
func TestMixedStress(t *testing.T) {
	length := stressTime
	if wanted, ok := os.LookupEnv("HOLDFAST_STRESS"); ok {
		length = must(time.ParseDuration(wanted))(t)
	}
	t.Logf("the mixed stress goes on for %v; HOLDFAST_STRESS=10m has it go on for longer", length)
	survivor, victim := sharedJava(t), ownJava(t)
	server, others := redistest.Start(t), []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}},
		&holdfast.Options{Lease: stressLease})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, session.Close()) })
	redistest.Limit(t, func() { _ = session.Close() })
	permits, pool := semaphore.NewExpirable(session, "expirable", nil), semaphore.New(session, "semaphore")
	require.True(t, must(permits.TrySetPermits(t.Context(), stressSizes["expirable"]))(t))
	require.True(t, must(pool.TrySetPermits(t.Context(), stressSizes["semaphore"]))(t))

	began := time.Now()
	plan := stressPlan{Address: server.Addr(), Began: worker.Now(), Rounds: int(length / stressRound)}
	for _, other := range others {
		plan.Others = append(plan.Others, other.Addr())
	}
	var all []*stressProcess
	start := func(language string, jvm *interop.Java, survives bool) *stressProcess {
		plan.Process, plan.Survives = fmt.Sprint(language, " ", len(all)), survives
		p := func() *stressProcess {
			if jvm != nil {
				return startStressJava(t, jvm, plan)
			}
			return startStressGo(t, plan)
		}()
		all = append(all, p)
		return p
	}
	start(java.name, survivor, true)
	start(golang.name, nil, true)
	victims := []*stressProcess{start(java.name, victim, false), start(golang.name, nil, false)}
	progress := func() {
		for _, p := range victims {
			kit.Await(t, "the first grant of "+p.plan.Process, func() bool { return p.grants() > 0 })
		}
	}
	kills := 0
	for next := rand.N(2); ; next = 1 - next {
		at := time.Duration(kills+1) * stressBlow
		if at >= length {
			break
		}
		progress()
		time.Sleep(time.Until(began.Add(at + rand.N(stressBlow/3))))
		victims[next].blow()
		kills++
		if victims[next].language == java.name {
			victims[next] = start(java.name, ownJava(t), false)
		} else {
			victims[next] = start(golang.name, nil, false)
		}
	}
	progress()
	time.Sleep(time.Until(began.Add(length)))
	told := time.Now()
	for _, p := range all {
		p.stop()
	}
	deadline := time.After(stressLimit)
	for _, p := range all {
		select {
		case <-p.ended:
		case <-deadline:
			t.Fatal("a process does not come to its end: ", p.state())
		}
	}
	stopped, sinceThen := time.Now(), kit.Stopwatch()

	var stays []stay
	var meetings []meeting
	var failures []string
	for _, p := range all {
		require.NotZero(t, p.grants(), p.plan.Process)
		stays, meetings, failures = append(stays, p.stays()...), append(meetings, p.meetings...),
			append(failures, p.failures...)
	}
	late, compared := overtaken(stays, "calm fair", surelyEarlier)
	t.Logf("%d processes, %d of them killed, which stopped after %v, within %v; "+
		"%d of %d at %d latches; %d pairs in a queue\n%s",
		len(all), kills, told.Sub(began).Round(time.Millisecond), stopped.Sub(told).Round(time.Millisecond),
		len(meetings), 2*goers*plan.Rounds, plan.Rounds, compared, stressTable(t, stays))
	for _, wrong := range [][]string{
		failures, overfull(stays), unordered(stays), late, unmet(meetings, plan.Rounds, 2*goers),
	} {
		assert.Empty(t, wrong[:min(len(wrong), 3)], "the first of %d", len(wrong))
	}
	if t.Failed() {
		return
	}
	require.GreaterOrEqual(t, compared, int(length/time.Second)/2)

	// What the dead have left ends with its lease, and their places in the queue when somebody looks.
	require.Equal(t, stressSizes["semaphore"], must(pool.AvailablePermits(t.Context()))(t))
	kit.Await(t, "the permits of the dead", func() bool {
		return must(permits.AvailablePermits(t.Context()))(t) == stressSizes["expirable"]
	})
	require.Less(t, sinceThen(), stressLease+2*time.Second)
	require.Zero(t, must(permits.AcquiredPermits(t.Context()))(t))
	for _, name := range []string{"fair", "nonreentrant fair", "calm fair"} {
		ctx, cancel := context.WithTimeout(t.Context(), stressLimit/2)
		hold, err := stressKinds[name].golang(&goHands{session: session}, []string{name}).Lock(ctx)
		cancel()
		require.NoError(t, err)
		require.NoError(t, hold.Release())
	}
	for _, srv := range append(others, server) {
		kit.Await(t, "the end of all leases", func() bool { return len(stressRemains(t, srv)) == 0 })
	}
	t.Logf("all was as before %v after the end", time.Since(stopped).Round(time.Millisecond))
}

// stressRemains are the keys that should not be there.
func stressRemains(t *testing.T, server *redistest.Server) []string {
	t.Helper()
	return slices.DeleteFunc(server.Strs(t, "KEYS", "*"), func(key string) bool {
		return slices.Contains([]string{"semaphore", "expirable", "redisson_lock_token:{fenced}"}, key) ||
			strings.HasPrefix(key, "redisson_unlock_latch:") || // Redisson's notes of what it has released, which expire
			// where the dead stand for another minute
			strings.HasPrefix(key, "holdfast_line") || strings.HasPrefix(key, "holdfast_rwlock_") ||
			// where those of the dead are known for a day whom a release has passed over
			strings.HasPrefix(key, "holdfast_fair_") && server.Int(t, "PTTL", key) > 0
	})
}

// stressTable shows what was done, and requires that each language has done something of each kind.
func stressTable(t *testing.T, stays []stay) string {
	t.Helper()
	type sum struct {
		grants, lost int
		longest      time.Duration
	}
	sums := map[string]*sum{}
	for name := range stressKinds {
		for _, l := range languages {
			sums[name+l.name] = &sum{}
		}
	}
	for _, s := range stays {
		language, _, _ := strings.Cut(s.Who, " ")
		of := sums[s.Kind+language]
		of.grants++
		of.longest = max(of.longest, s.From-s.Asked)
		if s.Lost {
			of.lost++
		}
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "kind\tby Go\tby Java\tGo lost\tGo waited\tJava waited\t")
	for _, name := range slices.Sorted(maps.Keys(stressKinds)) {
		g, j := sums[name+golang.name], sums[name+java.name]
		require.NotZero(t, g.grants, "%s in Go", name)
		require.NotZero(t, j.grants, "%s in Java", name)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%v\t%v\t\n", name, g.grants, j.grants, g.lost,
			g.longest.Round(time.Millisecond), j.longest.Round(time.Millisecond))
	}
	require.NoError(t, table.Flush())
	return text.String()
}
