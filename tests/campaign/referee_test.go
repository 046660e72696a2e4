package campaign

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A finding is an invariant that did not hold.
type finding struct {
	Invariant int
	Text      string
}

// An invariant is something that must be so in every round, whatever befalls.
type invariant struct {
	guarantee string // of docs/guarantees.md
	what      string
	check     func(a *account) []string
}

// invariants are numbered from 1.
var invariants = []invariant{
	{"G1", "no two believe that they have what only one can have", exclusion},
	{"G1", "no writer believes that it has what a reader has", halves},
	{"G1", "no more permits are had than there are", permits},
	{"G3", "no more permits without a lease are had than there are", counted},
	{"G1", "whoever lost something that a server forgot is told within the lease, after a failover sooner", told},
	{"G8", "each token is higher than those before", tokens},
	{"G3", "a latch does not open before it was counted down", early},
	{"G5", "a latch that was counted down opens for all who wait", late},
	{"G4", "a fair lock is granted in the order of asking", order},
	{"G5", "nobody waits for what has long been free", idle},
	{"G6", "no key stays behind that has no time to live", keys},
	{"G6", "no goroutine and no memory stays behind", leftovers},
	{"G2", "every call says what became of it", errorsExplained},
	{"G2", "nobody is refused what nobody has or wants", refusals},
}

// judge checks all invariants.
func judge(a *account) (all []finding) {
	a.read()
	for i, inv := range invariants {
		for _, text := range inv.check(a) {
			all = append(all, finding{i + 1, text})
		}
	}
	return all
}

func (t tenure) String() string {
	return fmt.Sprintf("client %d had %v from %v to %v", t.client, t.object, t.from, t.to)
}

// overlaps calls a function with each pair of tenures of an object that overlap, in the order of their beginnings.
func overlaps(all []tenure, pair func(first, second tenure)) {
	var open []tenure
	for _, t := range all {
		open = slices.DeleteFunc(open, func(o tenure) bool { return o.to < t.from })
		for _, o := range open {
			if o.client != t.client { // one that has both halves is not in its own way
				pair(o, t)
			}
		}
		open = append(open, t)
	}
}

// alone is what only one may have at a time.
func (o object) alone() bool {
	return o.thing().permits == 0 && !o.thing().lasting && o.Kind != "rwlock"
}

// apart checks that two tenures that exclude each other overlap only where a server forgot the first.
func (a *account) apart(only func(object) bool, exclude func(first, second tenure) bool) (texts []string) {
	for o, all := range a.had {
		if !only(o) {
			continue
		}
		overlaps(all, func(first, second tenure) {
			if exclude(first, second) && a.forgotten(first, second) == nil {
				texts = append(texts, fmt.Sprintf("%v; %v", first, second))
			}
		})
	}
	return texts
}

func exclusion(a *account) []string {
	return a.apart(object.alone, func(tenure, tenure) bool { return true })
}

func halves(a *account) []string {
	return a.apart(func(o object) bool { return o.Kind == "rwlock" }, excludes)
}

// excludes reports whether two tenures of a read-write lock exclude each other.
func excludes(first, second tenure) bool { return !first.shares || !second.shares }

// most checks that at no time more permits are had than there are.
func (a *account) most(only func(object) bool, judged func(t tenure) bool) (texts []string) {
	for o, all := range a.had {
		if !only(o) {
			continue
		}
		var open []tenure
		for _, t := range all {
			open = slices.DeleteFunc(open, func(o tenure) bool { return o.to < t.from })
			open = append(open, t)
			n := 0
			for _, o := range open {
				n += o.count
			}
			if n > o.thing().permits && judged(t) &&
				!slices.ContainsFunc(open, func(o tenure) bool { return a.forgotten(o, t) != nil }) {
				texts = append(texts, fmt.Sprintf("%d are had; %v", n, open))
			}
		}
	}
	return texts
}

func permits(a *account) []string {
	return a.most(func(o object) bool { return o.Kind == "permits" }, func(tenure) bool { return true })
}

func counted(a *account) []string {
	first := a.firstLapse()
	return a.most(func(o object) bool { return o.Kind == "semaphore" }, func(t tenure) bool { return t.from < first })
}

// learns is how long after a failover a holder may take to learn what the new master has: half a second, on a busy
// machine more, and for as long as the process may be stopped.
const learns = 8 * time.Second

func told(a *account) (texts []string) {
	a.seconds(func(first, second tenure, l *lapse) {
		if first.to > l.to+min(a.round.Lease, learns) {
			texts = append(texts, fmt.Sprintf("%v; it was forgotten (%s) by %v; %v", first, l.what, l.to, second))
		}
	})
	return texts
}

// seconds calls a function with those who got what somebody else still believed to have, because a server had forgotten
// it in a lapse.
func (a *account) seconds(pair func(first, second tenure, l *lapse)) {
	for o, all := range a.had {
		if o.thing().lasting || o.thing().permits > 0 {
			continue
		}
		overlaps(all, func(first, second tenure) {
			if o.Kind == "rwlock" && !excludes(first, second) || first.java {
				return
			}
			if l := a.forgotten(first, second); l != nil {
				pair(first, second, l)
			}
		})
	}
}

func tokens(a *account) (texts []string) {
	back := a.setBack()
	for o, all := range a.had {
		if !o.thing().fenced {
			continue
		}
		for i, t := range all[min(1, len(all)):] {
			before := all[i]
			// A leader's go up as the server's clock does.
			excused := (o.Kind != "leader" || back < t.from) && a.forgotten(before, t) != nil
			if before.token >= t.token && !excused {
				texts = append(texts, fmt.Sprintf("%v with token %d; %v with token %d", before, before.token, t, t.token))
			}
		}
	}
	return texts
}

func early(a *account) (texts []string) {
	first, down := a.firstLapse(), map[object]int{}
	for _, e := range a.events {
		switch {
		case e.What == counts:
			down[e.Object] += e.Count
		case e.What == opened && e.Text == done && e.At < first:
			if n := down[e.Object]; n < latchCount {
				texts = append(texts, fmt.Sprintf("%q opened for client %d at %v, after %d", e.Object.Name, e.Client, e.At, n))
			}
		}
	}
	return texts
}

// latest is for how long a waiter may be asleep after what it waits for: its timer, and a busy machine.
const latest = 8 * time.Second

func late(a *account) (texts []string) {
	done := map[object]time.Duration{} // when a latch has certainly been open
	waiting := map[key]event{}
	for _, e := range a.events {
		k := key{e.Client, e.Grant}
		switch e.What {
		case isDown:
			done[e.Object] = e.At
		case waits:
			waiting[k] = e
		case opened:
			if at := done[e.Object]; at > a.calmed && e.At > at+latest {
				texts = append(texts, fmt.Sprintf("%q was open at %v, and for client %d at %v", e.Object.Name, at, e.Client, e.At))
			}
			delete(waiting, k)
		}
	}
	for k, e := range waiting {
		if at := done[e.Object]; at > a.calmed && a.killed[k.client] == 0 && a.ended > at+latest {
			texts = append(texts, fmt.Sprintf("%q was open at %v, and client %d still waits", e.Object.Name, at, e.Client))
		}
	}
	return texts
}

// certainlyBefore is so long that the call that began first was executed first, on a busy machine, too.
const certainlyBefore = 2 * time.Second

func order(a *account) (texts []string) {
	by := map[object][]wait{}
	for _, w := range a.waits {
		if w.object.thing().queued && w.from > a.calmed+a.round.Lease {
			by[w.object] = append(by[w.object], w)
		}
	}
	for _, all := range by {
		for _, first := range all {
			for _, second := range all {
				if second.got && first.from+certainlyBefore < second.from && first.to > second.to+certainlyBefore {
					texts = append(texts, fmt.Sprintf("client %d asked for %q at %v; client %d, who asked at %v, got it first, at %v",
						first.client, first.object.Name, first.from, second.client, second.from, second.to))
				}
			}
		}
	}
	return texts
}

// idle looks at those who wait when nothing is in the way any more of what they wait for.
func idle(a *account) (texts []string) {
	from := a.calmed + a.round.settled()
	first := a.firstLapse()
	for _, w := range a.waits {
		if w.object.Kind == "semaphore" || w.object.Kind == "permits" && first < w.to || w.to-from < latest {
			continue // it may have run dry: killed processes keep permits, and a server forgets how many there are
		}
		had := slices.Concat(a.had[w.object.whole()[0]], a.perhaps, []tenure{{object: w.object, from: w.to, to: w.to}})
		slices.SortFunc(had, func(x, y tenure) int { return cmp.Compare(x.from, y.from) })
		free := max(from, w.from)
		for _, t := range had {
			if t.from > w.to {
				break
			}
			if t.object.Name != w.object.Name && t.object != w.object.whole()[0] {
				continue
			}
			if t.from-free > latest {
				texts = append(texts, fmt.Sprintf("client %d waited for %v from %v to %v, which was free from %v to %v",
					w.client, w.object, w.from, w.to, free, t.from))
			}
			free = max(free, t.to)
		}
	}
	return texts
}

// refusals looks at those who are told that somebody else has it, when what the storm has left is over.
func refusals(a *account) (texts []string) {
	from := a.calmed + a.round.settled()
	wanted := a.interests()
	for _, e := range a.events {
		if e.What != refused || e.Text != busy || e.Asked < from || !e.Object.alone() && e.Object.Kind != "rwlock" ||
			e.Object.Kind == "redlock" { // some of its servers may be too late
			continue
		}
		if !slices.ContainsFunc(e.Object.whole(), func(part object) bool {
			return slices.ContainsFunc(wanted[part], func(i interest) bool {
				return i.by != key{e.Client, e.Grant} && i.from <= e.At && i.to >= e.Asked
			})
		}) {
			texts = append(texts, fmt.Sprintf("client %d was told at %v that %v is busy", e.Client, e.At, e.Object))
		}
	}
	return texts
}

func keys(a *account) []string { return a.behind }

func leftovers(a *account) (texts []string) {
	silent := slices.Clone(a.living)
	for _, e := range a.events {
		if e.What != left {
			continue
		}
		silent = slices.DeleteFunc(silent, func(first int) bool { return first == e.Client })
		if e.Text != "" {
			texts = append(texts, fmt.Sprintf("the process of client %d has goroutines left:\n%s", e.Client, e.Text))
		}
		if e.Count > mostMiB {
			texts = append(texts, fmt.Sprintf("the process of client %d has %d MiB left", e.Client, e.Count))
		}
	}
	for _, first := range silent {
		texts = append(texts, fmt.Sprintf("the process of client %d has not told what it has left", first))
	}
	return texts
}

// mostMiB is what a process has left on its heap when it has given back all.
const mostMiB = 32

func errorsExplained(a *account) (texts []string) {
	seen := map[string]bool{}
	for _, e := range a.events {
		late := e.What == excused && e.At > a.calmed+a.round.settled() && !e.Object.thing().forced
		if (e.What == strange || late) && !seen[e.Text] {
			seen[e.Text] = true
			texts = append(texts, fmt.Sprintf("client %d, %v at %v: %s", e.Client, e.Object, e.At, e.Text))
		}
	}
	return texts
}
