package owner

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// A Debt is a wire owner that the server may still have, or may yet get, though nobody here holds anything
// under it: of an acquisition that was given up, or a release without a reply. It is given back until that is
// known to be done. Since a wire owner is never used again, giving back once too often harms nobody.
type Debt struct {
	Wire    string // "": nothing is owed
	Ceiling int    // hold count above which the wire owner is no longer owed; 0: none

	due   time.Duration // next try
	delay time.Duration // to the one after, if it fails
	told  bool          // that the server refuses it
	again time.Duration // a copy may be executed until then: give back once more; 0 when not
	until time.Duration // the server forgets it by itself then
}

// The delays between tries.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = 500 * time.Millisecond
	rareDelay  = time.Minute // of what is refused, but perhaps not for ever
)

// Undo is the debt of an acquisition that was given up: it is given back at once, and again when no copy of
// it can be executed any more.
func Undo(wire string, ceiling int, now, notAfter, memory time.Duration) Debt {
	return Debt{
		Wire: wire, Ceiling: ceiling, due: now, delay: firstDelay, again: notAfter,
		until: lease.Add(max(now, notAfter), memory),
	}
}

// expect is the debt of a wire owner that is to be given back when no copy of its acquisition can be executed
// any more. That may be so by now, and one may have been.
func expect(wire string, ceiling int, notAfter, now, memory time.Duration) Debt {
	due := max(notAfter, now)
	return Debt{Wire: wire, Ceiling: ceiling, due: due, delay: firstDelay, until: lease.Add(due, memory)}
}

// Endless is a debt that the server never forgets.
func Endless(wire string, now time.Duration) Debt {
	return Debt{Wire: wire, due: now, delay: firstDelay, until: forever}
}

// Over reports whether the debt is paid, or the server has forgotten it.
func (d *Debt) Over(now time.Duration) bool { return d.until <= now }

// Due is when the debt is to be paid.
func (d *Debt) Due() time.Duration { return d.due }

// MayReturn reports whether the debt may be made once more by a call that is under way, and never ends by
// itself.
func (d *Debt) MayReturn(now time.Duration) bool {
	return d.until == forever && (d.due > now && !d.told || d.again > now)
}

// Paid records that the wire owner was given back.
func (d *Debt) Paid() {
	if d.again == 0 {
		d.until = 0
		return
	}
	d.due, d.delay, d.again = d.again, firstDelay, 0
}

// Failed records that it is not known whether the wire owner was given back, or that it was not for a reason
// that may pass.
func (d *Debt) Failed(now time.Duration) { d.later(now, lastDelay) }

// Refused records that the server has refused to give the wire owner back, and reports whether that is new.
// The debt is tried again ever more rarely.
func (d *Debt) Refused(now time.Duration) (first bool) {
	first, d.told = !d.told, true
	d.later(now, rareDelay)
	return first
}

func (d *Debt) later(now, longest time.Duration) {
	d.due = now + d.delay
	d.delay = min(2*d.delay, longest)
}
