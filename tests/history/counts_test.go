package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The kinds of operations on counts; those that take a number are followed by it.
const (
	opAcquire = "acquire"
	opGive    = "give"
	opFree    = "free"
	opSet     = "set"
	opDown    = "down"
	opWait    = "wait"
)

// late is the outcome of an attempt without a reply in time. What it takes is given back.
const late = "late"

const (
	poolPermits = 8               // of each semaphore of a history
	countsLease = 3 * time.Second // an attempt may take a third of it
)

// counter runs the client that uses semaphores or latches.
func counter(args []string) {
	switch args[2] {
	case "semaphore":
		narrate(args, countsLease, func(c *client) { c.pool(anyLock(), 0) })
	case waitingPools:
		narrate(args, countsLease, func(c *client) { c.pool(fmt.Sprint("lock ", rand.N(poolsOfFew)), longestWait(false)) })
	default:
		narrate(args, countsLease, (*client).latch)
	}
}

const (
	waitingPools = "semaphore, few locks" // whose clients wait in line
	poolsOfFew   = 6
)

// pool takes permits and gives them back, once. It waits for no longer than that, or makes one attempt.
func (c *client) pool(name string, longest time.Duration) {
	n := 1 + rand.N(poolPermits/2)
	p := semaphore.New(c.session, name)
	ctx := context.Background()
	acquire := deed{Lock: name, Kind: fmt.Sprint(opAcquire, " ", n)}
	out := c.do(acquire, func() string {
		take := p.TryAcquire
		if longest > 0 {
			take = func(ctx context.Context, n int) error { return p.TryAcquireFor(ctx, n, rand.N(longest)) }
		}
		err := take(ctx, n)
		if errors.Is(err, holdfast.ErrBusy) && longest > 0 {
			return "promised" // to somebody who waits, or taken
		}
		if errors.Is(err, holdfast.ErrNoReply) && !errors.Is(err, holdfast.ErrUnknown) {
			return late
		}
		return outcome(err)
	})
	c.look(deed{Lock: name, Kind: opFree}, nil, func() (any, error) { return p.AvailablePermits(ctx) })
	if out == "done" {
		c.do(deed{Lock: name, Kind: fmt.Sprint(opGive, " ", n)}, func() string { return outcome(p.Release(ctx, n)) })
	}
}

// latch does one operation on a latch.
func (c *client) latch() {
	name := anyLock()
	l := latch.New(c.session, name)
	ctx := context.Background()
	switch n := 1 + rand.N(4); rand.N(6) {
	case 0:
		c.do(deed{Lock: name, Kind: fmt.Sprint(opSet, " ", n)}, func() string {
			set, err := l.TrySetCount(ctx, n)
			if err != nil {
				return outcome(err)
			}
			return fmt.Sprint(set)
		})
	case 1, 2, 3:
		c.do(deed{Lock: name, Kind: opDown}, func() string { return outcome(l.CountDown(ctx)) })
	case 4:
		ctx, cancel := context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
		c.do(deed{Lock: name, Kind: opWait}, func() string { return outcome(l.Wait(ctx)) })
	case 5:
		c.look(deed{Lock: name, Kind: opFree}, nil, func() (any, error) { return l.Count(ctx) })
	}
}

// counted is the specification of semaphores and latches: one number.
func counted(initially int) porcupine.Model { return modelOf(initially, afterCount, nil) }

// afterCount returns the counts that a deed may leave; none if the deed was impossible.
func afterCount(s int, d deed) []int {
	kind, number, _ := strings.Cut(d.Kind, " ")
	n, _ := strconv.Atoi(number)
	when := func(possible bool, after ...int) []int {
		if possible {
			return after
		}
		return nil
	}
	if d.Out == "refused" {
		return []int{s}
	}
	switch kind + " " + d.Out {
	case "acquire done":
		return when(s >= n, s-n)
	case "acquire busy":
		return when(s < n, s)
	case "acquire promised":
		return []int{s}
	case "acquire unknown":
		if s >= n {
			return []int{s, s - n}
		}
		return []int{s}
	case "give done":
		return []int{s + n}
	case "give unknown":
		return []int{s, s + n}
	case "set true":
		return when(s == 0, n)
	case "set false":
		return when(s > 0, s)
	case "set unknown":
		if s == 0 {
			return []int{0, n}
		}
		return []int{s}
	case "down done":
		return []int{max(0, s-1)}
	case "down unknown":
		return []int{s, max(0, s-1)}
	case "wait done":
		return when(s == 0, 0)
	case "wait deadline", "wait unknown":
		return []int{s}
	}
	return when(kind == opFree && d.Out == strconv.Itoa(s), s)
}

// counts returns the history of the counts.
func (r record) counts() (all []porcupine.Operation) {
	for _, d := range r.deeds {
		if d.Out == "nothing" || d.Kind == opFree && d.Out == "unknown" {
			continue
		}
		if d.Out == late {
			d.Out = "unknown"
			back := d
			back.Kind = strings.Replace(d.Kind, opAcquire, opGive, 1)
			all = append(all, happened(back, int64(d.Call), int64(d.Return+countsLease)))
		}
		if d.Out == "unknown" {
			d.Return += countsLease / 3 // what is in flight is executed by then, if at all
		}
		all = append(all, happened(d, int64(d.Call), int64(d.Return)))
	}
	return all
}

// Four processes, or twelve, count while replies get lost and one of them is killed; in some histories Java counts,
// too. One number for each name must explain all that they saw, and what is left in the end.
func TestAHistoryOfFourProcessesIsThatOfANumber(t *testing.T) {
	t.Parallel()
	for what, about := range map[string]struct {
		initially int
		rare      []string
	}{
		"semaphore": {poolPermits, []string{"acquire unknown", "acquire busy", "give unknown"}},
		"latch":     {0, []string{"set unknown", "down unknown", "wait done", "wait deadline"}},

		waitingPools + manyProcesses:            {poolPermits, nil},
		waitingPools + manyProcesses + withJava: {poolPermits, nil},
	} {
		arg, java := strings.CutSuffix(what, withJava)
		arg, many := strings.CutSuffix(arg, manyProcesses)
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), nil)
			for i := range historyLocks {
				if about.initially > 0 {
					_, err := semaphore.New(s, fmt.Sprint("lock ", i)).TrySetPermits(t.Context(), about.initially)
					require.NoError(t, err)
				}
			}
			of := subject{
				role: "counter", arg: arg, blows: []blow{{process: 0, after: deedsEach / 3, killed: true}},
				resets: true,
				lost:   func(int, []string) bool { return rand.N(deedsEach/9) == 0 },
			}
			if many {
				of.processes, of.blows = 3*historians, []blow{{process: 0, after: deedsEach / 9, killed: true}}
			}
			if java {
				of = of.withJava("semaphore", poolsOfFew, longestWait(false))
				of.blows = slices.DeleteFunc(of.blows, func(b blow) bool { return !b.killed }) // permits have no leases
			}
			r := write(t, srv, of)
			r.require(t, about.rare...)
			if java {
				r.requireBothAcquire(t)
			}
			kit.SleepUntil(time.Now().Add(countsLease / 3)) // what is in flight is executed in this time
			history := r.counts()
			for i := range historyLocks {
				name, now := fmt.Sprint("lock ", i), int64(worker.Now())
				left := cmp.Or(srv.Str(t, "GET", name), "0")
				history = append(history, happened(deed{
					Client: 4 * historians * clientsEach, Lock: name, Kind: opFree,
					Out: left,
				}, now, now+1))
			}
			checkHistory(t, counted(about.initially), history)
		})
	}
}

// requireBothAcquire checks that permits went to both languages.
func (r record) requireBothAcquire(t *testing.T) {
	t.Helper()
	took := map[bool]int{}
	for _, d := range r.deeds {
		if strings.HasPrefix(d.Kind, opAcquire) && d.Out == "done" {
			took[d.Java]++
		}
	}
	t.Log(took[true], "acquired in Java,", took[false], "in Go")
	require.Greater(t, took[true], deedsEach/72)
	require.Greater(t, took[false], deedsEach/72)
}

// A checker that never finds anything would prove nothing.
func TestTheCountingModelRefuses(t *testing.T) {
	t.Parallel()
	story := func(deeds ...string) (history []porcupine.Operation) {
		for i, d := range deeds {
			words := strings.Split(d, ": ")
			history = append(history, happened(deed{Kind: words[0], Out: words[1]}, int64(10*i), int64(10*i+1)))
		}
		return history
	}
	for _, c := range []struct {
		legal     bool
		initially int
		history   []porcupine.Operation
	}{
		{true, 3, story("acquire 2: done", "acquire 2: busy", "give 2: done", "free: 3")},
		{false, 3, story("acquire 2: done", "acquire 2: done")},
		{false, 3, story("acquire 2: busy")},
		{true, 3, story("acquire 2: unknown", "acquire 2: busy", "free: 1")},
		{true, 3, story("acquire 2: unknown", "acquire 2: done", "free: 1")},
		{false, 3, story("acquire 2: unknown", "acquire 2: done", "free: 3")},
		{false, 3, story("give 1: done", "free: 3")},
		{true, 0, story("set 2: true", "down: done", "wait: deadline", "down: done", "wait: done", "set 1: true")},
		{false, 0, story("set 2: true", "down: done", "wait: done")},
		{false, 0, story("set 2: true", "set 1: true")},
		{true, 0, story("set 1: true", "down: unknown", "wait: done")},
	} {
		require.Equal(t, c.legal, porcupine.CheckOperations(counted(c.initially), c.history), c.history)
	}
}
