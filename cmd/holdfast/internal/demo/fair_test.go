package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// registered is a register that saw these queues, one after the other, of waiters that are
// single letters, and then these grants.
func registered(queues, grants string) *register {
	r := newRegister()
	for queue := range strings.SplitSeq(queues, " ") {
		r.see(strings.Split(queue, ""), time.Now())
	}
	for i, id := range strings.Split(grants, "") {
		r.grant(i, id, 1)
	}
	return r
}

func TestRegister(t *testing.T) {
	for name, tt := range map[string]struct {
		queues, grants     string
		judged, outOfOrder int
	}{
		"in order":                  {"ab abc c cd", "abcd", 4, 0},
		"one was never seen":        {"ab", "xab", 2, 0},
		"one overtakes two":         {"abc", "cab", 3, 1},
		"two swap":                  {"abc", "acb", 3, 1},
		"pushed in":                 {"ab cab", "cab", 3, 1},
		"one gives up":              {"abc ac", "ac", 2, 0},
		"taken for dead, last then": {"abc bc bca", "bca", 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := registered(tt.queues, tt.grants)
			n, outOfOrder := r.judged()
			require.Equal(t, [2]int{tt.judged, tt.outOfOrder}, [2]int{n, outOfOrder})
			if err := r.audit(); tt.outOfOrder > 0 {
				require.ErrorContains(t, err, "out of order")
			} else {
				require.NoError(t, err)
			}
		})
	}
	require.ErrorContains(t, registered("a", "axyz").audit(), "only 1 of 4 grants could be judged")
}

func TestGrantsHeardLate(t *testing.T) {
	r := registered("abc", "")
	r.grants = nil
	r.grant(0, "a", 1)
	r.grant(2, "c", 1)
	r.grant(1, "b", 2)
	_, outOfOrder := r.judged()
	require.Zero(t, outOfOrder)
	require.Equal(t, 2, r.crossings())
}

func TestLeftFrom(t *testing.T) {
	for now, want := range map[string]int{
		"abcd": 0, "abcde": 0, // nobody has left
		"bcd": 1, "acd": 2, "abc": 4, "abd": 3, "acde": 2,
		"ab": 0, "adc": 0, "eacd": 0, // more has changed than one place
	} {
		require.Equal(t, want, leftFrom(strings.Split("abcd", ""), strings.Split(now, "")), now)
	}
}

// A dead waiter costs the time in which nobody had the lock though it was its turn.
func TestCostOfDeadWaiter(t *testing.T) {
	f := newFairStory(&stage{})
	f.sessions = map[string]int{"one": 1, "two": 2}
	f.dead = &deadWaiter{worker: 2}
	began := time.Now()
	look := func(ms int, queue ...string) {
		require.NoError(t, f.take(event{What: queued, at: began.Add(time.Duration(ms) * time.Millisecond), queue: queue}))
	}
	require.NoError(t, f.take(event{What: holds, worker: 1, Text: "one:1"}))
	look(0, "two:1", "one:2")
	look(10, "two:1", "one:2") // held
	require.NoError(t, f.take(event{What: waiting, worker: 1}))
	look(20, "two:1", "one:2", "one:3")
	look(50, "one:2", "one:3")
	look(90, "one:3")
	require.Equal(t, 40*time.Millisecond, f.dead.cost)
	require.Zero(t, f.placesOf(2))
	require.EqualError(t, f.take(event{What: queued, Text: "no server"}), "no server")
}
