package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// A tracked permit is what a whole history tells about one permit.
type tracked struct {
	lock           string
	client         int
	lease          time.Duration // 0: renewed
	granted, taken time.Duration // call and return of the acquisition
	// the last moment at which its holder was sure of having it, apart from what others did
	believed time.Duration
	cut      time.Duration // the first moment from which somebody else may have taken it from its holder
	// The first end of a lease that another session gave it without its holder's knowledge.
	shortened time.Duration
	trusted   time.Duration // until then the server has it, as the holder has found, apart from what others did
	gone      time.Duration // it was given back by then; 0: not for certain
	given     int           // how often it was given back by its id
	released  int           // how often its holder gave it back in a single attempt
	updated   bool
	last      time.Duration // no lease that a call gave it ends later
	left      time.Duration // the latest moment at which its holder renewed it for the last time; 0: it was given back
}

// A ledger is everything that four processes did to permits with leases.
type ledger struct {
	deeds   []deed // those that have returned
	permits map[string]*tracked
	history []porcupine.Operation
}

// permitLedger makes a history of what the processes report.
func permitLedger(r record) *ledger {
	l := &ledger{deeds: r.deeds, permits: map[string]*tracked{}}
	for _, d := range l.deeds {
		switch kind, _, _ := strings.Cut(d.Kind, " "); kind {
		case opAcquire:
			l.acquired(d)
		case opGive, opUpdate:
			l.cut(d)
		}
	}
	for _, d := range l.deeds {
		l.enter(d)
	}
	for _, p := range l.permits {
		if p.left == 0 {
			p.left = r.killedAt(p.client)
		}
	}
	l.lapses()
	return l
}

// add adds a deed to the history that is checked.
func (l *ledger) add(d deed, from, to time.Duration) {
	o := porcupine.Operation{ClientId: d.Client, Input: d, Call: int64(from), Return: int64(max(from+1, to))}
	l.history = append(l.history, o)
}

// lapse records that permits come back by themselves between two moments.
func (l *ledger) lapse(lock, what string, from, to time.Duration) {
	l.add(deed{Lock: lock, Kind: opLapse, Tag: what}, from, to)
}

// repeated reports whether a call took long enough to have been sent more than once.
func repeated(d deed) bool { return d.Return-d.Call >= firstPause }

// leaseIn returns the lease that a deed gives; 0 if it is renewed.
func leaseIn(d deed) time.Duration {
	lease, err := time.ParseDuration(d.Kind[strings.LastIndex(d.Kind, " ")+1:])
	if err != nil {
		panic(err)
	}
	return lease
}

// acquired records an acquisition.
func (l *ledger) acquired(d deed) {
	lease := leaseIn(d)
	length := cmp.Or(lease, kit.WorkerLease)
	out, granted, _ := strings.Cut(d.Out, " ")
	unsure := out == "unknown" || (out == "deadline" || out == "refused") && repeated(d)
	switch {
	case out == "done" || out == "busy":
		l.add(d, d.Call, d.Return)
		if back := d.Call + length - lapseSlack; out == "done" && back < d.Return { // of an earlier copy
			l.stray(d, d.Return, back, d.Return)
		}
		for id := range strings.FieldsSeq(granted) {
			l.permits[id] = &tracked{
				lock: d.Lock, client: d.Client, lease: lease, granted: d.Call, taken: d.Return, believed: d.Return,
				cut: 1 << 62, shortened: 1 << 62, trusted: d.Call + length, last: d.Return + length,
			}
		}
	case unsure: // the server may execute it until its not-after, and what it takes comes back
		executed := d.Return + length/3 + lapseSlack
		l.stray(d, executed, d.Call, executed+length+leaseSlack)
	}
}

// stray records that an acquisition may have been executed until then, and that what it took came back between two
// moments.
func (l *ledger) stray(d deed, executed, from, to time.Duration) {
	d.Out = "unknown"
	l.add(d, d.Call, executed)
	var n int
	if _, err := fmt.Sscanf(d.Kind, opAcquire+" %d", &n); err != nil {
		panic(err)
	}
	for ; n > 0; n-- {
		l.add(deed{Lock: d.Lock, Kind: fmt.Sprint(opLapse, " ", n), Tag: "stray " + d.Tag}, from, to)
	}
}

// enter records everything but acquisitions.
func (l *ledger) enter(d deed) {
	kind, _, _ := strings.Cut(d.Kind, " ")
	switch kind {
	case opFree, opTaken:
		if d.Out != "nothing" && d.Out != "unknown" {
			l.add(d, d.Call, d.Return)
		}
	case opTrust, opDetach, opRelease:
		l.held(d)
	case opGive:
		l.gave(d)
	case opUpdate:
		l.updated(d)
	}
}

// cut records from when on others may have taken permits from their holders without their noticing.
func (l *ledger) cut(d deed) {
	for id := range strings.FieldsSeq(d.Tag) {
		switch p := l.permits[id]; {
		case d.Kind == opGive:
			p.cut = min(p.cut, d.Call)
		case d.Client/clientsEach != p.client/clientsEach: // the holder's own session knows of the new lease
			p.shortened = min(p.shortened, d.Call+leaseIn(d))
			p.cut = min(p.cut, p.shortened)
		}
	}
}

// held records what a holder did with its hold.
func (l *ledger) held(d deed) {
	p := l.permits[d.Tag]
	switch {
	case d.Out == "done": // it was trusted when it was asked
		p.believed = max(p.believed, d.Call)
	case d.Kind == opRelease && d.Out == "unknown": // likewise, unless its process was killed before it looked
		p.believed = max(p.believed, min(d.Call, d.Until))
	}
	p.trusted = max(p.trusted, d.Until)
	if d.Kind != opRelease && d.Out == "done" && d.Return < p.cut {
		l.add(d, d.Call, d.Return)
	}
	switch {
	case d.Kind == opTrust:
	case d.Kind == opRelease && d.Out == "done" &&
		repeated(d): // an earlier copy has done it, or somebody else since
		p.gone = d.Return
		d.Out = "done again"
		l.add(d, d.Call, d.Return)
	case d.Kind == opRelease && d.Out == "done":
		p.gone = d.Return
		p.released++
		l.add(d, d.Call, d.Return)
	case d.Kind == opRelease && d.Out != "lost": // it is repeated in the background
		p.left = d.Return
		l.lapse(d.Lock, "permit "+d.Tag, d.Call, max(d.Return+cmp.Or(p.lease, kit.WorkerLease), p.last)+leaseSlack)
	default: // lost, or left to its lease
		p.left = d.Return
	}
}

// gave records a release by ids.
func (l *ledger) gave(d deed) {
	for id := range strings.FieldsSeq(d.Tag) {
		p := l.permits[id]
		if d.Out == "done" {
			p.gone = d.Return
			p.given++
		}
	}
	switch d.Out {
	case "unknown":
		ids, until := strings.Fields(d.Tag), d.Return+leaseSlack
		for _, id := range ids { // its own session gives back each one by itself, afterwards
			p := l.permits[id]
			if p == nil || d.Client/clientsEach != p.client/clientsEach {
				continue
			}
			later := max(d.Return+cmp.Or(p.lease, kit.WorkerLease), p.last) + leaseSlack
			if len(ids) == 1 {
				until = later
			} else {
				l.lapse(d.Lock, "permit "+id, d.Call, later)
			}
		}
		l.add(d, d.Call, until)
	case "refused":
	default:
		l.add(d, d.Call, d.Return)
	}
}

// updated records a new lease.
func (l *ledger) updated(d deed) {
	p, lease := l.permits[d.Tag], leaseIn(d)
	until := d.Return
	switch d.Out {
	case "done", "not held":
	case "unknown": // the server may execute it until its not-after
		until += leaseSlack
	case "lost": // executed when the holder had lost the permit, which its session then gives back
		d.Out = "unknown"
	default:
		return
	}
	by := fmt.Sprint("update ", d.Client, ".", d.Serial)
	d.Kind += " by " + by
	l.add(d, d.Call, until)
	if d.Out == "not held" {
		return
	}
	p.updated = true
	p.last = max(p.last, until+lease)
	p.trusted = min(p.trusted, d.Call+lease)
	if p.lease > 0 {
		l.lapse(d.Lock, "lease "+by, d.Call+lease-lapseSlack, until+lease+lapseSlack)
	}
}

// lapses records when the server takes back permits by itself that nobody has given back before. For those that are
// not renewed, the server knows only the end of their last lease.
func (l *ledger) lapses() {
	for _, d := range l.deeds {
		if !strings.HasPrefix(d.Kind, opAcquire) || !strings.HasPrefix(d.Out, "done ") {
			continue
		}
		early := false
		for _, id := range strings.Fields(d.Out)[1:] {
			p := l.permits[id]
			from := max(min(p.trusted, p.shortened)-lapseSlack, p.taken)
			if p.lease > 0 {
				from = d.Call + p.lease - lapseSlack
			}
			if p.gone > 0 && p.gone <= from {
				continue
			}
			early = true
			switch {
			case p.lease == 0 && p.left > 0:
				l.lapse(p.lock, "permit "+id, from, max(p.left+kit.WorkerLease, p.last)+leaseSlack)
			case p.lease > 0 && p.updated && p.left > 0: // its session may give it back when it is lost there
				l.lapse(p.lock, "permit "+id, p.believed, max(p.left, p.last)+leaseSlack)
			}
		}
		if lease := leaseIn(d); early && lease > 0 {
			l.lapse(d.Lock, "lease "+d.Tag, d.Call+lease-lapseSlack, d.Return+lease+lapseSlack)
		}
	}
}

// crowded returns each moment at which more permits of a semaphore were believed to be held than it has, and the
// number of beliefs.
func (l *ledger) crowded(permits int) (wrong []string, beliefs int) {
	type edge struct {
		at   time.Duration
		step int
		id   string
	}
	edges := map[string][]edge{}
	for id, p := range l.permits {
		if to := min(p.believed, p.cut); to > p.taken {
			beliefs++
			edges[p.lock] = append(edges[p.lock], edge{p.taken, 1, id}, edge{to, -1, id})
		}
	}
	for lock, all := range edges {
		slices.SortFunc(all, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) })
		held := map[string]bool{}
		for _, e := range all {
			if e.step < 0 {
				delete(held, e.id)
				continue
			}
			if held[e.id] = true; len(held) > permits {
				wrong = append(wrong, fmt.Sprint(lock, " at ", e.at, ": ", slices.Sorted(maps.Keys(held)), l.about(held)))
			}
		}
	}
	return wrong, beliefs
}

// about tells everything that was done to some permits.
func (l *ledger) about(ids map[string]bool) (told string) {
	for _, d := range l.deeds {
		for id := range ids {
			if strings.Contains(d.Tag+" "+d.Out, id) {
				told += fmt.Sprintf("\n%v to %v by %d, until %v: %s", d.Call, d.Return, d.Client, d.Until, d.describe())
				break
			}
		}
	}
	return told
}

// twice returns the permits that came back more than once.
func (l *ledger) twice() (wrong []string) {
	for id, p := range l.permits {
		if p.given+p.released > 1 {
			wrong = append(wrong, fmt.Sprint(id, ": ", p.given, " times by its id, ", p.released, " by its holder"))
		}
	}
	return wrong
}
