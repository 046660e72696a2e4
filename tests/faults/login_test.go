package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// openAgain opens a session whose connection logs in again, as user, when begin is closed, or finds no credentials. So
// do all later connections, if that stays.
func openAgain(
	t *testing.T, addr, user string, none error, stays bool,
) (s *holdfast.Session, begin chan struct{}) {
	begin = make(chan struct{})
	var asked atomic.Int32
	return kit.OpenWith(t, rueidis.ClientOption{
		InitAddress:      []string{addr},
		ConnWriteTimeout: time.Second,
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (c rueidis.AuthCredentials, err error) {
			c.Username, c.Password = "default", "any"
			switch n := asked.Add(1); {
			case n == 1:
				c.RefreshAfter = time.Now()
			case n == 2 || stays:
				<-begin
				c.Username, err = user, none
			}
			return c, err
		},
	}, &holdfast.Options{}), begin
}

// When a connection cannot log in again, the client gives the error to all calls that are under way. They have been
// sent all the same.
func TestACallUnderWayIsInDoubtWhenItsConnectionCannotLogInAgain(t *testing.T) {
	t.Parallel()
	type login struct {
		user     string
		none     error // instead of credentials
		answered bool
	}
	type call struct {
		script       string
		do           func(ctx context.Context, s *holdfast.Session) error
		begun, after string // what the server has
	}
	for name, again := range map[string]login{
		"no credentials in time": {none: fmt.Errorf("the token service: %w", context.DeadlineExceeded)},
		"no token service": { // the error of a dial, though of none to the server
			none: fmt.Errorf("the token service: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}),
		},
		"refused":   {user: "nobody", answered: true},
		"no answer": {user: "default"},
	} {
		for _, c := range []call{
			{"latch_count_down", func(ctx context.Context, s *holdfast.Session) error {
				return latch.New(s, "gate").CountDown(ctx)
			}, "9 0", "9 0"}, // not executed twice
			{"rlock_acquire", func(ctx context.Context, s *holdfast.Session) error {
				h, err := rlock.New(s, "orders", nil).TryLock(ctx)
				if err == nil { // it has asked again
					err = h.Release()
				}
				return err
			}, "10 1", "10 0"}, // given back, once
		} {
			t.Run(name+", "+c.script, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				kit.LoadScripts(t, srv)
				has := func() string {
					return fmt.Sprintf("%s %d", srv.Str(t, "GET", "gate"), srv.Int(t, "EXISTS", "orders"))
				}
				p := proxy.Start(t, srv.Addr())
				s, begin := openAgain(t, p.Addr(), again.user, again.none, false)
				_, err := latch.New(s, "gate").TrySetCount(t.Context(), 10)
				require.NoError(t, err)
				require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "orders", nil)).Release()) // it knows the clock
				auth := p.On(proxy.Command("AUTH"), proxy.HoldReply, proxy.First)
				p.On(kit.ScriptNamed(c.script), proxy.HoldReply, proxy.First)
				if again.none == nil { // then the login comes first
					close(begin)
					auth.WaitMatched(t, 1)
				}
				called := make(chan error, 1)
				go func() { called <- c.do(t.Context(), s) }()
				kit.Await(t, "the call", func() bool { return has() == c.begun })
				switch {
				case again.none != nil:
					close(begin)
				case again.answered:
					auth.Release()
				}
				err = kit.Within(t, 20*time.Second, called, "the call")
				if err != nil {
					require.ErrorIs(t, err, holdfast.ErrUnknown)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				}
				kit.AwaitFor(t, 20*time.Second, "the end of the call", func() bool { return has() == c.after })
			})
		}
	}
}

// A session that cannot log in any more says why, and Close ends all the same.
func TestASessionThatCannotLogInAgainSaysWhy(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	s, begin := openAgain(t, p.Addr(), "nobody", nil, true)
	l := rlock.New(s, "orders", nil)
	h := kit.Lock(t, t.Context(), l)
	auth := p.On(proxy.Command("AUTH"), proxy.Pass, proxy.First)
	close(begin)
	auth.WaitAnswered(t, 1)
	kit.Await(t, "the client to read the answer", func() bool {
		return !errors.Is(kit.ErrorOf(l.TryLock(t.Context())), holdfast.ErrBusy) // the old connection is still there
	})
	for range 3 {
		require.ErrorContains(t, kit.ErrorOf(l.TryLock(t.Context())), "WRONGPASS")
	}
	require.ErrorContains(t, s.Close(), "WRONGPASS")
	require.Error(t, h.Release())
}

// A caller may leave while the client asks for the credentials of a new connection.
func TestACallerLeavesBeforeTheGreeting(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	var slow atomic.Bool
	s := kit.OpenWith(t, rueidis.ClientOption{
		InitAddress: []string{p.Addr()},
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (c rueidis.AuthCredentials, _ error) {
			if slow.Load() {
				time.Sleep(50 * time.Millisecond)
			}
			return c, nil
		},
	}, &holdfast.Options{Lease: time.Minute})
	l := rlock.New(s, "orders", nil)
	for range 20 {
		slow.Store(false)
		kit.Await(t, "an answer", func() bool { return kit.ErrorOf(l.Locked(t.Context())) == nil })
		slow.Store(true)
		p.CutAll()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, _ = l.Locked(ctx) // unknown, or answered where the cut is not noticed yet
			cancel()
		}
		time.Sleep(100 * time.Millisecond) // the client goes on
	}
}
