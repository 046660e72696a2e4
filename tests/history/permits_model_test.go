package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/anishathalye/porcupine"
)

// A grant is a permit that somebody has: its id, and the tag of the deed that gave it its present lease.
type grant struct{ id, by string }

// A stray is what an acquisition without a reply may have left: permits whose ids nobody knows.
type stray struct {
	tag         string
	taken, left int // left: how many of its permits have not come back, whether taken or not
}

// A leasing is the state of one semaphore.
type leasing struct {
	grants []grant // in the order of their ids
	strays []stray // in the order of their tags
}

func (s leasing) taken() int {
	n := len(s.grants)
	for _, g := range s.strays {
		n += g.taken
	}
	return n
}

func (s leasing) equal(other leasing) bool {
	return slices.Equal(s.grants, other.grants) && slices.Equal(s.strays, other.strays)
}

func (s leasing) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.grants, id, func(g grant, id string) int { return cmp.Compare(g.id, id) })
}

func (s leasing) has(ids ...string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool {
		_, found := s.find(id)
		return !found
	})
}

// with returns s after a permit has been given a lease.
func (s leasing) with(id, by string) leasing {
	i, found := s.find(id)
	if s.grants = slices.Clone(s.grants); found {
		s.grants[i].by = by
	} else {
		s.grants = slices.Insert(s.grants, i, grant{id, by})
	}
	return s
}

// without returns s after permits have come back.
func (s leasing) without(gone func(grant) bool) leasing {
	s.grants = slices.DeleteFunc(slices.Clone(s.grants), gone)
	return s
}

// strayed returns s after an acquisition without a reply.
func (s leasing) strayed(tag string, taken, n int) leasing {
	s.strays = append(slices.Clone(s.strays), stray{tag, taken, n})
	slices.SortFunc(s.strays, func(a, b stray) int { return cmp.Compare(a.tag, b.tag) })
	return s
}

// returned returns s after the left-th permit of an acquisition without a reply has come back, if it was taken.
func (s leasing) returned(tag, left string) []leasing {
	i := slices.IndexFunc(s.strays, func(g stray) bool { return g.tag == tag })
	if i < 0 || strconv.Itoa(s.strays[i].left) != left {
		return nil
	}
	s.strays = slices.Clone(s.strays)
	if s.strays[i].left--; s.strays[i].left == 0 {
		s.strays = slices.Delete(s.strays, i, i+1)
	} else {
		s.strays[i].taken = max(0, s.strays[i].taken-1)
	}
	return []leasing{s}
}

// leased is the specification of a semaphore whose permits have leases.
func leased(permits int) porcupine.Model {
	return modelOf(leasing{}, func(s leasing, d deed) []leasing { return afterLeased(s, d, permits) }, leasing.equal)
}

// afterLeased returns the states in which a semaphore may be after a deed; none if the deed was impossible.
func afterLeased(s leasing, d deed, permits int) []leasing {
	kind, number, _ := strings.Cut(d.Kind, " ")
	out, granted, _ := strings.Cut(d.Out, " ")
	when := func(possible bool, after leasing) []leasing {
		if possible {
			return []leasing{after}
		}
		return nil
	}
	switch kind {
	case opAcquire:
		number, _, _ = strings.Cut(number, " ")
		n, _ := strconv.Atoi(number)
		fits := s.taken()+n <= permits
		switch out {
		case "done":
			next := s
			for id := range strings.FieldsSeq(granted) {
				next = next.with(id, d.Tag)
			}
			return when(fits, next)
		case "busy":
			return when(!fits, s)
		case "unknown":
			return append(when(fits, s.strayed(d.Tag, n, n)), s.strayed(d.Tag, 0, n))
		}
	case opTrust, opDetach: // and the holder was sure of having it
		return when(s.has(d.Tag), s)
	case opGive, opRelease:
		gone := strings.Fields(d.Tag)
		all := s.has(gone...)
		without := s.without(func(g grant) bool { return slices.Contains(gone, g.id) })
		switch d.Out {
		case "done":
			return when(all, without)
		case "done again":
			return []leasing{without}
		case "not held":
			return when(!all, s)
		case "unknown":
			return append(when(all, without), s)
		}
	case opUpdate:
		_, by, _ := strings.Cut(number, " by ")
		has := s.has(d.Tag)
		switch d.Out {
		case "done":
			return when(has, s.with(d.Tag, by))
		case "not held":
			return when(!has, s)
		case "unknown":
			if has {
				return []leasing{s, s.with(d.Tag, by)}
			}
			return []leasing{s}
		}
	case opLapse:
		switch what, rest, _ := strings.Cut(d.Tag, " "); what {
		case "lease":
			return []leasing{s.without(func(g grant) bool { return g.by == rest })}
		case "permit":
			return []leasing{s.without(func(g grant) bool { return g.id == rest })}
		case "stray":
			return s.returned(rest, number)
		}
	case opFree:
		return when(d.Out == strconv.Itoa(permits-s.taken()), s)
	case opTaken:
		return when(d.Out == strconv.Itoa(s.taken()), s)
	}
	return nil
}

// story makes a record from what clients of two processes report, in ms: "client from-to operation: outcome".
func story(killed []time.Duration, lines ...string) record {
	var books []*historybook
	for range 2 {
		books = append(books, &historybook{deeds: map[string]deed{}})
	}
	for i, line := range lines {
		said, out, _ := strings.Cut(line, ": ")
		words := strings.Fields(said)
		client, _ := strconv.Atoi(words[0])
		from, to, _ := strings.Cut(words[1], "-")
		at := func(ms string) time.Duration {
			n, _ := strconv.Atoi(ms)
			return time.Minute + time.Duration(n)*time.Millisecond
		}
		d := deed{Client: client, Serial: i, Lock: "x", Call: at(from), Return: at(to), Out: out, Kind: words[2]}
		switch d.Kind {
		case opAcquire:
			d.Kind, d.Tag = strings.Join(words[2:], " "), fmt.Sprint(client, ".", i)
		case opUpdate:
			d.Kind, d.Tag = strings.Join(words[2:4], " "), words[4]
		default:
			ids, until, _ := strings.Cut(strings.Join(words[3:], " "), " until ")
			if d.Tag = ids; until != "" {
				d.Until = at(until)
			}
		}
		books[client/clientsEach].deeds[strconv.Itoa(i)] = d
	}
	return newRecord(books, killed)
}

// A checker that never finds anything would prove nothing.
func TestTheModelOfLeasesRefuses(t *testing.T) {
	t.Parallel()
	const took, tookShort = "0 0-1 acquire 2 0s: done a b", "0 0-1 acquire 2 200ms: done a b"
	type lines []string
	for _, c := range []struct {
		name  string
		lines lines
		legal bool
	}{
		{"two of two", lines{took, "2 2-3 acquire 1 0s: busy", "2 4-5 free: 0", "2 6-7 taken: 2"}, true},
		{"three of two", lines{took, "2 2-3 acquire 1 0s: done c"}, false},
		{"nobody in the way", lines{"2 2-3 acquire 2 0s: busy"}, false},
		{"one in the way of two", lines{"0 0-1 acquire 1 0s: done a", "2 2-3 acquire 2 0s: busy"}, true},
		{"one after another", lines{took, "0 2-3 release b: done", "2 4-5 acquire 1 0s: done c", "2 6-7 free: 0"}, true},
		{"a wrong count", lines{took, "0 2-3 release b: done", "2 4-5 free: 0"}, false},
		{"another wrong count", lines{took, "0 2-3 release b: done", "2 4-5 taken: 2"}, false},

		{"given back by another", lines{took, "2 2-3 give a b: done", "2 4-5 free: 2", "0 6-7 release a: lost"}, true},
		{"given back twice", lines{took, "2 2-3 give a: done", "3 4-5 give a: done"}, false},
		{"given back and found there", lines{took, "2 2-3 give a: done", "0 4-5 release a: done"}, false},
		{"given back and found there in the end", lines{took, "2 2-3 give a: done", "0 4-15 release a: done"}, true},
		{"given back and not found", lines{took, "2 2-3 give a: done", "3 4-5 give a b: not held", "3 6-7 free: 1"}, true},
		{"half of it given back", lines{took, "2 2-3 give a: done", "3 4-5 give a b: done"}, false},
		{"there but not found", lines{took, "2 2-3 give a: not held", "0 4-5 release a: done"}, false},
		{"given back perhaps", lines{took, "2 2-3 give a: unknown", "2 4-5 free: 1"}, true},
		{"not given back perhaps", lines{took, "2 2-3 give a: unknown", "2 4-5 free: 0"}, true},

		{"before the lease ends", lines{tookShort, "2 190-191 acquire 1 0s: done c"}, false},
		{"after the lease has ended", lines{tookShort, "2 210-211 acquire 2 0s: done c d"}, true},
		{"only one comes back", lines{tookShort, "2 210-211 free: 1"}, false},
		{"in the way after the lease has ended", lines{tookShort, "2 210-211 acquire 1 0s: busy"}, false},
		{"given back after the lease has ended", lines{tookShort, "2 210-211 give a: done"}, false},
		{"prolonged after the lease has ended", lines{tookShort, "2 210-211 update 1s a: done"}, false},
		{"not found before the lease ends", lines{tookShort, "2 190-191 give a: not held"}, false},
		{"not found after the lease has ended", lines{tookShort, "2 210-211 give a: not held"}, true},

		{"prolonged", lines{tookShort, "2 100-101 update 300ms a: done", "2 390-391 free: 1", "2 410-411 free: 2"}, true},
		{"prolonged in vain", lines{tookShort, "2 100-101 update 300ms a: done", "2 210-211 free: 2"}, false},
		{"prolonged for too long", lines{tookShort, "2 100-101 update 300ms a: done", "2 410-411 free: 1"}, false},
		{"shortened", lines{tookShort, "2 100-101 update 20ms a: done", "2 130-131 free: 1", "2 210-211 free: 2"}, true},
		{"shortened in vain", lines{tookShort, "2 100-101 update 20ms a: done", "2 130-131 free: 0"}, false},
		{"shortened, and its holder does not know", lines{
			took, "2 100-101 update 20ms a: done", "0 110-111 trust a until 980: done", "2 140-141 free: 1",
			"0 500-501 release a: lost",
		}, true},
		{"gone before it was shortened", lines{
			took, "0 20-21 trust a until 980: done", "2 60-61 free: 1", "2 100-101 update 20ms a: done",
			"0 500-501 release a: lost",
		}, false},
		{"prolonged perhaps", lines{tookShort, "2 100-101 update 300ms a: unknown", "2 210-211 free: 2"}, true},
		{"perhaps prolonged", lines{tookShort, "2 100-101 update 300ms a: unknown", "2 210-211 free: 1"}, true},

		{"a renewed one that has gone", lines{took, "2 3000-3001 free: 1", "0 4000-4001 release a: done"}, false},
		{"a renewed one that is there", lines{took, "2 3000-3001 free: 0", "0 4000-4001 release a: done"}, true},
		{"believed while it is there", lines{tookShort, "0 190-191 trust a: done"}, true},
		{"believed when it has gone", lines{tookShort, "0 210-211 trust a: done"}, false},
		{"left when it has gone", lines{tookShort, "0 210-211 detach a: done"}, false},
		{"taken away and believed in", lines{took, "2 2-3 give a: done", "0 4-5 trust a: done"}, true},
		{"left to its lease", lines{took, "0 500-501 detach a: done", "2 800-801 free: 0", "2 1900-1901 free: 1"}, true},
		{"left, and gone at once", lines{took, "0 500-501 detach a: done", "2 510-511 free: 1"}, false},
		{"left, and there for good", lines{took, "0 500-501 detach a: done", "2 1900-1901 free: 0"}, false},

		{"taken twice, as the first reply came too late", lines{
			"0 0-300 acquire 1 100ms: done a", "2 90-91 free: 1", "2 110-111 free: 2", "2 301-302 free: 1",
		}, true},
		{"taken twice in too short a time", lines{
			"0 0-90 acquire 1 100ms: done a", "2 20-21 free: 1", "2 30-31 free: 2",
		}, false},
		{"taken twice, but back too early", lines{
			"0 0-300 acquire 1 100ms: done a", "2 20-21 free: 1", "2 30-31 free: 2",
		}, false},
		{"taken perhaps", lines{"0 0-300 acquire 2 0s: unknown", "2 301-302 acquire 2 0s: busy"}, true},
		{"not taken perhaps", lines{"0 0-300 acquire 2 0s: unknown", "2 301-302 acquire 2 0s: done c d"}, true},
		{"taken by nobody for good", lines{"0 0-300 acquire 2 0s: unknown", "2 3000-3001 acquire 1 0s: busy"}, false},
		{"too many taken perhaps", lines{took, "2 2-3 acquire 1 0s: unknown", "2 4-5 free: -1"}, false},
		{"no answer to a release", lines{took, "0 2-3 release a: unknown", "2 4-5 free: 0", "2 6-7 free: 1"}, true},
		{"no end of it", lines{took, "0 2-3 release a: unknown", "2 3000-3001 free: 0"}, false},
	} {
		l := permitLedger(story(nil, c.lines...))
		require.Equal(t, c.legal, porcupine.CheckOperations(leased(2), l.history), c.name)
	}

	death := time.Minute + 500*time.Millisecond
	for look, legal := range map[string]bool{
		"2 950-951 free: 0": true, "2 950-951 free: 2": false, "2 1900-1901 free: 2": true, "2 1900-1901 free: 1": false,
	} {
		l := permitLedger(story([]time.Duration{death, 0}, took, look))
		require.Equal(t, legal, porcupine.CheckOperations(leased(2), l.history), "%s after a death", look)
	}

	others := lines{
		"0 9-10 trust a: done", "0 9-10 trust b: done", "2 4-5 acquire 1 0s: done c",
		"2 7-8 release c: done",
	}
	for given, crowded := range map[string]bool{
		"3 2-3 give a: done": false, "3 6-7 give a: unknown": true, "3 6-7 free: 0": true,
		"0 2-3 update 20ms a: done": true, "2 2-3 update 20ms a: done": true, "2 2-3 update 1ms a: done": false,
	} {
		l := permitLedger(story(nil, append(lines{took, given}, others...)...))
		wrong, beliefs := l.crowded(2)
		require.Equal(t, crowded, len(wrong) > 0, given)
		require.Equal(t, 3, beliefs)
		require.Empty(t, l.twice())
	}
	for given, twice := range map[string]bool{
		"2 4-5 give a b: done": true, "2 4-5 give b: done": false, "2 4-5 give a b: not held": false,
		"2 4-5 give a: unknown": false, "0 4-5 release a: done": true, "0 4-15 release a: done": false,
	} {
		l := permitLedger(story(nil, took, "3 2-3 give a: done", given))
		require.Equal(t, twice, len(l.twice()) > 0, given)
	}
}
