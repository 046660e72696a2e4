package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// call is a whole call that waits for at most limit.
func (a *acquisition) call(ctx context.Context, l *Lock, operation string, limit time.Duration) (h *Single, err error) {
	if err := l.Begin(ctx, operation); err != nil {
		return nil, err
	}
	a.lock = l
	defer a.unwind()
	a.init(ctx)
	over := l.Session().Over(limit)
	err = a.finish(ctx, operation, over, a.WaitFor(ctx, limit, a))
	return a.hold, err
}

// Once makes one attempt, repeated only while its reply is lost and it may still be executed. Nor is a
// reply waited for any longer.
func (a *acquisition) Once(ctx context.Context) error {
	return a.lock.Session().Once(ctx, a.lock.Key(), a.lock.NotAfter(), func(ctx context.Context) error {
		_, err := a.try(ctx)
		return err
	})
}

// Wait attempts until the lock is granted: at once if nobody of the session waits for it, then when it is its turn to
// look. Attempts end with ctx, sleep with sleep.
func (a *acquisition) Wait(ctx, sleep context.Context) error {
	a.waiting = a.lock.queue() != nil
	return a.ended(wait.Until(ctx, sleep, a.looksAtOnce(), a))
}

func (a *acquisition) ended(err error) error {
	if err == nil || a.inherit((*wait.Place).Refuse) { // that is the call's: others were told that it was released
		a.has, err = true, nil
	}
	a.leavePlace()
	return err
}

// looksAtOnce reports whether the first attempt need not wait for others of the session.
func (a *acquisition) looksAtOnce() bool {
	l := a.lock
	return a.Overtakes() ||
		(l.apart() != nil || l.Session().Lines().Empty(l.Line())) && a.StandFirst(l.told(), a)
}

// TakePlace is where the call waits.
func (a *acquisition) TakePlace() *wait.Place {
	l := a.lock
	if a.Place == nil {
		a.Stay(a.join())
		if !a.alone {
			a.claim.ownedBy().Nest(&a.Retries, l)
		}
	}
	switch apart := l.apart(); {
	case apart != nil:
		apart.Wait(a.Place, a.Wire, a.hears)
	case l.lined && a.Place.Head():
		a.Place.Hear(a.hears, a.Stands)
	}
	return a.Place
}

// join takes a place, and has it woken when the owner gets the lock by another call.
func (a *acquisition) join() (p *wait.Place) {
	l := a.lock
	lines := l.Session().Lines()
	switch {
	case l.apart() != nil:
		p = lines.Apart(l.Line())
	case l.lined:
		p = lines.JoinStanding(l.Line(), l.standing())
	default:
		p = lines.Join(l.Line(), l.Backoff == nil, a.waiting)
	}
	if l.HandsOver {
		p.Accept(l)
	}
	if !a.alone { // else nobody else can hold it
		a.claim.await(p)
	}
	return p
}

// leavePlace leaves the place to the next in line, after the call was granted a hold or nothing.
func (a *acquisition) leavePlace() {
	if a.Place == nil {
		return
	}
	if a.hold == nil && a.lock.lined && a.Place.Followed() { // nor was one granted that unwind releases
		a.bequeath()
	}
	taken := time.Duration(0)
	handed, _ := a.Place.Refuse().(*Single)
	switch l := a.lock; {
	case !a.has && handed != nil:
		taken = l.Length() // until it is released
		defer handed.forgo()
	case !a.has:
	case handed != nil: // the server has granted one, so it did not have that any more
		a.begins()
		defer handed.grant.lose(a.answer.Sent)
		taken = l.Length()
	default:
		taken = l.atMost(l.Length(), 1)
	}
	if !a.alone {
		a.claim.Forgo(a.Place)
	}
	a.LeaveTo(taken)
}

// Attempt tries once. Without a hold and without an error, it is to be tried again after a
// wake-up or after retry: the lock is taken, or something failed that may pass.
func (a *acquisition) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	if a.inherit((*wait.Place).Take) {
		return true, 0, nil
	}
	a.succeed()
	if a.granted(ctx) {
		return true, 0, nil
	}
	if err := a.Doomed(); err != nil {
		return false, 0, err
	}
	inTheWay, err := a.try(ctx)
	if err == nil {
		return true, 0, nil
	}
	retry, err = a.Again(ctx, inTheWay, err, a.lock.Backoff)
	a.freeAnswer()
	return false, a.lock.atMost(retry, int(a.Attempts)), err
}

// Woken tells the observer why a sleep ended. A call that has waited for long for what its session holds says so.
func (a *acquisition) Woken(by wait.Cause) {
	a.Retries.Woken(by)
	if a.Place.Noticed() {
		a.lock.LogStall()
	}
}

// Overtakes reports whether the owner holds the lock by now, perhaps through another call; or the call is to fail.
func (a *acquisition) Overtakes() bool { return !a.alone && a.claim.holds() || a.Doomed() != nil }
