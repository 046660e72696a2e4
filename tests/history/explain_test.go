package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// open is the output of a deed that was under way when its history was cut: it has been done by then, or not yet.
type open struct{}

// explain says of each lock whose history is illegal which deed was the first to return what nothing explains that had
// been called by then, or nothing that is found soon.
func explain(model porcupine.Model, history []porcupine.Operation) string {
	var b strings.Builder
	for _, part := range perLock(history) {
		slices.SortStableFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		explained := func(n int) bool {
			return porcupine.CheckOperationsTimeout(model, upTo(part, n), 3*time.Second) == porcupine.Ok
		}
		// What explains a history explains it up to any moment, too, so the lengths without an explanation are the upper
		// ones. To find one takes milliseconds; to find that there is none may take minutes.
		if n := 1 + sort.Search(len(part), func(i int) bool { return !explained(i + 1) }); n <= len(part) {
			describe(&b, part, n-1)
		}
	}
	return b.String()
}

// upTo is the history, sorted by returns, as it was when the n-th deed returned.
func upTo(history []porcupine.Operation, n int) []porcupine.Operation {
	cut, was := history[n-1].Return, slices.Clone(history[:n])
	for _, o := range history[n:] {
		if o.Call <= cut {
			o.Return, o.Output = math.MaxInt64, open{}
			was = append(was, o)
		}
	}
	return was
}

// describe writes down a deed, what happened before and after it, and what was under way when it returned.
func describe(b *strings.Builder, history []porcupine.Operation, at int) {
	const before, after = 40, 10
	wrong := history[at]
	fmt.Fprintf(b, "\n%q: the deed marked > cannot be explained; those marked ~ were under way when it returned:",
		wrong.Input.(deed).Lock)
	for i, o := range history {
		underWay := i > at && o.Call <= wrong.Return
		if i < at-before || i > at+after && !underWay {
			continue
		}
		mark := " "
		switch {
		case i == at:
			mark = ">"
		case underWay:
			mark = "~"
		}
		fmt.Fprintf(b, "\n%s %12v to %12v  client %d: %s", mark, time.Duration(o.Call), time.Duration(o.Return),
			o.ClientId, o.Input.(deed).describe())
		if until := o.Input.(deed).Until; until > 0 {
			fmt.Fprintf(b, ", until %v", until)
		}
	}
}

func TestAnIllegalHistoryNamesTheFirstDeedThatCannotBe(t *testing.T) {
	const free, busy = "locked false", "locked true"
	type event struct {
		what     string // "<kind> <out>"
		tag      string
		from, to int64
	}
	for name, c := range map[string]struct {
		history []event
		wrong   int // which one; -1: all can be
	}{
		"a legal one": {[]event{{"take done", "a", 0, 10}, {"release done", "a", 11, 20}, {"take done", "b", 12, 21}}, -1},
		"two holders": {[]event{
			{"take done", "a", 0, 10},
			{"take busy", "b", 12, 14},
			{"take done", "c", 15, 18},
			{"release done", "a", 20, 30},
			{free, "", 40, 41},
			{"release done", "c", 50, 60},
		}, 2},
		"a release under way may have been done": {[]event{
			{"take done", "a", 0, 10},
			{"release done", "a", 15, 40},
			{"take done", "b", 16, 20},
			{"take done", "c", 45, 50},
			{"release done", "b", 60, 70},
		}, 3},
		"a take under way may not have been done": {[]event{
			{"take done", "b", 5, 100},
			{"take done", "a", 6, 10},
			{busy, "", 20, 30},
			{busy, "", 31, 32},
			{busy, "", 33, 34},
			{"release done", "a", 50, 60},
			{free, "", 110, 120},
		}, 6},
		"what is called later explains nothing": {[]event{
			{busy, "", 0, 10}, {"take done", "a", 11, 12}, {busy, "", 13, 14}, {"release done", "a", 15, 16},
		}, 0},
		"the moment of the cut belongs to both": {[]event{
			{free, "", 0, 10}, {free, "", 11, 12}, {busy, "", 13, 30}, {"take done", "a", 30, 60}, {free, "", 80, 81},
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			history := []porcupine.Operation{happened(deed{Lock: "returns", Kind: opTake, Tag: "z", Out: "done"}, 0, 10)}
			for i, e := range c.history {
				kind, out, _ := strings.Cut(e.what, " ")
				history = append(history, happened(deed{Client: i, Lock: "orders", Kind: kind, Tag: e.tag, Out: out}, e.from, e.to))
			}
			says := explain(reentrantMutex, history)
			if c.wrong < 0 {
				require.Empty(t, says)
				return
			}
			assert.Equal(t, 1, strings.Count(says, "cannot be explained"), says)
			assert.NotContains(t, says, "returns")
			_, marked, found := strings.Cut(says, "\n> ")
			require.True(t, found, says)
			marked, _, _ = strings.Cut(marked, "\n")
			assert.Contains(t, marked, fmt.Sprintf("client %d: ", c.wrong), says)
		})
	}
}
