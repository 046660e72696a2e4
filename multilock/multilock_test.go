package multilock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
)

// A taken lock is somebody else's for ever. A call for it calls leave, after the time that it is to wait for if that is
// less than an hour.
type taken struct {
	holdfast.Locker
	leave func()
}

func (taken) Name() string { return "taken" }

func (l taken) Lock(context.Context) (*holdfast.Hold, error) {
	l.leave()
	return nil, holdfast.ErrBusy
}

func (l taken) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	if wait < time.Hour {
		time.Sleep(wait + time.Second)
	}
	return l.Lock(ctx)
}

// If a round fails and the call is over by then, its error says what ended first: ctx, or the time to wait.
func TestTheErrorSaysWhetherCtxEndedFirst(t *testing.T) {
	t.Parallel()
	why := errors.New("closing time")
	for name, c := range map[string]struct {
		wait time.Duration // 0: without end
		ctx  bool          // ended first
	}{
		"a call without end":   {ctx: true},
		"ctx ends before it":   {wait: 2 * time.Hour, ctx: true},
		"its time ends before": {wait: time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			m := multilock.New(taken{leave: func() { cancel(why) }})
			take := m.Lock
			if c.wait > 0 {
				take = func(ctx context.Context) (*holdfast.Hold, error) { return m.TryLockFor(ctx, c.wait) }
			}
			_, err := take(ctx)
			if c.ctx {
				require.ErrorIs(t, err, context.Canceled, name)
				require.ErrorIs(t, err, why, name)
				require.NotErrorIs(t, err, holdfast.ErrBusy, name)
			} else {
				require.ErrorIs(t, err, holdfast.ErrBusy, name)
				require.NotErrorIs(t, err, context.Canceled, name)
			}
		})
	}
}
