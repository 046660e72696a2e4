package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// A tenancy is the state of one lock: which grant has it, and how often.
type tenancy struct {
	tag   string // "" when the lock is free
	count int
}

// ghost is a tenancy that nobody believes in, left by a call with an unknown outcome, by a lost hold or by a killed
// process. It may end at any time.
var ghost = tenancy{"?", 0}

func (s tenancy) free() bool { return s == tenancy{} }

// released returns the tenancy after the release of one hold; last is the state that the release of the last one
// leaves.
func (s tenancy) released(last tenancy) tenancy {
	if s.count > 1 {
		return tenancy{s.tag, s.count - 1}
	}
	return last
}

// reentrantMutex is the specification of the lock. Where an outcome is unknown, the model tries all that may have
// happened.
var reentrantMutex = modelOf(tenancy{}, func(s tenancy, d deed) []tenancy {
	if d.Java {
		return afterJavas(s, d)
	}
	return afterDeed(s, d)
}, nil)

// afterDeed returns the states in which a lock may be after a deed; none if the deed was impossible.
func afterDeed(s tenancy, d deed) []tenancy {
	mine := s.tag == d.Tag
	switch d.Kind + " " + d.Out {
	case "take done":
		return only(s.free() || s == ghost, tenancy{d.Tag, 1})
	case "take busy":
		return only(!s.free() || d.Strays, s)
	case "re-enter done":
		return only(mine, tenancy{d.Tag, s.count + 1})
	case "release done":
		return only(mine, s.released(tenancy{}))
	case "release unknown", "orphan ":
		if mine && d.Kind == opRelease {
			return []tenancy{s.released(ghost)}
		}
		if mine {
			return []tenancy{ghost}
		}
		return []tenancy{s}
	case "re-enter lost":
		return []tenancy{s}
	case "release lost":
		if mine {
			// One hold can be lost without the others, because a re-entry has a later deadline. The release of the
			// last one takes the lost ones with it. If that one is lost, too, the grant is orphaned when its last
			// deadline has passed, and not before.
			return []tenancy{s.released(s)}
		}
		return []tenancy{s}
	case "locked true":
		return only(!s.free() || d.Strays, s)
	case "locked false":
		return only(s.free() || s == ghost, tenancy{})
	}
	if d.Kind == opCount {
		return only(mine && fmt.Sprint(s.count) == d.Out, s)
	}
	return nil
}

func only(possible bool, s tenancy) []tenancy {
	if possible {
		return []tenancy{s}
	}
	return nil
}

// A grantHalf is the half of a grant that can be lost by itself.
type grantHalf struct{ tag, half string }

// inert are the deeds that have changed nothing and say nothing of the lock: most were not even sent in time. What a
// re-entry of unknown outcome may have left is taken back without being seen, but for a read within a write.
var inert = []string{
	"take deadline", "take promised", "take refused", "re-enter refused", "re-enter busy", "re-enter promised",
	"re-enter unknown",
}

// isInert reports whether a deed changes no state in which its lock can be.
func (d deed) isInert(writers map[string]bool) bool {
	switch what := d.Kind + " " + d.Out; {
	case d.Java && d.Out == "busy":
		return false
	case what == "re-enter unknown" && d.Half == halfRead:
		return !writers[d.Tag]
	default:
		return slices.Contains(inert, what)
	}
}

// givenBack is how long it takes at most until the place of a call that has given up is given back.
const givenBack = kit.WorkerLease / 2

// strays returns when takes may have had which lock of which nobody knows the outcome, or which gave up.
func (r record) strays() map[string][]interval {
	all := map[string][]interval{}
	for _, d := range r.deeds {
		switch {
		case d.Out == "unknown" && (d.Kind == opTake || d.Java && d.Kind == opReenter):
			// The server may execute it, or have given it a place in a line, until it is taken back.
			all[d.Lock] = append(all[d.Lock], interval{from: d.Call, to: d.Return + historySettled})
		case d.Kind == opTake && (d.Out == "promised" || d.Out == "deadline"):
			// It gives its place back in the background, and a release may have granted it the lock just before.
			all[d.Lock] = append(all[d.Lock], interval{from: d.Return - givenBack, to: d.Return + givenBack})
		}
	}
	return all
}

// grants returns the history of locks that have holders. Takes of unknown outcome are not in it: they leave no grant,
// and there may be so many at a time that nobody could try all their orders. Others may have found the lock taken
// because of them.
func (r record) grants() (all []porcupine.Operation) {
	add := func(d deed, from, to time.Duration) {
		all = append(all, porcupine.Operation{ClientId: d.Client, Input: d, Call: int64(from), Return: int64(to)})
	}
	orphans := map[grantHalf]bool{}
	orphan := func(d deed, from, to time.Duration) {
		if at := (grantHalf{d.Tag, d.Half}); !orphans[at] {
			orphans[at] = true
			add(deed{Client: d.Client, Lock: d.Lock, Half: d.Half, Kind: opOrphan, Tag: d.Tag}, from, to)
		}
	}
	had := map[grantHalf]bool{}          // what may have been held
	sure := map[grantHalf]deed{}         // what was certainly held, and when
	before := map[string]time.Duration{} // when the last deed of a grant returned
	given := map[grantHalf]deed{}        // the last release of unknown outcome
	strays, writers := r.strays(), map[string]bool{}
	for _, d := range r.deeds {
		if d.Out == "nothing" || d.Out == "unknown" && d.Kind != opReenter && d.Kind != opRelease || d.isInert(writers) {
			continue
		}
		if d.Kind == opTake && d.Half == halfWrite {
			writers[d.Tag] = true
		}
		d.Strays = slices.ContainsFunc(strays[d.Lock], func(s interval) bool { return d.Call <= s.to && s.from <= d.Return })
		if d.Out == "done" || d.Kind == opCount {
			sure[grantHalf{d.Tag, d.Half}] = d
		}
		end := d.Return
		if d.Kind == opReenter && d.Out == "unknown" {
			end += kit.WorkerLease/3 + 10*time.Millisecond // the server may execute it until its not-after
		}
		add(d, d.Call, end)
		if d.Kind == opTake && d.Out == "done" || d.Kind == opReenter && (d.Out == "done" || d.Out == "unknown") {
			had[grantHalf{d.Tag, d.Half}] = true
		}
		for _, o := range d.mayEnd(had) {
			add(o, max(d.sureUntil(), before[d.Tag]), d.Return)
		}
		before[d.Tag] = d.Return
		switch at := (grantHalf{d.Tag, d.Half}); {
		case d.Kind != opRelease || d.Java:
		case d.Out == "lost": // trust in what is left was over; what was given back before counts until then
			from := max(d.Until, given[at].Call)
			orphan(d, from, from+historySettled)
		case d.Out == "unknown":
			given[at] = d
		}
	}
	for _, d := range given {
		if d.Until < d.Return { // trust was over, or the machine stood still, before the release was executed
			orphan(d, d.Until, d.Until+historySettled)
		}
	}
	last := lastOf(slices.Values(r.deeds))
	for _, d := range sure {
		if killed := r.killedAt(d.Client); killed > 0 && d.Tag == last[d.Client].Tag {
			orphan(d, d.Call, killed+historySettled)
		}
	}
	return endedByOthers(all)
}

// endedByOthers says of each orphan that it was one by the time at which somebody else was known to have the lock to
// himself, if he asked after the last deed of its grant. A leftover that may end at any time of three leases overlaps
// with so many deeds of others that a checker can be at a loss for the order.
func endedByOthers(history []porcupine.Operation) []porcupine.Operation {
	type sole struct{ call, end int64 }
	last, soles := map[string]int64{}, map[string][]sole{} // by grant; by lock
	for _, o := range history {
		switch d := o.Input.(deed); {
		case d.Kind == opOrphan:
			continue
		case d.Kind == opTake && d.Out == "done" && d.Half != halfRead:
			soles[d.Lock] = append(soles[d.Lock], sole{o.Call, o.Return})
			fallthrough
		default:
			last[d.Tag] = max(last[d.Tag], o.Return)
		}
	}
	for i, o := range history {
		d := o.Input.(deed)
		if d.Kind != opOrphan {
			continue
		}
		for _, s := range soles[d.Lock] {
			if s.call > last[d.Tag] {
				history[i].Return = min(history[i].Return, max(o.Call, s.end))
			}
		}
	}
	return history
}
