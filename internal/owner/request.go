package owner

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// A Request is one call that wants a name, with as many attempts as it takes.
type Request struct {
	Wire   string        // the wire owner of an acquisition that is no re-entry; "" before the first attempt
	Copies time.Duration // copies whose outcome is not known may be executed until then; 0: there are none
	Number int32         // of the hold that is asked for beside the other half; 0 when it is none
	Stands bool          // the server knows it as a waiter
	Stood  time.Duration // when the last call was sent that has found it waiting in a line, see [Request.Waits]
	Signs  int64         // by then, that another server may have taken over
}

// A Way is how an attempt is made.
type Way uint8

// The ways.
const (
	Enter   Way = iota // under the request's own wire owner, which is to be drawn if there is none
	Reenter            // one more hold of the owner's grant
	Beside             // under the wire owner of the other half, which the owner has
	Blocked            // the owner itself has what the call would wait for; if that has ended unnoticed, as Enter
)

// Next is the way in which the next attempt is made to take a half. In the last three the grant is what the
// owner has. If the second result is true, earlier attempts must be given up first: what they may have left
// would be another hold.
func (c *Claim[G, H]) Next(r *Request, half Half, reentrant bool) (way Way, g *Grant[G, H], giveUp bool) {
	own, other := c.Held(half)
	switch {
	case own != nil && !reentrant, own == nil && other != nil && half != Shared:
		return Blocked, cmp.Or(own, other), false
	case own != nil:
		return Reenter, own, true
	case other != nil:
		return Beside, other, r.Wire != other.Wire
	default:
		return Enter, nil, r.Number > 0 // the other half has gone since the last attempt
	}
}

// Number is the count that the next attempt asks for, to have one hold more than g has, with that lease; than none
// of g is of the other half. It is 0 while a trim may make the lease shorter.
func (c *Claim[G, H]) Number(g *Grant[G, H], half Half, length, now time.Duration) int {
	if trims, _ := c.trims(g.Wire, length, now); trims {
		return 0
	}
	count := 0
	if g.half == half {
		count = g.Count(now)
	}
	if half != Shared {
		return count + 1
	}
	return c.note().next(count)
}

// GiveUp gives up what earlier attempts may have left or may leave yet. It returns the debt for that, and whether there
// is one.
func (c *Claim[G, H]) GiveUp(r *Request, now, memory time.Duration) (undo Debt) {
	if r.Copies > 0 || r.Stands {
		undo = Undo(r.Wire, int(r.Number), now, r.Copies, memory)
		if r.Number > 0 {
			c.doubt()
			c.setEmptied(true)
		}
	}
	*r = Request{}
	return undo
}

// Failed records that an attempt has brought nothing. Beside the other half, what an earlier one may have
// left may have to be given back, by then besides another call's.
func (c *Claim[G, H]) Failed(r *Request) {
	if r.Number > 0 && r.Copies > 0 {
		c.doubt()
	}
}

// Busy records that an attempt that was sent then has found somebody else. An earlier one has not taken the
// lock by then, and will not if it could no longer be executed when this one was sent. (When the reply comes it
// may have been executed in between.)
func (r *Request) Busy(sent time.Duration) {
	if sent >= r.Copies {
		r.Copies = 0
	}
}

// Waits records that an attempt that was sent then, after that many signs of another server, has found the request
// waiting in a line on the server. So a release has not handed the lock to it before; from then on, one may.
func (r *Request) Waits(sent time.Duration, signs int64) {
	r.Busy(sent)
	r.Stands, r.Stood, r.Signs = true, sent, signs
}

// Told handles a message: a release has handed the lock to a wire owner, for a lease that is trusted for that long.
// It returns until when the request may rely on that, and false if the lock is not the request's, or may be no longer:
// then a call finds out.
func (r *Request) Told(wire string, trusted, now time.Duration) (until time.Duration, ok bool) {
	until = lease.Add(r.Stood, trusted)
	return until, r.Stands && r.Wire == wire && now < until
}

// Misplaced records that an attempt that was sent then has found the request neither granted nor in the line any more.
// A wire owner stands there only once, or it might take an old message for a new one: so give the request up, and begin
// with another wire owner.
func (r *Request) Misplaced(sent time.Duration) {
	r.Busy(sent)
	r.Stands = false
}

// Granted records that the server has granted the request.
func (c *Claim[G, H]) Granted(r *Request) {
	if r.Number == 0 && c.notes != nil {
		c.notes.numbers = numbers{} // they were a former wire owner's
	}
	c.setEmptied(false)
}

// Reentered records that the server has granted a re-entry.
func (c *Claim[G, H]) Reentered(g *Grant[G, H], token int64) {
	g.Token = max(g.Token, token)
	c.setEmptied(false)
}

// ReentryInDoubt records that a re-entry had no reply, which asked for a lease until then and may be executed
// until copies. Beside the other half it would begin anew. The count may be one too high, so it is to be
// corrected now, and again at copies.
func (g *Grant[G, H]) ReentryInDoubt(until, copies time.Duration) {
	g.MayLast(until)
	if g.half == Shared {
		g.setCopies(max(g.besides().copies, copies))
	}
}
