package session

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// Pause sleeps for d, or returns why ctx ended first.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tries are the tries of something that may fail for a while. (It is no iterator, because that would allocate.)
type Tries struct{ delay time.Duration }

// Next reports whether there is another try: at once the first time, and then after a delay, unless ctx ends.
func (t *Tries) Next(ctx context.Context) bool {
	if t.delay > 0 && Pause(ctx, t.delay) != nil {
		return false
	}
	t.delay = wait.Retry(t.delay)
	return true
}

// Once attempts something about a key within limit, again only while the reply is lost.
func (s *Session) Once(
	ctx context.Context, key string, limit time.Duration, attempt func(ctx context.Context) error,
) error {
	end, within := time.Now().Add(limit), ctx
	if outlasts(ctx, end) {
		late := script.EndsLate(ctx, end)
		defer late.Stop()
		within = late
	}
	for delay := wait.Retry(0); ; delay = wait.Retry(delay) {
		if limit < s.NotAfter() || s.Runner().Silent(key) {
			script.Limited(within)
		}
		err := attempt(within)
		switch {
		case errors.Is(err, ErrNoReply): // nor is it looked at whether it was sent, behind others of its owner
			return &script.Failure{Class: script.Unknown, Err: ErrNoReply}
		case script.ClassOf(err) != script.Unknown || !script.IsTemporary(err):
			return err
		case !time.Now().Add(delay).Before(end) || Pause(within, delay) != nil:
			return err
		}
	}
}

// outlasts reports whether ctx may last longer than until then.
func outlasts(ctx context.Context, end time.Time) bool {
	earlier, ok := ctx.Deadline()
	return !ok || earlier.After(end)
}
