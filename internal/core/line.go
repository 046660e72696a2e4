package core

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A lock may have a line of waiting sessions on the server. A release then hands the lock to the first of them: that
// has it from then on, for the lease of a grant, and is told so. A waiter that is told begins without a call: the grant
// was executed after the last call that has said "you wait", so it lasts at least from when that was sent.
//
// The place in the line is the session's. A call that gets the lock from another one of the session bequeaths it.

// expects reports whether a call apart from the others hears when it gets the lock, so that a release may grant it.
func (a *acquisition) expects() bool {
	l, s := a.lock, a.lock.told()
	if a.Place == nil || l.apart() == nil || s == nil || !l.Session().Subscribed(s.Channel()) {
		return false
	}
	if a.Place.Expect(s.Channel(), a.Wire) {
		a.Place.Calm()
		if a.Doomed() != nil { // that was no message
			a.Place.Wake()
		}
	}
	return l.Session().Subscribed(s.Channel()) // still
}

// wouldStand reports whether an attempt stands in the line if the lock is taken: the session must hear that it gets it.
func (a *acquisition) wouldStand() bool {
	l := a.lock
	if !a.waiting || !l.lined || a.Stands {
		return a.waiting
	}
	return a.Place != nil && a.Place.Head() && l.Session().Subscribed(l.standing().Channel())
}

// waits records that an attempt found the lock taken, and whether it stands in the line. If it may not, though it has a
// place where it would hear, it is like those who do not know the line. That may be so, so the second look comes soon.
//
//nolint:revive // no control: it is so
func (a *acquisition) waits(stands bool) {
	stood, place := a.Stands, a.answer.place()
	if stands {
		a.Waits(a.answer.Sent, a.answer.signs)
	} else {
		stood, place = a.Place != nil, first
	}
	a.hears = place == firstBehindOthers || place == first && stood
	if place == first && !stood && (a.answer.retry < 0 || a.answer.retry > settled) {
		a.answer.retry = settled
	}
}

// Where the call stands that is the first in the line.
const (
	firstBehindOthers = 1 // the holder does not know the line, so its release is heard on the lock's channel alone
	first             = 2
)

// settled is when the first in the line begins to listen to the lock's channel anyway: those who do not know the line
// may take the lock away from its holder. As long as a lock passes on quickly, nobody need.
const settled = 250 * time.Millisecond

// An estate is a place in the line on the server that one call leaves to the next.
type estate struct {
	lock *Lock
	owner.Request
	hears bool
}

// GiveUp gives the place up, and returns whose it is.
func (e *estate) GiveUp() (wire string) {
	wire = e.Wire
	e.lock.owe(new(claim).GiveUp(&e.Request, e.lock.Session().Now(), e.lock.memory()))
	return wire
}

// bequeath leaves the call's request at the server to the next call of the session, or gives it up.
func (a *acquisition) bequeath() {
	if !a.lock.lined || !a.Stands || a.Stood == 0 || a.Number > 0 || a.more.n > 0 { // 0: it may not stand
		a.giveUp()
		return
	}
	a.Place.Bequeath(&estate{a.lock, a.Request, a.hears})
	a.Request = owner.Request{}
}

// succeed takes over what an earlier call has bequeathed.
func (a *acquisition) succeed() {
	if !a.lock.lined || a.Place == nil {
		return
	}
	e, _ := a.Place.Inherit().(*estate)
	switch {
	case e == nil:
	case a.Stands || a.Number > 0 || a.more.n > 0:
		e.GiveUp()
	default:
		a.giveUp()
		a.Request, a.hears = e.Request, e.hears
	}
}

// granted takes the hold that a release by another session has granted, and reports whether the session was told of
// one. If something is unclear, a call to the server finds out.
func (a *acquisition) granted(ctx context.Context) bool {
	l, s := a.lock, a.lock.Session()
	if a.Place == nil || l.told() == nil {
		return false
	}
	wire, token, told := strings.Cut(a.Place.Mail(), " ")
	if !told || l.FixedLease > 0 || l.Confirms || s.Closed() { // a fixed lease begins with a call, too
		return false
	}
	if !a.alone {
		if a.claim.Enter(ctx) != nil {
			return false
		}
		defer a.claim.Leave()
		a.claim.Lock()
		way, _, again := a.claim.Next(&a.Request, l.part, !l.NonReentrant)
		a.claim.Unlock()
		if way != owner.Enter || again {
			return false
		}
	}
	now, length := s.Now(), lease.Grant(l.Length())
	if _, ok := a.Told(wire, lease.Trust(0, length), now); !ok {
		return false
	}
	a.begins()
	*a.answer = answer{Reply: script.Reply{Sent: a.Stood, At: now, Code: script.Granted}, length: length}
	a.answer.Rest[0], _ = strconv.ParseInt(token, 10, 64)
	a.hold, a.Granted = a.begin(), true
	a.Learn(nil)
	l.Checks().Since(a.Signs)
	return true
}

// renewedAt is when a call would have been sent that grants the lease of the session, and is to be renewed when this
// lease is.
func (a *answer) renewedAt(l *Lock) time.Duration {
	if a.length == 0 {
		return a.Sent
	}
	return a.At + (a.trust(l)-a.At)/3 - l.Length()/3
}
