package campaign

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A tenure is a time for which a client certainly believed that it had something: from when the call returned until it
// last asked.
type tenure struct {
	client   int
	object   object
	shares   bool
	count    int
	token    int64
	asked    time.Duration // when its call began
	from, to time.Duration
	java     bool // nobody asked: for as long as its lease was certain
}

// A wait is a call that waited, until it returned; to is 0 if it never did.
type wait struct {
	client   int
	object   object
	from, to time.Duration
	got      bool
}

// An account is what happened in a round, made of what everybody told.
type account struct {
	round   round
	events  []event
	tenures []tenure            // in the order of their beginnings
	had     map[object][]tenure // the same, by what they are of
	waits   []wait
	lapses  []lapse
	perhaps []tenure              // times in which a thread in Java may have had something, by what it did
	killed  map[int]time.Duration // when a client's process was killed
	calmed  time.Duration         // from here on nothing befell anybody
	ended   time.Duration         // clients were asked to end
	living  []int                 // the first clients of the processes that ended by themselves
	behind  []string              // keys that were left behind and have no time to live
}

// A lapse is a time in which the servers may have forgotten something that they had granted, by a stroke or by force.
type lapse struct {
	name     string // of an object; "": any
	what     string
	acked    bool // what replicas have acknowledged is not forgotten
	leased   bool // only what has a lease is forgotten
	from, to time.Duration
}

// since makes all moments those since the beginning of the round.
func (a *account) since(dawn time.Duration) {
	for i := range a.events {
		a.events[i].At -= dawn
		a.events[i].Asked -= dawn
	}
	for i := range a.tenures {
		a.tenures[i].asked -= dawn
		a.tenures[i].from -= dawn
		a.tenures[i].to -= dawn
	}
	for i := range a.perhaps {
		a.perhaps[i].from -= dawn
		a.perhaps[i].to -= dawn
	}
	for i := range a.lapses {
		a.lapses[i].from -= dawn
		a.lapses[i].to -= dawn
	}
	for client := range a.killed {
		a.killed[client] -= dawn
	}
	a.calmed -= dawn
	a.ended -= dawn
}

// key is which grant an event is about.
type key struct{ client, grant int }

// read makes tenures and waits of events.
func (a *account) read() {
	slices.SortStableFunc(a.events, func(x, y event) int { return cmp.Compare(x.At, y.At) })
	open := map[key]*tenure{}
	asked := map[key]*wait{}
	var tenures []*tenure
	var all []*wait
	for _, e := range a.events {
		k := key{e.Client, e.Grant}
		switch e.What {
		case asks:
			asked[k] = &wait{client: e.Client, object: e.Object, from: e.At}
			all = append(all, asked[k])
		case has:
			open[k] = &tenure{
				client: e.Client, object: e.Object, shares: e.Shares, count: max(1, e.Count), token: e.Token,
				asked: e.Asked, from: e.At, to: e.At,
			}
			tenures = append(tenures, open[k])
		case still:
			open[k].to = e.At
		case released:
			if e.Object.thing().lasting { // it was had until the release began
				open[k].to = e.At
			}
		}
		if w := asked[k]; w != nil && (e.What == has || e.What == refused) {
			w.to, w.got = e.At, e.What == has
			delete(asked, k)
		}
	}
	for _, t := range tenures {
		if t.object.thing().lasting && t.to == t.from { // its process has ended; nobody gives it back
			t.to = a.ended
		}
		for _, part := range t.object.whole() {
			one := *t
			one.object = part
			a.tenures = append(a.tenures, one)
		}
	}
	for _, w := range all {
		if at := a.killed[w.client]; w.to == 0 {
			w.to = cmp.Or(at, a.ended)
		}
		a.waits = append(a.waits, *w)
	}
	slices.SortStableFunc(a.tenures, func(x, y tenure) int { return cmp.Compare(x.from, y.from) })
	a.had = map[object][]tenure{}
	for _, t := range a.tenures {
		a.had[t.object] = append(a.had[t.object], t)
	}
}

// An interest is a time in which a call may have had something, or may have stood in front of it.
type interest struct {
	by       key
	from, to time.Duration
}

// interests are all that there may have been, by what they are of. What did not end well may last for some leases.
func (a *account) interests() map[object][]interest {
	all := map[object][]interest{}
	for _, p := range a.perhaps {
		all[p.object] = append(all[p.object], interest{key{client: javas}, p.from, p.to})
	}
	open := map[key]event{} // the first of each call
	end := func(k key, to time.Duration) {
		for _, part := range open[k].Object.whole() {
			all[part] = append(all[part], interest{k, open[k].Asked, to})
		}
		delete(open, k)
	}
	for _, e := range a.events {
		if !slices.Contains([]string{asks, has, refused, released}, e.What) {
			continue
		}
		k := key{e.Client, e.Grant}
		if _, ok := open[k]; !ok {
			open[k] = e
		}
		switch {
		case e.What == asks, e.What == has:
		case e.Text == busy, e.Text == done:
			end(k, e.At)
		default:
			end(k, e.At+someLeases*a.round.Lease)
		}
	}
	for k := range open {
		to := a.ended
		if at := a.killed[k.client]; at > 0 {
			to = at + someLeases*a.round.Lease
		}
		end(k, to)
	}
	return all
}

// someLeases is for how many leases something may be in the way that is nobody's any more: it may be renewed once, and
// a clock may be set back.
const someLeases = 3

// whole are the objects that somebody has who has this one.
func (o object) whole() []object {
	if o.Kind == "several" && !strings.HasSuffix(o.Name, " a") && !strings.HasSuffix(o.Name, " b") {
		return o.parts()
	}
	return []object{o}
}

// forgotten returns the last lapse by which one of two may have got what the other still had, nil if there was none.
func (a *account) forgotten(one, other tenure) *lapse {
	var last *lapse
	for i, l := range a.lapses {
		if l.of(one.object) && (a.between(one, l, other) || a.between(other, l, one)) && (last == nil || last.to < l.to) {
			last = &a.lapses[i]
		}
	}
	return last
}

// between reports whether a lapse may have come between the grants of two. The first was not older than a lease when
// its client heard of it. If leases ended early, those that are left at the end of another one did not.
func (a *account) between(first tenure, l lapse, second tenure) bool {
	if l.leased && second.from > l.to+a.round.Lease {
		return false
	}
	return max(first.asked, first.from-a.round.Lease) <= l.to && second.from >= l.from
}

// of reports whether the object may have been forgotten: not one that is on several servers, if one of them forgets,
// nor one that the new master knows, nor one without a lease if only leases have ended.
func (l lapse) of(o object) bool {
	if l.leased && o.thing().lasting {
		return false
	}
	return l.name == o.Name || l.name == "" && o.Kind != "redlock" && (!l.acked || o.thing().lasting)
}

// setBack is when the clock of a server was first set back.
func (a *account) setBack() time.Duration {
	for _, e := range a.events {
		if e.What == strikes && e.Text == clockBack {
			return e.At
		}
	}
	return a.ended
}

// firstLapse is when the servers first forgot something; what has no lease is not judged any more after that.
func (a *account) firstLapse() time.Duration {
	first := a.ended
	for _, l := range a.lapses {
		if l.name == "" && !l.leased {
			first = min(first, l.from)
		}
	}
	return first
}
