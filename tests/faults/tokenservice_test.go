package faults

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The token service is down when a connection is to log in again: its error is that of a dial, though of none to the
// server.
func TestACallUnderWayIsInDoubtWhenTheTokenServiceIsDown(t *testing.T) {
	t.Parallel()
	down := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		script       string
		do           func(ctx context.Context, s *holdfast.Session) error
		begun, after string
	}{
		{"latch_count_down", func(ctx context.Context, s *holdfast.Session) error {
			return latch.New(s, "gate").CountDown(ctx)
		}, "9 0", "9 0"},
		{"rlock_acquire", func(ctx context.Context, s *holdfast.Session) error {
			h, err := rlock.New(s, "orders", nil).TryLock(ctx)
			if err == nil {
				err = h.Release()
			}
			return err
		}, "10 1", "10 0"},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			kit.LoadScripts(t, srv)
			has := func() string {
				return fmt.Sprintf("%s %d", srv.Str(t, "GET", "gate"), srv.Int(t, "EXISTS", "orders"))
			}
			p := proxy.Start(t, srv.Addr())
			s, begin := openAgain(t, p.Addr(), "default", fmt.Errorf("the token service: %w", down), false)
			_, err := latch.New(s, "gate").TrySetCount(t.Context(), 10)
			require.NoError(t, err)
			require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "orders", nil)).Release())
			p.On(kit.ScriptNamed(c.script), proxy.HoldReply, proxy.First)
			called := make(chan error, 1)
			go func() { called <- c.do(t.Context(), s) }()
			kit.Await(t, "the call", func() bool { return has() == c.begun })
			close(begin)
			err = kit.Within(t, 20*time.Second, called, "the call")
			if err != nil {
				require.ErrorIs(t, err, holdfast.ErrUnknown)
			}
			require.Equal(t, c.after, has(), "executed twice")
		})
	}
}
