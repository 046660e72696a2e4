package several

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// A closer is an observer that closes its session when it is told that a hold of some name has ended.
type closer struct {
	name    string
	session atomic.Pointer[holdfast.Session]
	closed  chan error
}

// open opens a session that is closed so.
func (c *closer) open(t *testing.T, addr string) *holdfast.Session {
	c.closed = make(chan error, 10)
	s := kit.Open(t, addr, &holdfast.Options{Lease: 6 * time.Second, Observer: &holdfast.Observer{
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			return func(holdfast.Ended) {
				if of.Name == c.name {
					c.closed <- c.session.Load().Close()
				}
			}
		},
	}})
	c.session.Store(s)
	return s
}

// requireClosed requires that the session was closed without a wait for the goroutine that has closed it.
func (c *closer) requireClosed(t *testing.T) {
	t.Helper()
	require.NoError(t, kit.Within(t, kit.LongestWait, c.closed, "Close"))
}

// An observer may close the session when it is told of a hold that is given back because others were lost.
func TestAnObserverOfALostMultiLockMayClose(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(s *holdfast.Session) holdfast.Locker{
		"together":   func(s *holdfast.Session) holdfast.Locker { return rlock.New(s, "a", nil) },
		"one by one": func(s *holdfast.Session) holdfast.Locker { return fairlock.New(s, "a", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := kit.StartServers(t, 1)[0]
			c := closer{name: "a"}
			s := c.open(t, srv.Addr())
			h := kit.Lock(t, t.Context(), multilock.New(first(s), rlock.New(s, "b", nil)))
			srv.Do(t, "DEL", "b")
			c.requireClosed(t)
			require.ErrorIs(t, h.Err(), holdfast.ErrLost)
			kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
		})
	}
}

// It may do so when a server has granted a RedLock that was released meanwhile.
func TestAnObserverOfALateMemberMayClose(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	c := closer{name: kit.Orders}
	sessions := f.Near(nil)
	sessions[2] = c.open(t, f.Proxies[2].Addr())
	refused := f.Proxies[2].On(acquires, proxy.Answer("-LOADING for a moment"), proxy.First)
	h := kit.Lock(t, t.Context(), kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient))
	refused.Wait(t, 1)
	granted := f.Proxies[2].On(acquires, proxy.HoldReply, proxy.First)
	granted.Wait(t, 1)
	require.NoError(t, h.Release())
	granted.Release()
	c.requireClosed(t)
	f.Empty()
}
