package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These tests are about calls that cross the end of a hold, and what they may leave on the server.

// An extension whose reply comes after the release has begun finds no hold. It must not give the lock back itself:
// the release would then find nothing, and report the hold lost.
func TestAnExtensionThatCrossesTheReleaseLosesNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	var all sync.WaitGroup
	var lost atomic.Int32
	for g := range 16 {
		all.Go(func() {
			l := rlock.New(s, fmt.Sprint("orders:", g), nil)
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
				h, err := l.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				var extended sync.WaitGroup
				extended.Go(func() { _ = h.Extend(t.Context(), 5*time.Second) })
				time.Sleep(rand.N(300 * time.Microsecond))
				if errors.Is(h.Release(), holdfast.ErrLost) {
					lost.Add(1)
				}
				extended.Wait()
			}
		})
	}
	all.Wait()
	require.Zero(t, lost.Load())
}

// A renewal that is in flight when trust ends may prolong a lease that nobody uses any more.
func TestARenewalThatCrossesTheLossIsGivenBack(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	srv := redistest.Start(t)
	srv.Do(t, "SCRIPT", "LOAD", lua.Source("lock_renew"))
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	renewal := p.On(kit.ScriptOf(kit.Kinds[0], "renew"), proxy.HoldReply, proxy.First)
	h := kit.Lock(t, t.Context(), rlock.New(s, kit.Orders, nil))
	renewal.Wait(t, 1)
	(*session.Session)(s).Skip(lease)
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	sinceLost := kit.Stopwatch()
	renewal.Release()
	kit.Await(t, "the end of the lock", func() bool { return srv.Int(t, "EXISTS", kit.Orders) == 0 })
	require.Less(t, sinceLost(), lease/2, "it was not given back before its lease ended")
}

// nestedShort takes a lock with a long lease, re-enters it with a very short one, and releases the outer hold.
func nestedShort(t *testing.T, s *holdfast.Session) *holdfast.Hold {
	t.Helper()
	outer := kit.Lock(t, t.Context(), rlock.New(s, kit.Orders, &rlock.Options{FixedLease: 20 * time.Second}))
	ctx := context.WithoutCancel(outer.Context(t.Context()))
	inner := kit.Lock(t, ctx, rlock.New(s, kit.Orders, &rlock.Options{FixedLease: 1500 * time.Millisecond}))
	require.NoError(t, outer.Release())
	return inner
}

func TestDetachOfAnExpiredHoldGivesTheLockBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	inner := nestedShort(t, s)
	kit.SleepUntil(inner.Deadline())
	require.ErrorIs(t, inner.Detach(), holdfast.ErrLost)
	h, err := rlock.New(s, kit.Orders, nil).TryLockFor(t.Context(), 3*time.Second)
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

// A hold that is still being given back when the session closes is Close's to give back.
func TestCloseGivesBackWhatALossHasLeft(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	// Without this, the loss leaves too little to give back.
	p.On(kit.ScriptNamed("lock_trim"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	inner := nestedShort(t, s)
	returns := p.On(kit.ScriptOf(kit.Kinds[0], "release"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	kit.SleepUntil(inner.Deadline())
	require.ErrorIs(t, inner.Err(), holdfast.ErrLost)
	returns.Wait(t, 2)
	returns.Remove()
	require.NoError(t, s.Close())
	require.Empty(t, srv.Keyspace(t))
}

// A release may not get its turn because a re-entry of the same owner is in flight for too long. It must not be
// executed later, behind that re-entry's back.
func TestAReleaseThatWaitsForAReentryDoesNotTakeItAway(t *testing.T) {
	t.Parallel()
	for _, k := range []kit.Kind{kit.KindOf("rlock"), kit.KindOf("rwlock read")} {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			s := kit.Open(t, p.Addr(), nil)
			l := k.Make(s, kit.Orders, 20*time.Second)
			// now the scripts and the server's clock are known
			require.NoError(t, kit.Lock(t, t.Context(), l).Release())
			ctx := holdfast.NewOwner(t.Context())
			// The release waits for a third of this lease.
			outer := kit.Lock(t, ctx, k.Make(s, kit.Orders, 2*time.Second))
			entering := p.On(kit.ScriptOf(k, "acquire"), proxy.HoldReply, proxy.First)
			inner := kit.GoLock(ctx, l.Lock)
			entering.Wait(t, 1)
			short := time.Now()
			require.ErrorIs(t, outer.Release(), holdfast.ErrUnknown)
			t.Log("given up after", time.Since(short))
			kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // nothing may happen in this time
			entering.Release()
			r := kit.Within(t, time.Second, inner, "the re-entry")
			require.NoError(t, r.Err)
			kit.SleepUntil(time.Now().Add(100 * time.Millisecond)) // nor in this
			_, err := k.Rival(kit.Open(t, srv.Addr(), nil), kit.Orders, 0).TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrBusy)
			require.NoError(t, r.Hold.Err())
			require.NoError(t, r.Hold.Release())
			kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
		})
	}
}

// A ctx that ends between two attempts does not hide that the outcome of the first is unknown.
func TestAnAttemptThatIsNotSentHidesNoUnknownOne(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		p := proxy.Start(t, srv.Addr())
		kit.LoadScripts(t, srv)
		s := kit.Open(t, p.Addr(), nil)
		require.NoError(t, kit.Lock(t, t.Context(), k.Make(s, kit.Orders, 0)).Release())
		for name, take := range map[string]func(l kit.Locker) func(context.Context) (*holdfast.Hold, error){
			"try":  func(l kit.Locker) func(context.Context) (*holdfast.Hold, error) { return l.TryLock },
			"wait": func(l kit.Locker) func(context.Context) (*holdfast.Hold, error) { return l.Lock },
		} {
			// The pauses between attempts grow, so some contexts end in a pause and some during an attempt. Each call has a
			// name of its own: on a busy machine the last attempt of another one arrives late.
			for i := range 40 {
				own := fmt.Sprintf("%s %02d", name, i)
				dropped := p.On(kit.ScriptOf(k, "acquire").With(own), proxy.DropReply, proxy.EveryTime)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i)*time.Millisecond)
				_, err := take(k.Make(s, own, 0))(ctx)
				cancel()
				require.Error(t, err)
				if dropped.Count() > 0 { // otherwise not even a connection was made in time
					require.ErrorIs(t, err, holdfast.ErrUnknown, own)
				}
				dropped.Remove()
			}
		}
	})
}
