package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/turn"
)

// Claims are one owner's to several locks of one session. Drop them, unless they are granted.
type Claims struct {
	locks  []*Lock
	claims []*claim
}

// Claims are the owner's to the locks.
func (o *Owner) Claims(locks []*Lock) *Claims {
	cs := &Claims{locks: locks}
	for _, l := range locks {
		cs.claims = append(cs.claims, o.claim(l))
	}
	return cs
}

// Drop gives the claims back.
func (cs *Claims) Drop() {
	for i, c := range cs.claims {
		c.unref(cs.locks[i])
	}
}

// Held is how many of the names the owner holds by now, through whatever call.
func (cs *Claims) Held() (n int) {
	for _, c := range cs.claims {
		if c.holds() {
			n++
		}
	}
	return n
}

// Have reports whether one of them is the claim of a hold.
func (cs *Claims) Have(h *Single) bool { return slices.Contains(cs.claims, h.grant.claim) }

// Await wakes w when one of the names is granted to another call of the owner. The function that it returns ends that.
func (cs *Claims) Await(w turn.Waker) (end func()) {
	for _, c := range cs.claims {
		c.await(w)
	}
	return func() {
		for _, c := range cs.claims {
			c.Forgo(w)
		}
	}
}

// Enter waits for the turn of an operation on all names. Turns come in one order for everybody.
func (cs *Claims) Enter(ctx context.Context) (leave func(), err error) {
	for i, c := range cs.claims {
		if err := c.Enter(ctx); err != nil {
			leaveAll(cs.claims[:i])
			return nil, &script.Failure{Class: script.Refused, Err: err}
		}
	}
	return func() { leaveAll(cs.claims) }, nil
}

func leaveAll(claims []*claim) {
	for _, c := range claims {
		c.Leave()
	}
}

// Begin makes holds of the grants of a call under a wire owner, by when it was sent and its reply came. Copies of it
// may be executed until a moment. The call has the turns. A grant that came too late is an error.
func (cs *Claims) Begin(wire string, sent, at, copies time.Duration) ([]*Single, error) {
	s := cs.locks[0].Session()
	shortest, _ := Leases(cs.locks)
	if at >= lease.Trust(sent, shortest) || s.Closed() {
		return nil, tooLate(s)
	}
	var holds []*Single
	for i, l := range cs.locks {
		granted := answer{Reply: script.Reply{Sent: sent, At: at}}
		o := new(outermost)
		o.grant.Together(len(cs.locks))
		holds = append(holds, o.begin(l, cs.claims[i], wire, &granted, copies))
	}
	return holds, nil
}

// NewWire is a wire owner that nobody has ever had.
func NewWire(s *session.Session) string { return keeperOf(s).newOwner() }

// Owe gives back a wire owner that the server may have, or may get until then.
func (l *Lock) Owe(wire string, until time.Duration) {
	l.owe(owner.Undo(wire, 0, l.Session().Now(), until, l.memory()))
}

// A Return gives several holds of one session back, which have ended here. One call may do so.
type Return struct {
	session *session.Session
	holds   []*Single
	endings []*ending
	ctx     context.Context //nolint:containedctx // of the calls
	cancel  context.CancelFunc
}

// EndTogether ends holds of one session, one of each lock. The error is of those that had ended before. The rest
// is to be given back, until Over. It is nil if the session is closed: then nothing has ended.
func EndTogether(holds []*Single) (r *Return, err error) {
	s := holds[0].lock.Session()
	now, shortest := s.Now(), holds[0].lock.Length()
	if !s.Enter() {
		return nil, session.ErrClosed
	}
	r = &Return{session: s}
	var errs []error
	for _, h := range holds {
		shortest = min(shortest, h.lock.Length())
		if err := h.end(now, releasedEnd); err != nil {
			errs = append(errs, err)
			continue
		}
		r.holds = append(r.holds, h)
	}
	r.endings = make([]*ending, len(r.holds))
	r.ctx, r.cancel = s.Within(now, lease.Bound(shortest))
	return r, errors.Join(errs...)
}

// A sendReturn sends the call that gives locks back, which a wire owner has, and reads how many clients heard of each,
// as the reply of a release says it.
type sendReturn = func(ctx context.Context, wire string, locks []*Lock) ([]int64, error)

// Len is how many holds there are.
func (r *Return) Len() int { return len(r.holds) }

// Over says that all are given back, or nearly so.
func (r *Return) Over() {
	r.cancel()
	r.session.Leave()
	for i, h := range r.holds {
		defer h.tellEnd(r.endings[i], h.held()) // the others', whatever one of them does
	}
}

// One gives one of them back on its own.
func (r *Return) One(i int) (err error) {
	r.endings[i], err = r.holds[i].giveBack(r.ctx)
	return err
}

// Together gives all of them back by one call, which send makes, and returns an error for each. It is not done if
// there are other holds of their owner, or the server refuses the call, perhaps because of one of them.
func (r *Return) Together(send sendReturn) (errs []error, done bool) {
	if len(r.holds) == 0 {
		return nil, true
	}
	remaining, means, err := r.inTurn(send)
	refused := script.BecauseOfKeys(err) || script.ClassOf(err) == script.Refused && !script.IsTemporary(err)
	if remaining == nil || refused && r.ctx.Err() == nil {
		return nil, false // nothing was freed
	}
	errs = make([]error, len(r.holds))
	for i, h := range r.holds {
		r.endings[i], errs[i] = h.gaveBack(r.ctx, means[i], remaining[i], err)
	}
	return errs, true
}

// inTurn sends the call in the turns of all claims, until its outcome is known. It returns nothing if it sent nothing.
func (r *Return) inTurn(send sendReturn) (remaining []kind.Remaining, means []owner.Outcome, err error) {
	var all Claims
	for _, h := range r.holds {
		all.claims = append(all.claims, h.grant.claim)
	}
	leave, err := all.Enter(r.ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	for _, h := range r.holds {
		left := h.grant.remaining()
		if left.Count > 0 {
			return nil, nil, nil
		}
		remaining = append(remaining, left)
	}
	var tries session.Tries
	for tries.Next(r.ctx) {
		means, err = r.lower(remaining, send)
		if err == nil || !script.IsTemporary(err) || script.BecauseOfKeys(err) {
			break
		}
	}
	return remaining, means, err
}

// lower sends the call.
func (r *Return) lower(remaining []kind.Remaining, send sendReturn) (means []owner.Outcome, err error) {
	sent, locks := r.session.Now(), make([]*Lock, len(r.holds))
	for i, h := range r.holds {
		locks[i] = h.lock
		h.grant.lowering(remaining[i])
	}
	replies, err := send(r.ctx, r.holds[0].grant.Wire, locks)
	if err != nil {
		replies = make([]int64, len(r.holds))
	}
	means = make([]owner.Outcome, len(r.holds))
	for i, h := range r.holds {
		means[i], _ = h.grant.lowered(remaining[i], sent, owner.ReadReleased(replies[i]), err)
	}
	return means, err
}
