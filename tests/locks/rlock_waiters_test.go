package locks

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A standing is a lock for which sessions wait.
type standing struct {
	t   *testing.T
	srv *redistest.Server
	l   *rlock.Mutex // of a session that does not wait
}

// eachStanding runs a test on Redis and on the embedded server, with a plain and a fenced lock.
func eachStanding(t *testing.T, test func(s *standing, opts *rlock.Options)) {
	t.Parallel()
	for server, start := range kit.EitherServer {
		for kind, opts := range map[string]*rlock.Options{"plain": nil, "fenced": {Fenced: true}} {
			t.Run(server+"/"+kind, func(t *testing.T) {
				t.Parallel()
				srv := start(t)
				s := &standing{t: t, srv: srv}
				s.l = rlock.New(s.another(), "orders", opts)
				test(s, opts)
			})
		}
	}
}

// waiters are those that are listed when they are so many.
func (s *standing) waiters(n int) (all []holdfast.Waiter) {
	s.t.Helper()
	kit.Await(s.t, "waiters in line", func() bool {
		var err error
		all, err = s.l.Waiters(s.t.Context())
		require.NoError(s.t, err)
		return len(all) == n
	})
	return all
}

// another is a session that is known to the server.
func (s *standing) another() *holdfast.Session { return kit.OpenKnown(s.t, at(s.srv.Addr()), nil) }

// Sessions are listed in the order in which they get the lock, each with the owner under which it does.
func TestTheLineOfALock(t *testing.T) {
	eachStanding(t, func(s *standing, opts *rlock.Options) {
		t := s.t
		holder := kit.Lock(t, t.Context(), s.l)
		s.waiters(0)
		ctx, stop := context.WithCancel(t.Context())
		var waits, others []<-chan kit.Result
		for i := range 3 {
			l := rlock.New(s.another(), "orders", opts)
			waits = append(waits, kit.GoLock(t.Context(), l.Lock))
			s.waiters(i + 1)
			others = append(others, kit.GoLock(ctx, l.Lock)) // has no place of its own
		}
		all := s.waiters(3)
		kit.Await(t, "known processes", func() bool {
			all = s.waiters(3)
			return !slices.ContainsFunc(all, func(w holdfast.Waiter) bool { return w.PID == 0 })
		})
		for _, w := range all {
			assert.Equal(t, os.Getpid(), w.PID)
			assert.InDelta(t, 12*time.Second, w.Alive, float64(5*time.Second))
		}
		stop()
		for _, other := range others {
			require.ErrorIs(t, (<-other).Err, context.Canceled)
		}
		for i, wait := range waits {
			require.NoError(t, holder.Release())
			holder = kit.Granted(t, 5*time.Second, wait, "the next one")
			require.Equal(t, all[i].ID, holder.ID())
			for j, left := range s.waiters(2 - i) {
				require.Equal(t, all[i+1+j].ID, left.ID)
			}
		}
	})
}

// Whoever gives up is no longer listed.
func TestAWaiterThatLeavesTheLine(t *testing.T) {
	eachStanding(t, func(s *standing, opts *rlock.Options) {
		t := s.t
		holder := kit.Lock(t, t.Context(), s.l)
		ctx, stop := context.WithCancel(t.Context())
		waits := kit.GoLock(ctx, rlock.New(s.another(), "orders", opts).Lock)
		s.waiters(1)
		stop()
		require.ErrorIs(t, (<-waits).Err, context.Canceled)
		s.waiters(0)
		require.NoError(t, holder.Release())
	})
}

// Callers that poll, and callers that take several locks with one command, do not stand in the line.
func TestWaitersThatAreNotInTheLine(t *testing.T) {
	eachStanding(t, func(s *standing, opts *rlock.Options) {
		t := s.t
		holder := kit.Lock(t, t.Context(), s.l)
		a, b := s.another(), s.another()
		polling := rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 10*time.Millisecond)}
		waits := []<-chan kit.Result{
			kit.GoLock(t.Context(), rlock.New(a, "orders", &polling).Lock),
			kit.GoLock(t.Context(), multilock.New(rlock.New(b, "orders", nil), rlock.New(b, "others", nil)).Lock),
		}
		kit.Await(t, "both have waited for a while", func() bool {
			return s.srv.Int(t, "EXISTS", sessionKey(a), sessionKey(b)) == 2
		})
		all, err := s.l.Waiters(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
		require.NoError(t, holder.Release())
		for range waits {
			select {
			case r := <-waits[0]:
				require.NoError(t, r.Hold.Release())
			case r := <-waits[1]:
				require.NoError(t, r.Hold.Release())
			case <-time.After(10 * time.Second):
				require.Fail(t, "a waiter is left")
			}
		}
	})
}
