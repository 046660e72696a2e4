// Package deadlock finds owners that wait for each other, in their sessions' reports of long waits. It sends nothing,
// and has no clock.
//
// Reports from different times may show cycles that never existed. So a cycle counts when all sessions in it have kept
// reporting it: see [Finder.Look].
package deadlock

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Wait is a call that has waited for long while its owner holds something.
type Wait struct {
	ID    uint64   `json:"id"`              // never used again by its session
	Kind  string   `json:"kind"`            // of the lock it waits for, as errors call it
	Name  string   `json:"name"`            // the key on the server
	Since int64    `json:"since"`           // ms since 1970, by the clock of its process
	For   []string `json:"for,omitempty"`   // the wire owners that have it
	Holds []string `json:"holds,omitempty"` // the wire owners of the waiting owner
}

// A Telling is the last report of a session.
type Telling struct {
	Session string
	Count   uint64 // how often it has told by then
	Waits   []Wait
}

// A Link is a wait in a cycle: the owner of the next link has what it waits for.
type Link struct {
	Session string
	Wait
	At string // the wire owner of the next one
}

// A Cycle is a list of waits. Each lasts until the next one is over, and the last one until the first one is.
type Cycle []Link

// Youngest returns the link that began to wait last. Everybody who knows the cycle finds the same one.
func (c Cycle) Youngest() Link {
	return slices.MaxFunc(c, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Session, b.Session), cmp.Compare(a.ID, b.ID))
	})
}

// String describes the cycle, without the processes.
func (c Cycle) String() string {
	var b strings.Builder
	for i, l := range c {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s waits for %s %.256q, which %s has", l.owner(), l.Kind, l.Name, l.At)
	}
	return b.String()
}

// owner is one of the wire owners of the waiter.
func (l Link) owner() string {
	if len(l.Holds) == 0 {
		return l.Session
	}
	return l.Holds[0]
}

// Since is when the last of its waits began: from then on it was a cycle. It is in ms since 1970.
func (c Cycle) Since() int64 { return c.Youngest().Since }

// key says which cycle it is. It begins anywhere.
func (c Cycle) key() string {
	links := make([]string, len(c))
	for i, l := range c {
		links[i] = l.Session + " " + strconv.FormatUint(l.ID, 10) + " " + l.At
	}
	slices.Sort(links)
	return strings.Join(links, "\n")
}

// enough is how many reports of each session in a cycle are needed after those of the second look that sees the cycle.
// Before each report, a session asks who has what its call waits for. It may have asked for the next report while the
// first look went on; for the one after that it asked later.
const enough = 2

// A Finder finds cycles in several looks. The zero value is ready.
type Finder struct {
	seen map[string]map[string]uint64 // by cycle: what each session had told at the second look; empty after the first
}

// Look takes what all sessions have told last, and returns the cycles that are there for certain, as long as each owner
// does one thing at a time.
//
// Each link was seen at several looks. In all of them the wait is the same one, and the wire owner it waits for, which
// is never used again, belongs to the next link. The first look was over when the second one began, and each session
// has reported the wait after that. So when the first look was over, all of them waited for each other.
func (f *Finder) Look(told []Telling) (certain []Cycle) {
	counts := map[string]uint64{}
	for _, t := range told {
		counts[t.Session] = t.Count
	}
	seen := map[string]map[string]uint64{}
	for _, c := range cycles(told) {
		key := c.key()
		if seen[key] != nil {
			continue
		}
		second, before := f.seen[key]
		if seen[key] = second; !before {
			seen[key] = map[string]uint64{}
			continue
		}
		if len(second) == 0 {
			for _, l := range c {
				second[l.Session] = counts[l.Session]
			}
		}
		if !slices.ContainsFunc(c, func(l Link) bool { return counts[l.Session] < second[l.Session]+enough }) {
			certain = append(certain, c)
		}
	}
	f.seen = seen
	return certain
}

// Suspects is how many cycles there were at the last look, be they certain or not.
func (f *Finder) Suspects() int { return len(f.seen) }

// cycles returns a shortest cycle through each wait that is in one.
func cycles(told []Telling) (all []Cycle) {
	var waits []Link
	having := map[string][]int{} // the waits of whoever has a wire owner
	for _, t := range told {
		for _, w := range t.Waits {
			for _, owner := range w.Holds {
				having[owner] = append(having[owner], len(waits))
			}
			waits = append(waits, Link{Session: t.Session, Wait: w})
		}
	}
	for start := range waits {
		if c := through(waits, having, start); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// through returns a shortest cycle through a wait, nil if there is none.
func through(waits []Link, having map[string][]int, start int) Cycle {
	type step struct {
		from int
		at   string
	}
	came := map[int]step{} // how each wait was reached first
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, owner := range waits[at].For {
			for _, next := range having[owner] {
				if _, ok := came[next]; ok {
					continue
				}
				came[next] = step{at, owner}
				if next != start {
					queue = append(queue, next)
					continue
				}
				var c Cycle
				for at, first := start, true; first || at != start; first = false {
					s := came[at]
					link := waits[s.from]
					link.At = s.at
					c, at = append(c, link), s.from
				}
				slices.Reverse(c)
				return c
			}
		}
	}
	return nil
}
