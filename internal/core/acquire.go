package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/acks"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// An acquisition is one call that wants the lock, with as many attempts as it takes. Acquisitions are used again and
// again: on the stack of a call that waits, one would double that.
type acquisition struct {
	lock    *Lock
	claim   *claim       // nil of a call without an owner to which nothing is granted
	hold    *Single      // when it is granted
	more    *morePermits // of a call for several permits
	answer  *answer      // to the last attempt; nil while the call sleeps
	alone   bool         // the call has no owner
	waiting bool         // attempts are to be known to the server as a waiter's
	hears   bool         // it listens to those, too, who do not know the line on the server
	has     bool         // the wait is over, and has brought a hold
	over    bool         // whoever has called has what there is

	owner.Request
	session.Retries
}

// morePermits are the permits that a call wants besides the first. The zero value is shared by all calls for one.
type morePermits struct {
	n     int
	wires []string  // as wire is of the first, n of them or none
	holds []*Single // when they are granted
}

// private is what an acquisition without an owner becomes when it is granted, in one allocation.
type private struct {
	claim claim
	outermost
}

// outermost is what an outermost acquisition becomes then.
type outermost struct {
	grant grant
	hold  Single
}

var (
	onePermit    = &morePermits{}
	acquisitions = sync.Pool{New: func() any { return &acquisition{more: onePermit} }}
	answers      = sync.Pool{New: func() any { return new(answer) }}
)

func newAcquisition() *acquisition { return acquisitions.Get().(*acquisition) }

// free gives the acquisition back for the next call.
func (a *acquisition) free() {
	a.freeAnswer()
	*a = acquisition{more: onePermit}
	acquisitions.Put(a)
}

// begins gives the acquisition room for an answer.
func (a *acquisition) begins() {
	if a.answer == nil {
		a.answer = answers.Get().(*answer)
	}
}

// freeAnswer gives it back for the next attempt of any call: thousands of calls may sleep.
func (a *acquisition) freeAnswer() {
	if a.answer != nil {
		*a.answer = answer{}
		answers.Put(a.answer)
		a.answer = nil
	}
}

// init makes a an acquisition of its lock by ctx's owner.
func (a *acquisition) init(ctx context.Context) {
	a.About(ctx, &a.lock.Object)
	owner := OwnerOf(ctx)
	if a.alone = owner == nil || a.lock.Wires.Ownerless; !a.alone {
		a.claim = owner.claim(a.lock)
	}
}

// finish ends the call: after an error nothing of it stays. The error is made presentable.
func (a *acquisition) finish(ctx context.Context, operation string, over time.Duration, err error) error {
	if err == nil {
		if err = a.acknowledged(ctx, over); err == nil { // a hold keeps the reference to the claim
			a.hold.Observe(ctx)
			for _, h := range a.more.holds {
				h.Observe(ctx)
			}
		}
	} else {
		a.leave(ctx, over)
		a.giveUp()
		a.claim.unref(a.lock)
	}
	if err != nil {
		err = a.lock.FailBy(ctx, over, operation, a.Explain(ctx, err))
	}
	a.over = err != nil
	a.Tell(err)
	a.over = true
	return err
}

// acknowledged waits for replicas, if the session asks them. If too few have what was granted, it is given back in the
// background.
func (a *acquisition) acknowledged(ctx context.Context, over time.Duration) (err error) {
	s := a.lock.Session()
	if s.Config().Acks == nil {
		return nil
	}
	a.begins() // there is no answer to a call if another one has handed the hold over
	all := a.all(a.hold)
	if err = acks.Await(ctx, s, over, all, acks.Executed{At: a.answer.Now, Sent: a.answer.Sent}); err != nil {
		a.hold = nil
		for _, h := range all {
			h.forgo()
		}
	}
	return err
}

// unwind gives everything back if the call does not return, because code of the user's that it has called, such
// as an observer, panics or ends the goroutine.
func (a *acquisition) unwind() {
	defer a.lock.Session().Leave()
	a.leavePlace()
	switch {
	case a.over:
	case a.hold == nil:
		a.giveUp()
		a.claim.unref(a.lock)
	default:
		for _, h := range a.all(a.hold) {
			defer func() { _ = h.Release() }() // the others as well if the observer panics again
		}
	}
}

// giveUp gives the wire owner back if the server may have it, or may get it yet.
func (a *acquisition) giveUp() {
	if a.Wire == "" { // nothing was asked for
		return
	}
	l, c := a.lock, a.claim
	if c == nil {
		c = new(claim)
	}
	c.Lock()
	undo := c.GiveUp(&a.Request, l.Session().Now(), l.memory())
	c.Unlock()
	l.owe(undo)
	for _, wire := range a.more.wires {
		if undo.Wire != "" {
			undo.Wire = wire
			l.owe(undo)
		}
	}
	if a.more.n > 0 {
		a.more.wires = nil
	}
}

// draw gives the acquisition the wire owners that it needs.
func (a *acquisition) draw() {
	a.Wire = a.lock.draw()
	for range a.more.n {
		a.more.wires = append(a.more.wires, a.lock.draw())
	}
}

// try makes one attempt, and tells the observer.
func (a *acquisition) try(ctx context.Context) (inTheWay time.Duration, err error) {
	a.Asked++
	a.begins()
	done := a.lock.Attempting(ctx)
	a.answer.signs = a.lock.Checks().Signs()
	a.hold, inTheWay, err = a.tryTo(ctx)
	a.lock.Checks().Since(a.answer.signs)
	a.Learn(err)
	a.tellPlace()
	if done != nil {
		done(err)
	}
	return inTheWay, err
}

// tryTo makes one attempt: a re-entry if the owner holds the lock, else under the call's wire owner. If the lock is
// taken it returns ErrBusy, and for how long at least it stays taken.
func (a *acquisition) tryTo(ctx context.Context) (h *Single, inTheWay time.Duration, err error) {
	switch {
	case a.lock.Session().Closed():
		return nil, 0, session.ErrClosed
	case a.alone:
		return a.enter(ctx)
	}
	return a.tryShared(ctx)
}

// tryShared makes one attempt for an owner that other calls may have, too.
func (a *acquisition) tryShared(ctx context.Context) (h *Single, inTheWay time.Duration, err error) {
	if err := a.claim.Enter(ctx); err != nil {
		return nil, 0, &script.Failure{Class: script.Refused, Err: err}
	}
	defer a.claim.Leave()
	a.claim.Lock()
	way, granted, giveUp := a.claim.Next(&a.Request, a.lock.part, !a.lock.NonReentrant)
	a.claim.Unlock()
	if giveUp {
		a.giveUp()
	}
	switch way {
	case owner.Blocked:
		if granted.Of.look() > 0 {
			return nil, 0, session.ErrAlreadyHeld
		}
	case owner.Reenter:
		h, err = a.reenter(ctx, granted.Of)
		return h, 0, err
	case owner.Beside:
		return a.enterBeside(ctx, granted.Of)
	}
	return a.enter(ctx)
}

// number is the count to ask for besides what a grant has, unless a trim may make the lease shorter.
func (a *acquisition) number(g *grant) (number int, err error) {
	c := a.claim
	c.Lock()
	defer c.Unlock()
	if number = c.Number(&g.Grant, a.lock.part, a.lock.Length(), a.lock.Session().Now()); number == 0 {
		err = errTrimming
	}
	return number, err
}

// enterBeside attempts to take a half whose other one the owner holds, under its wire owner.
func (a *acquisition) enterBeside(ctx context.Context, other *grant) (*Single, time.Duration, error) {
	a.Wire = other.Wire
	number, err := a.number(other)
	if err != nil {
		return nil, 0, err
	}
	a.Number = int32(number) //nolint:gosec // memory has room for fewer
	h, inTheWay, err := a.enter(ctx)
	switch {
	case err != nil:
		a.claim.Lock()
		a.claim.Failed(&a.Request)
		a.claim.Unlock()
	case h == nil: // the server has nothing of the other half
		other.lose(a.answer.Sent)
		err = fmt.Errorf("re-entry: %w", session.ErrLost)
	}
	return h, inTheWay, err
}

// enter attempts to become a holder under a wire owner of the call's own, or that of the other
// half. Without a hold and without an error, the other half has gone.
func (a *acquisition) enter(ctx context.Context) (*Single, time.Duration, error) {
	if a.Wire == "" {
		a.draw()
	}
	l, stands, hears := a.lock, a.wouldStand(), a.expects()
	nested, again := a.Number > 0, a.Copies > 0 || a.Stands
	err := l.Session().Runner().Timed(ctx, &a.answer.Reply, l.Key(), l.NotAfter(), func(w script.Window) *script.Call {
		return l.protocol.Acquire(kind.Want{
			Owner: a.Wire, Target: max(int(a.Number), 1), Lease: l.Millis(), NotAfter: w.NotAfter, Nested: nested,
			Stand: stands, Hears: hears, Others: a.more.wires, Waits: a.waiting && (stands || !a.hears), Again: again,
			Age: a.answer.age,
		})
	})
	return a.entered(ctx, stands, a.answer.read(err, nested || stands && again))
}

// entered is what enter makes of the answer to a call that stands in the line, or does not.
//
//nolint:revive // no control: it is so
func (a *acquisition) entered(ctx context.Context, stands bool, err error) (*Single, time.Duration, error) {
	l, s, answer := a.lock, a.lock.Session(), a.answer
	if err != nil {
		switch script.ClassOf(err) {
		case script.Unknown, script.Broken:
			a.Copies = lease.Add(answer.Sent, l.NotAfter())
			a.Stands = a.Stands || stands && l.lined // a call that does not stand leaves it in the line
			err = l.Final(err)
		case script.Refused:
			a.Stands = a.Stands || stands && script.Interrupted(err) && !script.Mismatched(err)
		}
		return nil, 0, err
	}
	switch answer.Code {
	case script.Granted:
		if answer.At >= answer.trust(l) || s.Closed() {
			a.claim.granted(&a.Request)
			a.Copies = max(a.Copies, answer.Sent)
			a.giveUp()
			return nil, 0, tooLate(s)
		}
		return a.begin(), 0, nil
	case script.Busy:
		a.Busy(answer.Sent)
		a.placed(stands)
		return nil, answer.retry, session.ErrBusy
	}
	if stands { // its place in the line is: whatever it is told of that one is not to be taken for another
		answer.moved.stood = answer.moved.stood || a.Stands
		a.Misplaced(answer.Sent)
		a.giveUp()
		return a.enter(ctx)
	}
	return nil, 0, nil
}

// begin makes holds of the grant.
func (a *acquisition) begin() *Single {
	a.claim.granted(&a.Request)
	for _, wire := range a.more.wires {
		a.more.holds = append(a.more.holds, new(private).begin(a, wire))
	}
	if a.claim == nil {
		return new(private).begin(a, a.Wire)
	}
	return new(outermost).begin(a.lock, a.claim, a.Wire, a.answer, a.Copies)
}

// begin makes p the grant of a wire owner. No other call can find its claim until a context carries its owner.
func (p *private) begin(a *acquisition, wire string) *Single {
	return p.outermost.begin(a.lock, &p.claim, wire, a.answer, a.Copies)
}

// begin makes o the grant of a wire owner. Copies of the call may be executed until then.
func (o *outermost) begin(l *Lock, c *claim, wire string, granted *answer, copies time.Duration) *Single {
	g, h := &o.grant, &o.hold
	g.lock, g.claim = l, c
	g.Begin(g, l.part, wire, granted.token(), copies)
	h.init(l, g, granted.At, granted.trust(l))
	g.add(h, granted.renewedAt(l))
	return h
}

// tooLate is why a granted attempt is given back: its reply came after trust had ended (G1), or after the session had.
func tooLate(s *session.Session) error {
	if s.Closed() {
		return session.ErrClosed
	}
	return &script.Failure{
		Class: script.Unknown, Temporary: true, Err: errors.New("granted too late to be trusted, and given back"),
	}
}

// reenter attempts to raise the count of a grant.
func (a *acquisition) reenter(ctx context.Context, g *grant) (*Single, error) {
	l, s := a.lock, a.lock.Session()
	target, err := a.number(g)
	if err != nil {
		return nil, err
	}
	answer := a.answer
	err = s.Runner().Timed(ctx, &answer.Reply, l.Key(), l.NotAfter(), func(w script.Window) *script.Call {
		return l.protocol.Acquire(kind.Want{
			Owner: g.Wire, Target: target, Lease: l.Millis(), NotAfter: w.NotAfter,
			Nested: true, Tokened: g.Token != 0, Age: a.answer.age,
		})
	})
	switch err = answer.read(err, true); {
	case err != nil:
		if script.ClassOf(err) == script.Unknown {
			copies := lease.Add(answer.Sent, l.NotAfter())
			g.claim.Lock()
			g.ReentryInDoubt(lease.Add(s.Now(), l.Length()), copies)
			g.claim.Unlock()
			g.correct(0)
			g.correct(copies)
		}
		return nil, err
	case answer.Code == script.Granted:
		h := new(Single)
		h.init(l, g, answer.At, answer.trust(l))
		if answer.At >= answer.trust(l) || s.Closed() {
			g.lasts(l.Length())
			g.correct(0)
			return nil, tooLate(s)
		}
		g.claim.Lock()
		g.claim.Reentered(&g.Grant, answer.token())
		g.claim.Unlock()
		g.add(h, answer.Sent)
		return h, nil
	default: // the server has nothing of the outer hold
		g.lose(answer.Sent)
		return nil, fmt.Errorf("re-entry: %w", session.ErrLost)
	}
}

// init makes h a hold that was acquired then and is trusted until then.
func (h *Single) init(l *Lock, g *grant, acquired, trust time.Duration) {
	h.hold.inside, h.lock, h.grant = h, l, g
	h.Begin(h, acquired, trust)
}

// An answer is the reply to an acquisition.
type answer struct {
	script.Reply
	replied time.Duration // when the last reply came, be it to a call before
	retry   time.Duration // busy: how long that lasts at least; below zero: no expiry
	length  time.Duration // granted by a release, for which lease; 0: by a call of its own
	moved   moved         // what has become of the call's place on the server, until that is told
	age     string        // the call asks for that of the server, see [kind.Want]
	signs   int64         // of another server, before the last attempt
}

// The fields of the reply behind its head.
func (a *answer) token() int64 { return a.Rest[0] }      // granted
func (a *answer) place() int64 { return a.Rest[1] }      // busy, and standing in the queue
func (a *answer) others() bool { return a.Rest[2] == 1 } // which may be told by others

// trust returns until when the grant may be trusted.
func (a *answer) trust(l *Lock) time.Duration {
	return lease.Trust(a.Sent, cmp.Or(a.length, l.Length()))
}

// read checks the answer, which may be that the hold to be raised is gone.
func (a *answer) read(err error, mayBeGone bool) error {
	a.length, a.replied = 0, max(a.replied, a.At)
	switch {
	case err != nil:
		return err
	case a.Code == script.Granted:
	case a.Code == script.Busy && a.Len > 0:
		a.retry = lease.Lasting(a.Rest[0])
	case a.Code == script.Gone && mayBeGone:
	default:
		return a.Unexpected()
	}
	return nil
}
