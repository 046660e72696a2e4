package locks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// What a session frees by force, after the call by which it gets it was executed and before that is answered, is lost,
// also if nobody renews it.
func TestWhatIsFreedByForceWhileItIsGrantedIsLost(t *testing.T) {
	t.Parallel()
	const fixed = time.Hour
	type calls struct {
		take, free func(context.Context) error
		err        func() error // of the hold
	}
	for name, get := range map[string]struct {
		by, force string
		lock      func(s *holdfast.Session) calls
	}{
		"adopted": {"setlock_renew", "setlock_force", func(s *holdfast.Session) calls {
			l, h := setlock.New(s, "x", &setlock.Options{FixedLease: fixed}), (*holdfast.Hold)(nil)
			return calls{
				func(ctx context.Context) (err error) { h, err = l.Adopt(ctx, "theirs"); return err },
				func(ctx context.Context) error { return kit.ErrorOf(l.ForceUnlock(ctx)) },
				func() error { return h.Err() },
			}
		}},
		"locked": {"rlock_acquire", "rlock_force", func(s *holdfast.Session) calls {
			l, h := rlock.New(s, "x", &rlock.Options{FixedLease: fixed}), (*holdfast.Hold)(nil)
			return calls{
				func(ctx context.Context) (err error) { h, err = l.TryLock(ctx); return err },
				func(ctx context.Context) error { return kit.ErrorOf(l.ForceUnlock(ctx)) },
				func() error { return h.Err() },
			}
		}},
		"together": {"rlock_acquire_all", "rlock_force", func(s *holdfast.Session) calls {
			opts, h := &rlock.Options{FixedLease: fixed}, (*holdfast.Hold)(nil)
			l := rlock.New(s, "x", opts)
			return calls{
				func(ctx context.Context) (err error) {
					h, err = multilock.New(l, rlock.New(s, "y", opts)).TryLock(ctx)
					return err
				},
				func(ctx context.Context) error { return kit.ErrorOf(l.ForceUnlock(ctx)) },
				func() error { return h.Err() },
			}
		}},
		"permit": {"semaphore_acquire_expirable", "semaphore_delete", func(s *holdfast.Session) calls {
			e, h := semaphore.NewExpirable(s, "x", &semaphore.ExpirableOptions{FixedLease: fixed}), (*holdfast.Hold)(nil)
			return calls{
				func(ctx context.Context) (err error) { h, err = e.TryAcquire(ctx); return err },
				func(ctx context.Context) error { return kit.ErrorOf(e.Delete(ctx)) },
				func() error { return h.Err() },
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			s := kit.Open(t, p.Addr(), nil)
			require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "warm", nil)).Release()) // it knows the server's clock
			tries := kit.Stressed(20, 60)                                                     // the two answers race
			for range tries {
				switch name {
				case "adopted":
					srv.Do(t, "SET", "x", "theirs", "PX", "60000")
				case "permit":
					srv.Do(t, "SET", "x", "1")
				}
				c := get.lock(s)
				answer := p.On(kit.ScriptNamed(get.by), proxy.HoldReply, proxy.First)
				taken, freed := make(chan error, 1), make(chan error, 1)
				go func() { taken <- c.take(t.Context()) }()
				answer.Wait(t, 1)
				force := p.On(kit.ScriptNamed(get.force), proxy.Pass, proxy.First)
				go func() { freed <- c.free(t.Context()) }()
				force.Wait(t, 1)
				answer.Release()
				require.NoError(t, kit.Within(t, kit.LongestWait, taken, "the call"))
				require.NoError(t, kit.Within(t, kit.LongestWait, freed, "the force"))
				kit.AwaitSoon(t, 3*time.Second, "the loss", func() bool { return errors.Is(c.err(), holdfast.ErrLost) })
				srv.Do(t, "DEL", "y") // of the other lock, which is given back in the background
				answer.Remove()
				force.Remove()
			}
		})
	}
}

// Nor does a session trust what it may have freed by force, when nobody told it.
func TestAForceWithoutAReplyIsNoticed(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{
		"answered late": proxy.HoldReply, "executed late": proxy.Delay(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			l := rlock.New(kit.Open(t, p.Addr(), nil), "x", &rlock.Options{FixedLease: 9 * time.Second})
			require.NoError(t, kit.Lock(t, t.Context(), l).Release())
			h := kit.Lock(t, t.Context(), l)
			answer := p.On(kit.ScriptNamed("rlock_force"), action, proxy.First)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := l.ForceUnlock(ctx)
			require.ErrorIs(t, err, holdfast.ErrUnknown)
			answer.Release()
			next := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
			kit.AwaitSoon(t, 4*time.Second, "the loss", func() bool { return errors.Is(h.Err(), holdfast.ErrLost) })
			require.NoError(t, next.Release())
		})
	}
}
