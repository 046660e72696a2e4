package interop_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stay is a time in which one worker was sure to have something: less than it really had it. Its worker's clock is
// that of the whole machine.
type stay struct {
	Who   string // the process and the worker
	Kind  string
	Names []string // of what it had: of a multilock several
	N     int      // how much of each
	Token int64    // of a fenced lock
	Asked time.Duration
	From  time.Duration
	To    time.Duration
	Lost  bool // it had ended before it was given back
}

func (s stay) String() string {
	return fmt.Sprintf("%s of %s had %d of %v from %v to %v, token %d, asked at %v", s.Kind, s.Who, s.N, s.Names, s.From,
		s.To, s.Token, s.Asked)
}

// A meeting is how one worker was at a latch.
type meeting struct {
	Who     string
	Round   int
	Counted time.Duration // just before it counted down
	Passed  time.Duration // just after it was let through
}

// wholeRW is how much there is of a read-write lock: a writer takes all of it, a reader one.
const wholeRW = 1 << 20

// stressSizes are how much there is to have, of what is not for one at a time.
var stressSizes = map[string]int{"rw": wholeRW, "semaphore": 2, "expirable": 2}

// perName sorts stays by what they had.
func perName(stays []stay) map[string][]stay {
	had := map[string][]stay{}
	for _, s := range stays {
		for _, name := range s.Names {
			had[name] = append(had[name], s)
		}
	}
	return had
}

// overfull says where more was had than there is.
func overfull(stays []stay) (wrong []string) {
	for name, had := range perName(stays) {
		size := max(1, stressSizes[name])
		slices.SortFunc(had, func(a, b stay) int { return int(a.From - b.From) })
		var inside []stay
		for _, s := range had {
			inside = slices.DeleteFunc(inside, func(before stay) bool { return before.To <= s.From })
			inside = append(inside, s)
			total := 0
			for _, i := range inside {
				total += i.N
			}
			if total > size {
				wrong = append(wrong, fmt.Sprintf("of %d of %s there are taken at once: %v", size, name, inside))
			}
		}
	}
	return wrong
}

// unordered says where a fencing token was not higher than the one before it.
func unordered(stays []stay) (wrong []string) {
	for _, had := range perName(stays) {
		had = slices.DeleteFunc(had, func(s stay) bool { return s.Kind != "fenced" })
		slices.SortFunc(had, func(a, b stay) int { return int(a.From - b.From) })
		for i := 1; i < len(had); i++ {
			if had[i-1].Token >= had[i].Token {
				wrong = append(wrong, fmt.Sprintf("the token does not grow: %v, then %v", had[i-1], had[i]))
			}
		}
	}
	return wrong
}

// overtaken says who of a kind got in before somebody who still waited, and had asked earlier by more than the margin,
// so that it was in the queue for sure. Compared is how many pairs there were of whom that could have been said.
func overtaken(stays []stay, kind string, margin time.Duration) (wrong []string, compared int) {
	queue := slices.DeleteFunc(slices.Clone(stays), func(s stay) bool { return s.Kind != kind })
	slices.SortFunc(queue, func(a, b stay) int { return int(a.Asked - b.Asked) })
	for i, first := range queue {
		for _, second := range queue[i+1:] {
			if second.Asked >= first.From {
				break // so have all others
			}
			if second.Asked-first.Asked <= margin {
				continue
			}
			compared++
			if second.From < first.From {
				wrong = append(wrong, fmt.Sprintf("%v came before %v", second, first))
			}
		}
	}
	return wrong, compared
}

// unmet says at which latches somebody was let through before all had counted down, or was not.
func unmet(meetings []meeting, rounds, goers int) (wrong []string) {
	met := map[int][]meeting{}
	for _, m := range meetings {
		met[m.Round] = append(met[m.Round], m)
	}
	for round := 1; round <= rounds; round++ {
		at := met[round]
		if len(at) != goers {
			wrong = append(wrong, fmt.Sprintf("of %d at latch %d there came through: %v", goers, round, at))
			continue
		}
		first := slices.MinFunc(at, func(a, b meeting) int { return int(a.Passed - b.Passed) })
		last := slices.MaxFunc(at, func(a, b meeting) int { return int(a.Counted - b.Counted) })
		if first.Passed < last.Counted {
			wrong = append(wrong, fmt.Sprintf("at latch %d %v did not wait for %v", round, first, last))
		}
	}
	return wrong
}

// upTo is what was surely had by a process that was killed then; 0 says that it was not.
func upTo(killed time.Duration, stays []stay) (sure []stay) {
	for _, s := range stays {
		if killed > 0 && (s.To == 0 || s.To > killed) {
			s.To = killed
		}
		if s.From < s.To {
			sure = append(sure, s)
		}
	}
	return sure
}

// A check that finds nothing proves nothing.
func TestTheStressCheckRefuses(t *testing.T) {
	at := func(kind string, from, to time.Duration, names ...string) stay {
		return stay{Kind: kind, Names: names, N: 1, Asked: from, From: from, To: to}
	}
	some := func(n int, s stay) stay {
		s.N = n
		return s
	}
	token := func(token int64, s stay) stay {
		s.Token = token
		return s
	}
	asked := func(asked time.Duration, s stay) stay {
		s.Asked = asked
		return s
	}
	for _, c := range []struct {
		name  string
		legal bool
		stays []stay
	}{
		{"one after the other", true, []stay{at("rlock", 1, 3, "a"), at("spin", 3, 5, "a")}},
		{"two at once", false, []stay{at("rlock", 1, 4, "a"), at("rlock", 3, 5, "a")}},
		{"two at once, in the other order", false, []stay{at("rlock", 3, 5, "a"), at("rlock", 1, 4, "a")}},
		{"one within the other", false, []stay{at("rlock", 1, 9, "a"), at("rlock", 3, 5, "a")}},
		{"the last of three", false, []stay{at("rlock", 1, 9, "a"), at("rlock", 9, 12, "a"), at("rlock", 10, 11, "a")}},
		{"two locks at once", true, []stay{at("rlock", 1, 4, "a"), at("rlock", 3, 5, "b")}},
		{"a member of a multilock", false, []stay{at("multilock", 1, 4, "a", "b"), at("rlock", 3, 5, "b")}},
		{"two multilocks", false, []stay{at("multilock", 1, 4, "a", "b"), at("multilock", 3, 5, "b", "a")}},
		{"readers at once", true, []stay{at("read", 1, 4, "rw"), at("read", 3, 5, "rw"), at("read", 3, 5, "rw")}},
		{"a reader and a writer", false, []stay{at("read", 1, 4, "rw"), some(wholeRW, at("write", 3, 5, "rw"))}},
		{"a writer and a reader", false, []stay{some(wholeRW, at("write", 1, 4, "rw")), at("read", 3, 5, "rw")}},
		{"two writers", false, []stay{some(wholeRW, at("write", 1, 4, "rw")), some(wholeRW, at("write", 3, 5, "rw"))}},
		{"all permits", true, []stay{at("semaphore", 1, 4, "semaphore"), at("semaphore", 3, 5, "semaphore")}},
		{"a permit too many", false, []stay{some(2, at("semaphore", 1, 4, "semaphore")), at("semaphore", 3, 5, "semaphore")}},
		{"a third permit", false, []stay{
			at("expirable", 1, 9, "expirable"), at("expirable", 2, 9, "expirable"), at("expirable", 8, 10, "expirable"),
		}},
		{"growing tokens", true, []stay{token(2, at("fenced", 5, 6, "x")), token(1, at("fenced", 1, 2, "x"))}},
		{"the same token", false, []stay{token(1, at("fenced", 1, 2, "x")), token(1, at("fenced", 5, 6, "x"))}},
		{"a lower token", false, []stay{token(2, at("fenced", 1, 2, "x")), token(1, at("fenced", 5, 6, "x"))}},
		{"in the order of the queue", true, []stay{asked(1, at("fair", 30, 40, "x")), asked(20, at("fair", 50, 60, "x"))}},
		{
			"who asked at about the same time", true,
			[]stay{asked(11, at("fair", 50, 60, "x")), asked(20, at("fair", 30, 40, "x"))},
		},
		{"who asked much later", false, []stay{asked(1, at("fair", 50, 60, "x")), asked(20, at("fair", 30, 40, "x"))}},
	} {
		wrong := slices.Concat(overfull(c.stays), unordered(c.stays))
		late, _ := overtaken(c.stays, "fair", 10)
		require.Equal(t, c.legal, len(wrong)+len(late) == 0, c.name)
	}
}

// Those who need not be compared are not counted.
func TestTheStressCheckCountsWhatItCompares(t *testing.T) {
	queue := []stay{
		{Kind: "fair", Asked: 1, From: 30, To: 40},
		{Kind: "fair", Asked: 5, From: 40, To: 50},  // at about the same time
		{Kind: "fair", Asked: 20, From: 50, To: 60}, // behind both
		{Kind: "fair", Asked: 45, From: 60, To: 70}, // behind the last one
		{Kind: "rlock", Asked: 45, From: 60, To: 70},
	}
	_, compared := overtaken(queue, "fair", 10)
	require.Equal(t, 3, compared)
}

func TestTheStressCheckRefusesALatchThatDoesNotHold(t *testing.T) {
	for _, c := range []struct {
		name     string
		legal    bool
		meetings []meeting
	}{
		{"all have met", true, []meeting{{"a", 1, 1, 5}, {"b", 1, 4, 6}}},
		{"one did not wait", false, []meeting{{"a", 1, 1, 3}, {"b", 1, 4, 6}}},
		{"one did not come through", false, []meeting{{"a", 1, 1, 5}}},
		{"nobody was there", false, nil},
	} {
		require.Equal(t, c.legal, len(unmet(c.meetings, 1, 2)) == 0, c.name)
	}
}

// Of what the killed had only the time before counts.
func TestTheStressCheckBelievesTheDeadUntilTheyDie(t *testing.T) {
	stays := []stay{
		{Who: "left before", From: 1, To: 2},
		{Who: "left after", From: 2, To: 9},
		{Who: "stayed", From: 3},
		{Who: "came after", From: 5, To: 6},
	}
	require.Equal(t,
		[]stay{{Who: "left before", From: 1, To: 2}, {Who: "left after", From: 2, To: 5}, {Who: "stayed", From: 3, To: 5}},
		upTo(5, stays))
}
