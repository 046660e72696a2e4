package session

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// The delays between tries of what failed.
const (
	FirstRetry = wait.FirstRetry
	LastRetry  = wait.LastRetry
	RareRetry  = time.Minute // of what is refused, but perhaps not for ever
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

// Once attempts something about a key within limit, again only while the reply is lost.
func (s *Session) Once(
	ctx context.Context, key string, limit time.Duration, attempt func(ctx context.Context) error,
) error {
	end, within := time.Now().Add(limit), ctx
	for delay := FirstRetry; ; delay = min(2*delay, LastRetry) {
		// A connection that falls silent now ends by itself within a third of the session's lease; and a
		// context would be more than all else that an attempt allocates.
		if within == ctx && (limit < lease.NotAfter(s.Lease()) || s.Runner().Silent(key)) {
			bounded, stop := until(ctx, end)
			defer stop()
			within = bounded //nolint:fatcontext // once
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

// until is ctx, or one that ends then, if ctx may last longer.
func until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if earlier, ok := ctx.Deadline(); ok && !earlier.After(end) {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end, ErrNoReply)
}
