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
	defer l.Session().Leave()
	a.init(ctx, l)
	defer a.unwind()
	err = a.WaitFor(ctx, limit, func() error {
		h, err = a.once(ctx)
		return err
	}, func(attempt, sleep context.Context) error {
		h, err = a.wait(attempt, sleep)
		return err
	})
	return h, a.finish(ctx, operation, err)
}

// once makes one attempt, repeated only while its reply is lost and it may still be executed. Nor is a
// reply waited for any longer.
func (a *acquisition) once(ctx context.Context) (h *Single, err error) {
	err = a.lock.Session().Once(ctx, a.lock.Key(), a.lock.notAfter(), func(ctx context.Context) (err error) {
		h, _, err = a.try(ctx)
		return err
	})
	return h, err
}

// wait attempts until the lock is granted: at once if nobody of the session waits for it, then when it is its turn to
// look. Attempts end with ctx, sleep with sleep.
func (a *acquisition) wait(ctx, sleep context.Context) (h *Single, err error) {
	l := a.lock
	a.stand = l.queue != nil
	defer func() { a.leavePlace(h) }()
	now := a.reenters() || (l.apart != nil || l.Session().Lines().Empty(l.Line())) && a.StandFirst(l.standing, a.takePlace)
	err = a.Until(sleep, now, wait.Caller{
		Attempt: func() (done bool, retry time.Duration, err error) {
			h, retry, err = a.attempt(ctx)
			return h != nil, retry, err
		},
		Place:     a.takePlace,
		Overtakes: a.reenters,
	})
	if err != nil { // what was handed over meanwhile is the call's: others have been told that it was released
		if h = a.inherit(ctx, (*wait.Place).Refuse); h != nil {
			err = nil
		}
	}
	return h, err
}

// takePlace is where the call waits.
func (a *acquisition) takePlace() *wait.Place {
	l := a.lock
	if a.Place == nil {
		a.Stay(a.join())
	}
	switch {
	case l.apart != nil:
		l.apart.Wait(a.Place, a.Wire, a.hears)
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
	case l.apart != nil:
		p = lines.Apart(l.Line())
	case l.lined:
		p = lines.JoinStanding(l.Line(), l.standing)
	default:
		p = lines.Join(l.Line(), l.Backoff == nil, a.stand)
	}
	if l.HandsOver {
		p.Accept(l)
	}
	if !a.alone { // else nobody else can hold it
		a.claim.await(p)
	}
	return p
}

// leavePlace leaves the place to the next in line, after the call was granted h or nothing.
func (a *acquisition) leavePlace(h *Single) {
	if a.Place == nil {
		return
	}
	if h == nil && a.hold == nil && a.lock.lined && a.Place.Followed() { // nor was one granted that unwind releases
		a.bequeath()
	}
	taken := time.Duration(0)
	handed, _ := a.Place.Refuse().(*Single)
	switch l := a.lock; {
	case h == nil && handed != nil:
		taken = l.Length() // until it is released
		defer handed.forgo()
	case h == nil:
	case handed != nil: // the server has granted h, so it did not have that any more
		defer handed.grant.lose(a.answer.sent)
		taken = l.Length()
	default:
		taken = l.atMost(l.Length(), 1)
	}
	if !a.alone {
		a.claim.forgo(a.Place)
	}
	a.LeaveTo(taken)
}

// attempt tries once. Without a hold and without an error, it is to be tried again after a
// wake-up or after retry: the lock is taken, or something failed that may pass.
func (a *acquisition) attempt(ctx context.Context) (h *Single, retry time.Duration, err error) {
	if h = a.inherit(ctx, (*wait.Place).Take); h != nil {
		return h, 0, nil
	}
	a.succeed()
	if h = a.granted(ctx); h != nil {
		return h, 0, nil
	}
	h, inTheWay, err := a.try(ctx)
	if err == nil {
		return h, 0, nil
	}
	retry, err = a.Again(ctx, inTheWay, err, a.lock.Backoff)
	return nil, a.lock.atMost(retry, a.Attempts), err
}

// reenters reports whether the owner holds the lock by now, perhaps through another call.
func (a *acquisition) reenters() bool { return !a.alone && a.claim.holds() }
