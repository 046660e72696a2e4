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
	trouble  error         // of the last attempt, other than that somebody else has it
	delay    time.Duration // after it
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
		p.object.session.config.Logger.Info("holdfast: waiting for the server", "kind", p.object.title(), "name", p.object.Name, "error", why)
		return wait.Interval(p.delay), nil
	}
	return 0, why
}

// outwaited is the error of a call whose time to wait is over while its ctx has not ended: no
// end of a context of ours may be taken for it.
func (p *patience) outwaited(err error) error {
	f, ok := err.(*script.Failure) //nolint:errorlint // as in explain
	switch {
	case !ok || !errors.Is(f, errWaited) && !errors.Is(f, context.DeadlineExceeded):
		return err
	case f.Class == script.Unknown: // cut off under way
		return &script.Failure{Class: script.Unknown, Err: errWaited}
	}
	return cmp.Or(p.trouble, ErrBusy) // not even sent
}

// interrupted is why a wait ended, with what the last attempt failed of.
func (p *patience) interrupted(ctx context.Context, why error) error {
	switch {
	case errors.Is(why, wait.ErrClosed):
		return ErrClosed
	case errors.Is(why, errWaited):
		return cmp.Or(p.trouble, ErrBusy)
	case p.trouble == nil:
		return stopped(ctx)
	case script.ClassOf(p.trouble) == script.Unknown:
		return fmt.Errorf("%w; last attempt: %w", stopped(ctx), unknown(p.trouble))
	}
	return fmt.Errorf("%w; last attempt: %w", stopped(ctx), p.trouble)
}
