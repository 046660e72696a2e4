package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// Grace is how much longer than its waiting time an attempt may take that is under way when the
// time is over: cut off, its outcome would be unknown.
const Grace = 100 * time.Millisecond

var errWaited = errors.New("waited long enough")

// Retries are a waiting call's knowledge of its attempts.
type Retries struct {
	object   *Object
	failed   *failures        // nil while every attempt has found that somebody else has it
	Attempts int32            // those that were worth another
	Asked    int32            // attempts, those that succeeded or were the last included
	Handed   bool             // another call of the session handed over what this one wants
	Granted  bool             // a release of another session did
	looked   bool             // whether the name is that of another kind
	early    bool             // the call takes its place before its first attempt
	done     func(Acquired)   // the observer's functions for the call; may be nil
	Place    *wait.Place      // where the call waits; nil until it does
	waited   func()           // tells the observer that the call waits no longer
	nested   *presence.Nested // nil: its owner has nothing besides
}

// failures are a call's knowledge of attempts without any answer, not even that somebody else has the lock.
type failures struct {
	trouble error         // of the last attempt
	delay   time.Duration // after it
	doubt   error         // of the last attempt whose outcome is not known, if it may still matter
}

// failures are the failures so far.
func (r *Retries) failures() *failures {
	if r.failed == nil {
		return new(failures)
	}
	return r.failed
}

// RetriesOf returns the retries of a call about o that the observer does not see.
func RetriesOf(o *Object) Retries { return Retries{object: o} }

// About says what the call is about, also to the observer.
func (r *Retries) About(ctx context.Context, o *Object) {
	r.object, r.done = o, o.Acquiring(ctx)
}

// Tell tells the observer how the call ended.
func (r *Retries) Tell(err error) {
	if r.done != nil {
		r.done(Acquired{Attempts: int(r.Asked), HandedOver: r.Handed, Granted: r.Granted, Err: err})
	}
}

// Learn records how an attempt ended.
func (r *Retries) Learn(err error) {
	switch {
	case script.ClassOf(err) == script.Unknown:
		r.failed = r.failures()
		r.failed.doubt = err
	case errors.Is(err, ErrBusy):
		r.failed = nil
	}
}

// Explain is a failure of the call under ctx as the user gets it: one that says nothing of an earlier attempt, whose
// outcome is not known or which failed, must not hide it.
func (r *Retries) Explain(ctx context.Context, err error) error {
	_, failed := err.(*script.Failure) //nolint:errorlint // as in Explain
	err = Explain(ctx, err)
	switch f := r.failures(); {
	case !failed:
		return err
	case f.doubt != nil && !errors.Is(err, ErrUnknown):
		return fmt.Errorf("%w; an earlier attempt: %w", err, Unknown(f.doubt))
	case f.trouble != nil && script.ClassOf(f.trouble) != script.Unknown && ctx.Err() != nil:
		return fmt.Errorf("%w; an earlier attempt: %w", err, f.trouble)
	}
	return err
}

// Forever is the limit of a call that waits until its ctx ends. One whose limit is zero or less makes one attempt.
const Forever = time.Duration(math.MaxInt64)

// Over is when a call is over at the latest that begins now and waits for at most limit, unless its ctx ends before.
func (s *Session) Over(limit time.Duration) time.Duration {
	if limit <= 0 || limit == Forever {
		return Forever
	}
	return lease.Add(lease.Add(s.Now(), Grace), limit)
}

// A Patient is a call that makes one attempt, or waits.
type Patient interface {
	Once(ctx context.Context) error
	Wait(attempt, sleep context.Context) error
}

// WaitFor makes one attempt, or waits for at most limit, which ends the sleep; attempts end a little later.
func (r *Retries) WaitFor(ctx context.Context, limit time.Duration, p Patient) error {
	if limit == Forever { // with little on the stack, as most calls wait like this
		return p.Wait(ctx, ctx)
	}
	return r.waitFor(ctx, limit, p)
}

func (r *Retries) waitFor(ctx context.Context, limit time.Duration, p Patient) error {
	if limit <= 0 {
		return p.Once(ctx)
	}
	end := time.Now().Add(limit)
	if !outlasts(ctx, end) {
		return p.Wait(ctx, ctx)
	}
	sleep, stopSleep := context.WithDeadlineCause(ctx, end, errWaited)
	defer stopSleep()
	attempt, endAttempt := context.WithCancelCause(ctx)
	defer endAttempt(nil)
	// The grace begins when this process notices that the time is over: if it stood still, the reply may be there
	// already.
	noticed := time.AfterFunc(time.Until(end), func() {
		time.AfterFunc(Grace, func() { endAttempt(errWaited) })
	})
	defer noticed.Stop()
	return r.outwaited(ctx, end, p.Wait(attempt, sleep))
}

// Again decides after which time an attempt that failed is worth another; or it is not.
func (r *Retries) Again(
	ctx context.Context, inTheWay time.Duration, why error, backoff func(attempt int) time.Duration,
) (time.Duration, error) {
	r.Attempts++
	switch {
	case errors.Is(why, ErrBusy):
		r.failed = nil
		if r.Place.Long() && !r.looked { // a call that waits for a moment need not ask
			r.looked = true
			if other := r.object.overtaken(ctx); other != nil {
				return 0, other
			}
		}
		r.waits()
		if backoff != nil {
			return max(backoff(int(r.Attempts)), time.Millisecond), nil
		}
		return wait.Interval(inTheWay), nil
	case script.IsTemporary(why) && ctx.Err() == nil:
		f := r.failures()
		f.trouble, f.delay = why, wait.Retry(f.delay)
		r.failed = f
		r.object.logTrouble(why)
		r.waits()
		return wait.Interval(f.delay), nil
	}
	return 0, why
}

// outwaited is the error of a call that was to wait until end. If that has come and ctx has not ended, no end of a
// context of ours may be taken for one of ctx.
func (r *Retries) outwaited(ctx context.Context, end time.Time, err error) error {
	if err == nil || ctx.Err() != nil || time.Now().Before(end) { // timers may be late
		return err
	}
	f, ok := err.(*script.Failure) //nolint:errorlint // as in Explain
	switch {
	case !ok || !errors.Is(f, errWaited) && !errors.Is(f, context.DeadlineExceeded):
		return err
	case f.Class == script.Unknown: // cut off under way, and nothing is known of the server
		return &script.Failure{Class: script.Unknown, Temporary: true, Err: ErrNoReply}
	}
	if r.Asked == 1 && script.Unplaced(f) { // nobody has said that it is taken
		return &script.Failure{Class: script.Refused, Temporary: true, Err: ErrNoReply}
	}
	return cmp.Or(r.failures().trouble, ErrBusy) // not even sent
}

// Interrupted returns why a wait ended, with the failure of the last attempt.
func (r *Retries) Interrupted(sleep context.Context, why error) error {
	switch trouble := r.failures().trouble; {
	case errors.Is(why, wait.ErrClosed):
		return ErrClosed
	case errors.Is(why, errWaited):
		return cmp.Or(trouble, ErrBusy)
	case trouble == nil:
		return Stopped(sleep)
	case script.ClassOf(trouble) == script.Unknown:
		return fmt.Errorf("%w; last attempt: %w", Stopped(sleep), Unknown(trouble))
	default:
		return fmt.Errorf("%w; last attempt: %w", Stopped(sleep), trouble)
	}
}

// Woken tells the observer why a sleep ended.
func (r *Retries) Woken(by wait.Cause) { r.object.woken(by) }

// Overtakes reports that the call waits for its turn.
func (r *Retries) Overtakes() bool { return false }

// Stay makes the call wait at a place. Leave it.
func (r *Retries) Stay(p *wait.Place) {
	r.Place = p
	if !r.early {
		r.waits()
	}
	r.object.session.lookAfter()
}

// waits tells the observer that the call waits, once for each place. One that took it early waits if the first attempt
// has failed, or if others of the session are ahead.
func (r *Retries) waits() {
	if r.Place != nil && r.waited == nil {
		r.waited = r.object.waiting()
	}
}

// Nest makes the session publish the call if it waits for long, since its owner holds something: the place is one of
// those that Stay takes.
func (r *Retries) Nest(n *presence.Nested) {
	n.Wake, r.nested = r.Place.Wake, n
	r.object.session.presence.Wait(n)
}

// Doomed is why the call is to fail: it waits for itself, and is the youngest that does.
func (r *Retries) Doomed() error {
	if c := r.nested.Cycle(); c != nil {
		return fmt.Errorf("%w: %s", ErrDeadlock, c)
	}
	return nil
}

// StandFirst takes a place before the first attempt of a call that stands in a line on the server, so that this can
// stand at once, if the session is still subscribed; nil: there is no line. It reports whether the call may look.
func (r *Retries) StandFirst(s wait.Told, c wait.Caller) (head bool) {
	if s == nil || !r.object.session.Subscribed(s.Channel()) {
		return true
	}
	r.early = true
	p := c.TakePlace()
	r.early = false
	p.Subscribe()
	if head = p.Head(); !head {
		r.waits()
	}
	return head
}

// LeaveTo leaves the place, if there is one, to the next in line, which has no reason to look as long as the call's
// grant lasts.
func (r *Retries) LeaveTo(taken time.Duration) {
	place, waited := r.Place, r.waited
	if place == nil {
		return
	}
	r.Place, r.waited = nil, nil
	r.nested.End()
	r.nested = nil
	place.Leave(taken)
	if waited != nil {
		waited()
	}
}
