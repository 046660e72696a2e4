package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// grace is how much longer than its waiting time an attempt may take that is under way when the
// time is over: cut off, its outcome would be unknown.
const grace = 100 * time.Millisecond

var errWaited = errors.New("waited long enough")

// patience is what a call that waits knows of its attempts.
type patience struct {
	object   *Object
	attempts int
	trouble  error                         // of the last attempt, other than that somebody else has it
	delay    time.Duration                 // after it
	doubt    error                         // of the last attempt whose outcome is not known, if it may still matter
	asked    int                           // attempts, those that succeeded or were the last included
	done     func(attempts int, err error) // what the observer wants to know of the call; nil: nothing
}

// about says what the call is about, to the observer, too.
func (p *patience) about(ctx context.Context, o *Object) {
	p.object, p.done = o, o.acquiring(ctx)
}

// tell tells the observer how the call ended.
func (p *patience) tell(err error) {
	if p.done != nil {
		p.done(p.asked, err)
	}
}

// learn takes in how an attempt ended.
func (p *patience) learn(err error) {
	switch {
	case script.ClassOf(err) == script.Unknown:
		p.doubt = err
	case errors.Is(err, ErrBusy):
		p.doubt = nil // somebody else has it
	}
}

// explain is a failure of the call under ctx as the user gets it: one that says nothing of an earlier
// attempt, whose outcome is not known, must not hide it.
func (p *patience) explain(ctx context.Context, err error) error {
	_, failed := err.(*script.Failure) //nolint:errorlint // as in explain
	if err = explain(ctx, err); p.doubt == nil || !failed || errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w; an earlier attempt: %w", err, unknown(p.doubt))
}

// WaitEnd is the moment when a call is over that waits for at most d from now; none if ctx ends first, or then.
func WaitEnd(ctx context.Context, d time.Duration) time.Time {
	end := time.Now().Add(d)
	if earlier, ok := ctx.Deadline(); ok && !earlier.After(end) {
		return time.Time{}
	}
	return end
}

// waitUntil returns the contexts of a call that waits until end at the latest, if there is one: of its
// attempts, which end a little later, and of its sleep.
func waitUntil(ctx context.Context, end time.Time) (attempt, sleep context.Context, stop func()) {
	if end.IsZero() {
		return ctx, ctx, func() {}
	}
	sleep, stopSleep := context.WithDeadlineCause(ctx, end, errWaited)
	attempt, stopAttempt := context.WithDeadlineCause(ctx, end.Add(grace), errWaited)
	return attempt, sleep, func() {
		stopSleep()
		stopAttempt()
	}
}

// again decides after which time an attempt that failed is worth another; or it is not.
func (p *patience) again(ctx context.Context, inTheWay time.Duration, why error, backoff func(attempt int) time.Duration) (time.Duration, error) {
	p.attempts++
	switch {
	case errors.Is(why, ErrBusy):
		p.trouble, p.delay = nil, 0
		if backoff != nil {
			return max(backoff(p.attempts), time.Millisecond), nil
		}
		return wait.Interval(inTheWay), nil
	case script.IsTemporary(why) && ctx.Err() == nil:
		p.trouble = why
		p.delay = min(max(2*p.delay, firstRetry), lastRetry)
		p.object.logTrouble(why)
		return wait.Interval(p.delay), nil
	}
	return 0, why
}

// outwaited is the error of a call that was to wait until end, if there is such a moment. If it has come and
// ctx has not ended, no end of a context of ours may be taken for one of ctx.
func (p *patience) outwaited(ctx context.Context, end time.Time, err error) error {
	if err == nil || end.IsZero() || ctx.Err() != nil || time.Now().Before(end) { // timers may be late
		return err
	}
	f, ok := err.(*script.Failure) //nolint:errorlint // as in explain
	switch {
	case !ok || !errors.Is(f, errWaited) && !errors.Is(f, context.DeadlineExceeded):
		return err
	case f.Class == script.Unknown: // cut off under way, and nothing is known of the server
		return &script.Failure{Class: script.Unknown, Temporary: true, Err: errWaited}
	}
	return cmp.Or(p.trouble, ErrBusy) // not even sent
}

// interrupted is why a wait ended, with what the last attempt failed of.
func (p *patience) interrupted(sleep context.Context, why error) error {
	switch {
	case errors.Is(why, wait.ErrClosed):
		return ErrClosed
	case errors.Is(why, errWaited):
		return cmp.Or(p.trouble, ErrBusy)
	case p.trouble == nil:
		return stopped(sleep)
	case script.ClassOf(p.trouble) == script.Unknown:
		return fmt.Errorf("%w; last attempt: %w", stopped(sleep), unknown(p.trouble))
	}
	return fmt.Errorf("%w; last attempt: %w", stopped(sleep), p.trouble)
}
