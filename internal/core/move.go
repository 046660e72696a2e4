package core

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/session"
)

// What a hold and those nested with it have on the server may become another session's: the wire owner stays, so
// nothing changes there, and nobody sees the lock free.

// movedEnd is how a hold ends that another session has from then on.
var movedEnd = &ending{err: fmt.Errorf("%w: handed to another session", session.ErrNotHeld)}

// Moves returns the lock with whose settings all of that is held: if any of it is renewed, it is. The error says why it
// cannot move. The hold's owner has the turn.
func (h *Single) Moves() (of *Lock, err error) {
	c := h.grant.claim
	c.Lock()
	defer c.Unlock()
	if e := h.ended.Load(); e != nil {
		return nil, e.err
	}
	of = h.lock
	for other := range h.grant.Live() {
		if other.watched() && of.FixedLease > 0 {
			of = other.lock
		}
	}
	return of, c.Stays(&h.grant.Grant, h.lock.Session().Now())
}

// Move makes it a hold of l by a claim of the other session, whose owner has the turn as well. A call of that session
// was sent then, which has found the wire owner, and has extended its lease unless the lock's is fixed. tell reports
// what has ended. After an error, which is why the hold had ended, nothing has moved.
func (h *Single) Move(l *Lock, to *Claims, sent time.Duration) (heir *Single, tell func(), err error) {
	g, c := h.grant, h.grant.claim
	from, s := h.lock.Session(), l.Session()
	then := func(moment time.Duration) time.Duration { return s.Moment(from.Time(moment)) }
	o, until := new(outermost), time.Duration(0)
	if l.FixedLease == 0 {
		until = lease.Trust(sent, l.Length())
	}
	var moved []*Single
	c.Lock()
	err = c.Stays(&g.Grant, from.Now()) // by now: a guarded call and a Detach take no turn
	if err != nil || !h.trusted() || !h.ended.CompareAndSwap(nil, movedEnd) {
		c.Unlock()
		return nil, nil, cmp.Or(h.Err(), err)
	}
	for other := range g.Live() {
		if other == h || other.trusted() && other.ended.CompareAndSwap(nil, movedEnd) {
			moved, until = append(moved, other), max(until, then(other.Trust()))
		}
	}
	o.grant.lock, o.grant.claim = l, to.claims[0]
	o.grant.Begin(&o.grant, l.part, g.Wire, g.Token, 0)
	g.Move(&o.grant.Grant, &o.hold.Hold, from.Now(), then)
	c.Unlock()
	for _, other := range moved {
		c.Lock()
		g.drop(other).EndAll(movedEnd.err)
	}
	g.look() // ends those that were not trusted any more
	o.grant.claim.granted(new(owner.Request))
	o.hold.init(l, &o.grant, s.Now(), until)
	o.grant.add(&o.hold, sent)
	return &o.hold, func() {
		for _, other := range moved {
			defer other.tellEnd(movedEnd, other.held())
		}
	}, nil
}
