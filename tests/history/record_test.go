package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// The kinds of operations of a history. No client calls the last one: it stands for the moment from which the server
// may end a grant by itself, because its lease has run out or its process was killed.
const (
	opTake    = "take"
	opReenter = "re-enter"
	opRelease = "release"
	opLocked  = "locked"
	opCount   = "count"
	opOrphan  = "orphan"
)

// A deed is one operation of a history.
type deed struct {
	Client  int    // the client that did it
	Java    bool   // which is a thread of a process in Java, with Redisson
	Serial  int    // the number of the deed among the client's
	Lock    string // the name of the lock
	Half    string // halfRead or halfWrite for a read-write lock
	Kind    string
	Tag     string // the grant in question, unique for each outermost take
	Wire    string // of a release: what the server knows the grant by
	Call    time.Duration
	Return  time.Duration // 0: the process was killed before it returned
	Out     string        // the class of the error; for a look, what it saw
	Granted bool          // of a take: a release of another process has handed the lock on
	Strays  bool          // a call of which nobody knows the outcome may have had the lock meanwhile
	// For a release: the last deadline of what is held yet of the grant, or of this half of it. For all that Java does
	// with a grant: what the take has got cannot have ended by then.
	Until time.Duration
}

// String tells what was done and how it ended, without numbers and names.
func (d deed) String() string {
	kind, _, _ := strings.Cut(d.Kind, " ")
	out := d.Out
	if kind == opAcquire && strings.HasPrefix(out, "done ") {
		out = "done"
	}
	return strings.TrimSpace(d.Half + " " + kind + " " + out)
}

func (d deed) describe() string { return fmt.Sprintf("%s %s %s: %s", d.Half, d.Kind, d.Tag, d.Out) }

// A historybook records what one process reports.
type historybook struct {
	mu    sync.Mutex
	deeds map[string]deed // by client and serial
	wrong []string
}

func (b *historybook) hear(line string) {
	var d deed
	if err := json.Unmarshal([]byte(line), &d); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = append(b.wrong, line)
		return
	}
	b.write(d)
}

func (b *historybook) write(d deed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deeds[fmt.Sprint(d.Client, " ", d.Serial)] = d
}

func (b *historybook) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.deeds)
}

// last returns each client's last deed that was about a grant.
func (b *historybook) last() map[int]deed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return lastOf(maps.Values(b.deeds))
}

func lastOf(deeds iter.Seq[deed]) map[int]deed {
	last := map[int]deed{}
	for d := range deeds {
		if d.Serial >= last[d.Client].Serial && d.Tag != "" {
			last[d.Client] = d
		}
	}
	return last
}

// A record is everything that was done in a history.
type record struct {
	deeds  []deed          // in the order in which they began
	killed []time.Duration // when each process was killed; 0: it was not
}

func newRecord(books []*historybook, killed []time.Duration) record {
	r := record{killed: killed}
	for i, b := range books {
		for _, d := range b.deeds {
			if d.Return == 0 { // the end of its process cut it off
				d.Out, d.Return = "unknown", killed[i]
			}
			r.deeds = append(r.deeds, d)
		}
	}
	slices.SortFunc(r.deeds, func(a, b deed) int { return cmp.Or(cmp.Compare(a.Call, b.Call), a.Serial-b.Serial) })
	return r
}

// killedAt returns when the process of a client was killed; 0: it was not.
func (r record) killedAt(client int) time.Duration {
	if process := client / clientsEach; process < len(r.killed) {
		return r.killed[process]
	}
	return 0
}

// outs counts the deeds by outcome.
func (r record) outs(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, d := range r.deeds {
		require.NotContains(t, d.Out, "other")
		counts[d.String()]++
	}
	return counts
}

// require checks that enough was done, and that all the rare outcomes occurred, on whichever half.
func (r record) require(t *testing.T, rare ...string) {
	t.Helper()
	outs := r.outs(t)
	t.Log(len(r.deeds), outs)
	total := 0
	for _, d := range r.deeds {
		if d.Kind != opTrust && d.Out != "nothing" {
			total++
		}
	}
	require.Greater(t, total, historians*deedsEach*25/36)
	for _, rare := range rare {
		n := 0
		for out, count := range outs {
			if strings.HasSuffix(out, rare) {
				n += count
			}
		}
		require.NotZero(t, n, "no %s", rare)
	}
}

// modelOf returns a model of locks, each of which has a state. The function after returns the states in which a lock
// may be after a deed, none if the deed was impossible. Without equal, states are compared by ==.
func modelOf[S any](initial S, after func(S, deed) []S, equal func(a, b S) bool) porcupine.Model {
	m := &porcupine.NondeterministicModel{
		Init: func() []any { return []any{initial} },
		Step: func(state, input, output any) (next []any) {
			for _, s := range after(state.(S), input.(deed)) {
				next = append(next, s)
			}
			if _, underWay := output.(open); underWay { // it may not have been executed yet
				next = append(next, state)
			}
			return next
		},
		Partition:         perLock,
		DescribeOperation: func(input, _ any) string { return input.(deed).describe() },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	if equal != nil {
		m.Equal = func(a, b any) bool { return equal(a.(S), b.(S)) }
	}
	return m.ToModel()
}

// perLock splits a history so that each lock's part is checked by itself.
func perLock(history []porcupine.Operation) [][]porcupine.Operation {
	byLock := map[string][]porcupine.Operation{}
	for _, o := range history {
		name := o.Input.(deed).Lock
		byLock[name] = append(byLock[name], o)
	}
	return slices.Collect(maps.Values(byLock))
}

func checkHistory(t *testing.T, model porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	began := time.Now()
	if porcupine.CheckOperationsTimeout(model, history, 3*time.Minute) != porcupine.Ok { // most take seconds
		result, info := porcupine.CheckOperationsVerbose(model, history, time.Minute) // slower by far
		dir := t.ArtifactDir()
		require.NoError(t, porcupine.VisualizePath(model, info, dir+"/history.html"))
		text, err := json.Marshal(history)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(dir+"/history.json", text, 0o600))
		t.Fatalf("the history is %v: see %s, with -artifacts%s", result, dir, explain(model, history))
	}
	t.Log(len(history), "checked in", time.Since(began))
}

// happened makes an operation of a made-up history.
func happened(d deed, from, to int64) porcupine.Operation {
	return porcupine.Operation{ClientId: d.Client, Input: d, Call: from, Return: to}
}
