package locks

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These tests are what every lock must do, whatever its kind.

func TestOneHolderAtATime(t *testing.T) {
	kit.EveryKindEverywhere(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), k.Make(a, t.Name(), 0))
		assert.NoError(t, hold.Err())
		for _, s := range []*holdfast.Session{a, b} {
			other, err := k.Rival(s, t.Name(), 0).TryLock(t.Context())
			assert.ErrorIs(t, err, holdfast.ErrBusy)
			assert.Nil(t, other)
		}
		require.NoError(t, hold.Release())
		require.NoError(t, kit.Lock(t, t.Context(), k.Rival(b, t.Name(), 0)).Release())
	})
}

func TestManyGoroutinesOfManySessionsExclude(t *testing.T) {
	kit.EveryKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		const sessions = 3
		goroutines, rounds := kit.Stressed(3, 8), kit.Stressed(4, 10)
		if k.Embedded {
			rounds = kit.Stressed(2, 3)
		}
		var inside, total atomic.Int64
		var wg sync.WaitGroup
		for range sessions {
			s := kit.Open(t, srv.Addr(), nil)
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						work := func(context.Context) error {
							assert.EqualValues(t, 1, inside.Add(1))
							total.Add(1)
							inside.Add(-1)
							return nil
						}
						if k.Other != nil {
							assert.NoError(t, holdfast.Do(t.Context(), k.Make(s, t.Name(), 0).Lock,
								func(context.Context) error {
									assert.Zero(t, inside.Load())
									return nil
								}))
						}
						assert.NoError(t, holdfast.Do(t.Context(), k.Rival(s, t.Name(), 0).Lock, work))
					}
				})
			}
		}
		wg.Wait()
		assert.EqualValues(t, sessions*goroutines*rounds, total.Load())
		// A RedLock's release need not wait for every server, and a session gives back what it was granted too late.
		kit.Await(t, "that all is given back", func() bool { return len(k.Free(srv.Keyspace(t))) == 0 })
	})
}

func TestAFixedLeaseEndsByItself(t *testing.T) {
	kit.EveryKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		// a margin that a timer on a busy machine can keep
		hold := kit.Lock(t, t.Context(), k.Make(a, t.Name(), time.Second))
		ctx := hold.Context(t.Context())
		told := make(chan time.Time, 1)
		go func() {
			<-ctx.Done()
			told <- time.Now()
		}()

		still := kit.Stillness()
		next := kit.Lock(t, t.Context(), k.Rival(b, t.Name(), 0)) // it waits for the expiry
		lost, granted := hold.Err(), time.Now()
		assert.ErrorIs(t, lost, holdfast.ErrLost)
		// If the process stood still meanwhile, the end of a context is as late as everything else.
		first := kit.Within(t, time.Second, told, "the holder's loss").Before(granted)
		assert.True(t, first || still() > 0, "the holder must learn it first")
		assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		assert.ErrorIs(t, hold.Release(), holdfast.ErrLost)
		require.NoError(t, next.Err())
		require.NoError(t, next.Release())
	})
}

func TestARenewedHoldOutlivesItsLease(t *testing.T) {
	kit.EveryKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second}), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), k.Make(a, t.Name(), 0))
		first := hold.Deadline()
		ctx, cancel := context.WithDeadline(t.Context(), first.Add(1500*time.Millisecond))
		defer cancel()
		_, err := k.Rival(b, t.Name(), 0).Lock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NoError(t, hold.Err())
		assert.True(t, hold.Deadline().After(first))
		require.NoError(t, hold.Release())
	})
}

func TestExtendNeverShortens(t *testing.T) {
	kit.EveryAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), k.Make(s, t.Name(), 30*time.Second))
		require.NoError(t, hold.Extend(t.Context(), time.Hour))
		assert.Greater(t, time.Until(hold.Deadline()), 55*time.Minute)
		assert.Greater(t, k.Expiry(t, srv, t.Name()), 55*time.Minute)

		require.NoError(t, hold.Extend(t.Context(), time.Second))
		assert.Greater(t, time.Until(hold.Deadline()), 55*time.Minute)
		assert.Greater(t, k.Expiry(t, srv, t.Name()), 55*time.Minute)

		for _, d := range []time.Duration{0, -time.Second, 9 * time.Millisecond} {
			assert.ErrorContains(t, hold.Extend(t.Context(), d), "at least 10ms")
		}
		require.NoError(t, hold.Release())
		assert.ErrorIs(t, hold.Extend(t.Context(), time.Hour), holdfast.ErrNotHeld)
	})
}

func TestDetachLeavesTheHoldToItsLease(t *testing.T) {
	kit.EveryKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), k.Make(a, t.Name(), 2*time.Second))
		ctx, until := hold.Context(t.Context()), hold.Deadline()
		require.NoError(t, hold.Detach())
		assert.ErrorIs(t, hold.Err(), holdfast.ErrNotHeld)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
		assert.ErrorIs(t, hold.Release(), holdfast.ErrNotHeld)
		assert.ErrorIs(t, hold.Detach(), holdfast.ErrNotHeld)
		require.NoError(t, a.Close())
		rival := kit.Lock(t, t.Context(), k.Rival(b, t.Name(), 0))
		assert.False(t, time.Now().Before(until), "Close leaves detached holds alone")
		require.NoError(t, rival.Release())
	})
}

func TestForceUnlockFreesAndWakes(t *testing.T) {
	kit.EveryLockAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		opts := &holdfast.Options{Lease: 2 * kit.Lease} // an embedded server stands still with this process
		a, b := kit.Open(t, srv.Addr(), opts), kit.Open(t, srv.Addr(), opts)
		was, err := k.Make(a, "free", 0).ForceUnlock(t.Context())
		require.NoError(t, err)
		assert.False(t, was)

		for name, by := range map[string]*holdfast.Session{"mine": a, "theirs": b} {
			hold := kit.Lock(t, t.Context(), k.Make(a, name, 0))
			got := kit.GoLock(t.Context(), k.Rival(b, name, 0).Lock)
			kit.WaitingFor(t, k, srv, name)
			settled()
			was, err = k.Make(by, name, 0).ForceUnlock(t.Context())
			require.NoError(t, err)
			assert.True(t, was)
			r := kit.Within(t, kit.Told, got, "the waiter's lock")
			require.NoError(t, r.Err)
			assert.ErrorIs(t, hold.Release(), holdfast.ErrLost, "the server no longer has it")
			require.NoError(t, r.Hold.Err())
			require.NoError(t, r.Hold.Release())
		}
	})
}

func TestInspection(t *testing.T) {
	kit.EveryLock(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		l, other := k.Make(a, t.Name(), 0), k.Make(b, t.Name(), 0)
		look := func(l kit.Locker, ctx context.Context) (locked, held bool, count int, left time.Duration,
			holders []holdfast.Holder,
		) {
			var err error
			locked, err = l.Locked(ctx)
			require.NoError(t, err)
			held, err = l.Held(ctx)
			require.NoError(t, err)
			count, err = l.HoldCount(ctx)
			require.NoError(t, err)
			left, err = l.RemainingLease(ctx)
			require.NoError(t, err)
			holders, err = l.Holders(ctx)
			require.NoError(t, err)
			return locked, held, count, left, holders
		}

		locked, held, count, left, holders := look(l, holdfast.NewOwner(t.Context()))
		assert.False(t, locked)
		assert.False(t, held)
		assert.Zero(t, count)
		assert.Zero(t, left)
		assert.Empty(t, holders)

		hold := kit.Lock(t, t.Context(), l)
		ctx := hold.Context(t.Context())
		for _, look1 := range []struct {
			l    kit.Locker
			ctx  context.Context
			mine bool
		}{{l, ctx, true}, {l, t.Context(), false}, {other, ctx, false}} {
			locked, held, count, left, holders = look(look1.l, look1.ctx)
			assert.True(t, locked)
			assert.Equal(t, look1.mine, held)
			assert.Equal(t, look1.mine, count == 1)
			assert.InDelta(t, kit.Lease, left, float64(kit.Lease*2/3))
			require.Len(t, holders, 1)
			assert.Equal(t, hold.ID(), holders[0].ID)
			assert.Equal(t, 1, holders[0].Count)
			assert.Positive(t, holders[0].Lease)
		}
		require.NoError(t, hold.Release())
	})
}

func TestTheSameOwnerAgain(t *testing.T) {
	kit.EveryLock(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), nil)
		l := k.Make(s, t.Name(), 0)
		outer := kit.Lock(t, t.Context(), l)
		ctx := outer.Context(t.Context())
		if !k.Reentrant {
			for _, take := range []func(context.Context) (*holdfast.Hold, error){l.Lock, l.TryLock} {
				_, err := take(ctx)
				assert.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
			}
			require.NoError(t, outer.Release())
			return
		}
		inner := kit.Lock(t, ctx, k.Make(s, t.Name(), 0)) // another value for the same lock
		assert.Equal(t, outer.ID(), inner.ID())
		assert.Equal(t, outer.Token(), inner.Token())
		n, err := l.HoldCount(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		require.NoError(t, outer.Release()) // in any order
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		assert.NoError(t, inner.Err())
		_, err = k.Rival(s, t.Name(), 0).TryLock(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrBusy, "the name stays locked while one hold of the owner lives")
		require.NoError(t, inner.Release())
		require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	})
}

func TestTokensIncreaseFromHolderToHolder(t *testing.T) {
	kit.EveryKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		last := int64(0)
		for i := range 6 {
			hold := kit.Lock(t, t.Context(), k.Make([]*holdfast.Session{a, b}[i%2], t.Name(), 0))
			if !k.Fenced {
				assert.Zero(t, hold.Token())
			} else {
				assert.Greater(t, hold.Token(), last)
			}
			last = hold.Token()
			require.NoError(t, hold.Release())
		}
		if k.Fenced {
			token := srv.Keyspace(t)["redisson_lock_token:{"+t.Name()+"}"]
			assert.Equal(t, redistest.Value{Type: "string", Content: "6"}, token,
				"the token never expires and is never deleted")
		}
	})
}

func TestMistakesAreNamedAndNothingIsSent(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), nil)
		for _, c := range []struct {
			l    kit.Locker
			says string
		}{
			{k.Make(s, "", 0), "name is empty"},
			{k.Make(s, string(make([]byte, 64<<10+1)), 0), "the limit is 65536"},
			{k.Make(s, "x", -time.Second), "Options.FixedLease is -1s"},
			{k.Make(s, "x", 9*time.Millisecond), "Options.FixedLease is 9ms"},
		} {
			_, err := c.l.Lock(t.Context())
			assert.ErrorContains(t, err, c.says)
			_, err = c.l.TryLock(t.Context())
			assert.ErrorContains(t, err, c.says)
			_, err = c.l.TryLockFor(t.Context(), time.Second)
			assert.ErrorContains(t, err, c.says)
			_, err = c.l.Locked(t.Context())
			assert.ErrorContains(t, err, c.says)
			if k.Permits || k.Several {
				continue
			}
			_, err = c.l.HoldCount(t.Context())
			assert.ErrorContains(t, err, c.says)
			_, err = c.l.ForceUnlock(t.Context())
			assert.ErrorContains(t, err, c.says)
		}
		assert.Zero(t, srv.CommandStats(t)["evalsha"])
	})
}

func TestAKeyOfAnotherTypeStaysUntouched(t *testing.T) {
	kit.EveryLock(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), nil)
		kind, precious := "string", any("precious")
		if k.OneString {
			kind, precious = "list", []string{"precious"}
			srv.Do(t, "RPUSH", t.Name(), "precious")
		} else {
			srv.Do(t, "SET", t.Name(), "precious")
		}
		l := k.Make(s, t.Name(), 0)
		_, err := l.Lock(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		assert.NotErrorIs(t, err, holdfast.ErrUnknown)
		_, err = l.TryLock(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		_, err = l.ForceUnlock(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		_, err = l.Holders(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		assert.Equal(t, redistest.Value{Type: kind, Content: precious}, srv.Keyspace(t)[t.Name()])
		assert.Empty(t, srv.Strs(t, "PUBSUB", "CHANNELS"))
		require.NoError(t, s.Close(), "a call that was refused has nothing to give back")
	})
}

func TestCloseEndsWaitsAndReleasesHolds(t *testing.T) {
	kit.EveryAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		foreign := kit.Lock(t, t.Context(), k.Rival(b, "foreign", 0))
		hold := kit.Lock(t, t.Context(), k.Make(a, t.Name(), 0))
		ctx := hold.Context(t.Context())
		got := kit.GoLock(t.Context(), k.Make(a, "foreign", 0).Lock)
		kit.Waiting(t, k, srv)

		require.NoError(t, a.Close())
		assert.ErrorIs(t, kit.Within(t, time.Second, got, "the end of the wait").Err, holdfast.ErrClosed)
		assert.ErrorIs(t, hold.Err(), holdfast.ErrClosed)
		assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrClosed)
		assert.ErrorIs(t, hold.Release(), holdfast.ErrClosed)
		_, err := k.Make(a, t.Name(), 0).Lock(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		_, err = k.Make(a, t.Name(), 0).Locked(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrClosed)
		assert.NotContains(t, k.Free(srv.Keyspace(t)), t.Name())
		require.NoError(t, a.Close(), "Close may be called twice")
		require.NoError(t, foreign.Release())
	})
}
