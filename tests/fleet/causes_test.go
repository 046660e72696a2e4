package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// What has ended ctx, such as another call of an errgroup, is no answer to the call itself.
func TestTheCauseOfAContextIsNoAnswer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	short := &holdfast.NotAcknowledgedError{Err: errDone}
	never := func(context.Context) error { t.Error("it runs"); return nil }
	for name, tt := range map[string]struct {
		why  error
		call func(ctx context.Context) error
	}{
		"leader.Run": {short, func(ctx context.Context) error { return leader.Run(ctx, s, election, never) }},
		"Join": {holdfast.ErrBusy, func(ctx context.Context) error {
			return kit.ErrorOf(barrier.New(s, stages, 2, nil).Join(ctx))
		}},
		"once.Run": {holdfast.ErrBusy, func(ctx context.Context) error {
			return kit.ErrorOf(once.New(s, report, time.Hour, nil).Run(ctx, never))
		}},
		"Every": {holdfast.ErrLost, func(ctx context.Context) error {
			return once.Every(ctx, s, report, time.Hour, never)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(tt.why)
			ended := make(chan error, 1)
			go func() { ended <- tt.call(ctx) }()
			err := kit.Within(t, kit.LongestWait, ended, "the end")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, tt.why)
		})
	}
}
