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

// A tracked permit is what is known of one from a whole history.
type tracked struct {
	lock           string
	client         int
	lease          time.Duration // 0: renewed
	granted, taken time.Duration // call and return of the acquisition
	believed       time.Duration // the last moment at which its holder was sure to have it, but for what others did
	cut            time.Duration // the first moment from which somebody else may have taken it from its holder
	// the first end of a lease that another session gave it, which its holder does not know
	shortened time.Duration
	trusted   time.Duration // the server has it until then, as the holder has found, but for what others did
	gone      time.Duration // it was given back by then, 0: not for sure
	given     int           // how often it was given back by its id
	released  int           // how often its holder gave it back, and did so in one attempt
	updated   bool
	last      time.Duration // no lease of it that was given by a call ends later
	left      time.Duration // when its holder renewed it for the last time, at the latest; 0: it was given back
}

// A ledger is all that four processes did to permits with leases.
type ledger struct {
	deeds   []deed // complete
	permits map[string]*tracked
	history []porcupine.Operation
}

// permitLedger makes a history of what processes say that they did.
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

// lapse adds that permits come back by themselves between two moments.
func (l *ledger) lapse(lock, what string, from, to time.Duration) {
	l.add(deed{Lock: lock, Kind: opLapse, Tag: what}, from, to)
}

// repeated reports whether a call took long enough to have been sent more than once.
func repeated(d deed) bool { return d.Return-d.Call >= firstPause }

// leaseIn is the lease that a deed gives, 0 for one that is renewed.
func leaseIn(d deed) time.Duration {
	lease, err := time.ParseDuration(d.Kind[strings.LastIndex(d.Kind, " ")+1:])
	if err != nil {
		panic(err)
	}
	return lease
}

// acquired enters an acquisition.
func (l *ledger) acquired(d deed) {
	lease := leaseIn(d)
	length := cmp.Or(lease, kit.WorkerLease)
	out, granted, _ := strings.Cut(d.Out, " ")
	unsure := out == "unknown" || (out == "deadline" || out == "refused") && repeated(d)
	switch {
	case out == "done" || out == "busy":
		l.add(d, d.Call, d.Return)
		for id := range strings.FieldsSeq(granted) {
			l.permits[id] = &tracked{
				lock: d.Lock, client: d.Client, lease: lease, granted: d.Call, taken: d.Return, believed: d.Return,
				cut: 1 << 62, shortened: 1 << 62, trusted: d.Call + length, last: d.Return + length,
			}
		}
	case unsure: // the server may run it until its not-after, and what it takes comes back
		d.Out = "unknown"
		executed := d.Return + length/3 + lapseSlack
		l.add(d, d.Call, executed)
		var n int
		if _, err := fmt.Sscanf(d.Kind, opAcquire+" %d", &n); err != nil {
			panic(err)
		}
		for ; n > 0; n-- {
			back := deed{Lock: d.Lock, Kind: fmt.Sprint(opLapse, " ", n), Tag: "stray " + d.Tag}
			l.add(back, d.Call, executed+length+leaseSlack)
		}
	}
}

// enter enters what is no acquisition.
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

// cut takes in from when on others may have taken permits from their holders, unnoticed so far.
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

// held enters what a holder did with its hold.
func (l *ledger) held(d deed) {
	p := l.permits[d.Tag]
	if d.Out == "done" || d.Kind == opRelease && d.Out == "unknown" { // it was trusted when it was asked
		p.believed = max(p.believed, d.Call)
	}
	p.trusted = max(p.trusted, d.Until)
	if d.Kind != opRelease && d.Out == "done" && d.Return < p.cut {
		l.add(d, d.Call, d.Return)
	}
	switch {
	case d.Kind == opTrust:
	case d.Kind == opRelease && d.Out == "done" &&
		repeated(d): // an earlier copy, or by then somebody else, has done it
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

// gave enters a release by ids.
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
		for _, id := range ids { // its own session gives back each for itself, afterwards
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

// updated enters a new lease.
func (l *ledger) updated(d deed) {
	p, lease := l.permits[d.Tag], leaseIn(d)
	until := d.Return
	switch d.Out {
	case "done", "not held":
	case "unknown": // the server may run it until its not-after
		until += leaseSlack
	case "lost": // it was done when the holder had lost the permit, whose session gives it back
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

// lapses adds when the server takes permits back by itself that nobody has given back before. It knows no other time
// for those that are not renewed than that of their last lease.
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

// crowded returns when more permits of a semaphore were believed to be held at the same time than it has, and how many
// beliefs there were.
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
				wrong = append(wrong, fmt.Sprint(lock, " at ", e.at, ": ", slices.Sorted(maps.Keys(held))))
			}
		}
	}
	return wrong, beliefs
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
