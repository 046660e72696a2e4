package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// handed are the kinds whose holds can be handed over.
func handed() (kinds []kit.Kind) {
	for _, k := range kit.Kinds {
		switch {
		case k.Several || k.Most != nil || k.OneString || k.Name == "rwlock read" || k.Name == "rwlock read preferred":
		default:
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func handTo(t *testing.T, ctx context.Context, h *holdfast.Hold, s *holdfast.Session) *holdfast.Hold {
	t.Helper()
	next, err := h.HandTo(ctx, s)
	require.NoError(t, err)
	require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
	return next
}

// A rival that looks all the time never gets the lock, however often it is handed over.
func TestARivalNeverSeesALockThatIsHandedOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, k := range handed() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			name := k.Own(kit.Orders)[0]
			sessions := []*holdfast.Session{kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)}
			rival := k.Make(kit.Open(t, srv.Addr(), nil), name, 0)
			hold := kit.Lock(t, t.Context(), k.Make(sessions[0], name, 0))
			id, token := hold.ID(), hold.Token()

			ctx, stop := context.WithCancel(t.Context())
			looked := make(chan int)
			go func() {
				looks := 0
				for ; ctx.Err() == nil; looks++ {
					h, err := rival.TryLock(t.Context())
					if !assert.ErrorIs(t, err, holdfast.ErrBusy) {
						if h != nil {
							_ = h.Release()
						}
						break
					}
				}
				looked <- looks
			}()
			for i := range kit.Stressed(100, 300) {
				hold = handTo(t, t.Context(), hold, sessions[(i+1)%2])
				require.NoError(t, hold.Err())
			}
			stop()
			require.Positive(t, <-looked)
			require.Equal(t, id, hold.ID())
			require.Equal(t, token, hold.Token())
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Lock(t, t.Context(), rival).Release())
		})
	}
}

// The new hold is renewed by its session, and its owner is that of ctx.
func TestAHoldThatIsHandedOverLivesInItsNewSession(t *testing.T) {
	t.Parallel()
	for _, k := range handed() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			short := &holdfast.Options{Lease: 6 * time.Second}
			a, b := kit.Open(t, srv.Addr(), short), kit.Open(t, srv.Addr(), short)
			hold := kit.Lock(t, t.Context(), k.Make(a, kit.Orders, 0))
			work := hold.Context(t.Context())
			ctx := holdfast.NewOwner(t.Context())
			next := handTo(t, ctx, hold, b)
			require.ErrorIs(t, context.Cause(work), holdfast.ErrNotHeld)
			require.ErrorIs(t, hold.Release(), holdfast.ErrNotHeld)
			require.NoError(t, a.Close())
			renewed := next.Deadline()
			kit.Await(t, "a renewal", func() bool { return next.Deadline().After(renewed) })
			if l := k.Make(b, kit.Orders, 0); !k.Permits {
				held, err := l.Held(ctx)
				require.NoError(t, err)
				require.True(t, held)
				held, err = l.Held(next.Context(t.Context()))
				require.NoError(t, err)
				require.True(t, held)
			}
			require.NoError(t, next.Release())
			locked, err := k.Make(b, kit.Orders, 0).Locked(t.Context())
			require.NoError(t, err)
			require.False(t, locked)
		})
	}
}

// All holds of the owner go along, and the count with them.
func TestNestedHoldsAreHandedOverTogether(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, k := range handed() {
		if !k.Reentrant {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			name := k.Own(kit.Orders)[0]
			a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
			mine, theirs := k.Make(a, name, 0), k.Make(b, name, 0)
			count := func(ctx context.Context, want int) {
				t.Helper()
				n, err := theirs.HoldCount(ctx)
				require.NoError(t, err)
				require.Equal(t, want, n)
				holders, err := theirs.Holders(t.Context())
				require.NoError(t, err)
				require.Len(t, holders, 1)
				require.Equal(t, want, holders[0].Count)
			}
			outer := kit.Lock(t, t.Context(), mine)
			inner := kit.Lock(t, outer.Context(t.Context()), k.Make(a, name, time.Minute))
			next := handTo(t, t.Context(), inner, b)
			require.ErrorIs(t, outer.Err(), holdfast.ErrNotHeld)
			require.ErrorIs(t, outer.Release(), holdfast.ErrNotHeld)
			ctx := next.Context(t.Context())
			count(ctx, 2)
			again := kit.Lock(t, ctx, theirs)
			count(ctx, 3)
			require.NoError(t, again.Release())
			count(ctx, 2)
			again = kit.Lock(t, ctx, theirs)
			require.NoError(t, next.Release())
			count(again.Context(t.Context()), 1)
			back := handTo(t, t.Context(), again, a)
			require.NoError(t, back.Release())
			require.NoError(t, kit.Lock(t, t.Context(), theirs).Release())

			outer = kit.Lock(t, t.Context(), mine)
			kit.Lock(t, outer.Context(t.Context()), mine)
			require.NoError(t, handTo(t, t.Context(), outer, b).Release(), "of both")
			require.NoError(t, kit.Lock(t, t.Context(), theirs).Release())
		})
	}
}

// Whoever waits, in whichever session, gets the lock from the new holder.
func TestWaitersStayWhenALockIsHandedOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, k := range handed() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			name := k.Own(kit.Orders)[0]
			var sessions []*holdfast.Session
			for range 3 {
				sessions = append(sessions, kit.Open(t, srv.Addr(), nil))
			}
			hold := kit.Lock(t, t.Context(), k.Make(sessions[0], name, 0))
			var waiting []<-chan kit.Result
			for _, s := range sessions {
				waiting = append(waiting, kit.GoLock(t.Context(), k.Make(s, name, 0).Lock))
			}
			for i := range 20 {
				hold = handTo(t, t.Context(), hold, sessions[(i+1)%len(sessions)])
			}
			for range waiting {
				require.NoError(t, hold.Release())
				var got kit.Result
				select {
				case got = <-waiting[0]:
				case got = <-waiting[1]:
				case got = <-waiting[2]:
				case <-time.After(kit.LongestWait):
					t.Fatal("nobody gets it")
				}
				require.NoError(t, got.Err)
				hold = handTo(t, t.Context(), got.Hold, sessions[0])
			}
			require.NoError(t, hold.Release())
		})
	}
}

// If no reply comes the hold stays, and it can be handed over later.
func TestAHoldStaysIfTheOtherSessionHasNoReply(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, lost := range []proxy.Action{proxy.DropReply, proxy.ResetBefore} {
		p := proxy.Start(t, srv.Addr())
		a := kit.Open(t, srv.Addr(), nil)
		b := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 6 * time.Second})
		hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
		rule := p.On(kit.ScriptNamed("lock_renew"), lost, proxy.EveryTime)
		next, err := hold.HandTo(t.Context(), b)
		require.Nil(t, next)
		require.ErrorIs(t, err, holdfast.ErrNoReply)
		require.NotErrorIs(t, err, holdfast.ErrUnknown)
		require.Positive(t, rule.Count())
		require.NoError(t, hold.Err())
		rule.Remove()
		first := p.On(kit.ScriptNamed("lock_renew"), lost, proxy.First)
		next = handTo(t, t.Context(), hold, b)
		require.Equal(t, 1, first.Count(), "it is sent again")
		require.NoError(t, next.Release())
		require.False(t, srv.Int(t, "EXISTS", kit.Orders) > 0)
	}
}

// The connections of both may be killed at any time, and sessions closed: exactly one of them has the hold, or it is
// lost to both.
func TestOneOfTwoHasAHoldWhateverHappens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for i := range rounds {
		a, b := kit.Open(t, p.Addr(), nil), kit.Open(t, p.Addr(), nil)
		hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
		nested := kit.Lock(t, hold.Context(t.Context()), rlock.New(a, kit.Orders, nil))
		started := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-started
			switch i % 5 {
			case 0:
				p.CutAll()
			case 1:
				_ = a.Close()
			case 2:
				_ = b.Close()
			case 3:
				_ = nested.Release()
			case 4:
				_ = hold.Release()
			}
		}()
		close(started)
		next, err := nested.HandTo(t.Context(), b)
		<-done
		if err == nil {
			require.Error(t, hold.Err())
			require.Error(t, nested.Err())
			if next.Err() == nil {
				require.EqualValues(t, 1, srv.Int(t, "EXISTS", kit.Orders))
				require.NoError(t, next.Release())
			}
		} else {
			require.Nil(t, next)
		}
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		require.Zero(t, srv.Int(t, "EXISTS", kit.Orders), "round %d: %v", i, err)
	}
}

// Where a hold cannot be handed over, the error says why, and the hold stays.
func TestHoldsThatCannotBeHandedOverStay(t *testing.T) {
	t.Parallel()
	srv, elsewhere := redistest.Start(t), redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	l := rlock.New(a, kit.Orders, nil)
	refused := func(hold *holdfast.Hold, s *holdfast.Session, says string) {
		t.Helper()
		next, err := hold.HandTo(t.Context(), s)
		require.ErrorContains(t, err, says)
		require.Nil(t, next)
		require.NoError(t, hold.Err())
	}
	hold := kit.Lock(t, t.Context(), l)
	refused(hold, nil, `rlock "orders": hand over: the session is nil`)
	refused(hold, kit.Open(t, elsewhere.Addr(), nil), `rlock "orders": hand over: the other session's server`)
	mapped := &holdfast.Options{MapName: func(name string) string { return "tenant:" + name }}
	refused(hold, kit.Open(t, srv.Addr(), mapped), "MapName")
	closed := kit.Open(t, srv.Addr(), nil)
	require.NoError(t, closed.Close())
	refused(hold, closed, "session closed")
	both := kit.Lock(t, t.Context(), multilock.New(fairlock.New(a, "x", nil), fairlock.New(a, "y", nil)))
	refused(both, b, "several locks")
	batch := kit.Lock(t, t.Context(), multilock.New(rlock.New(a, "one", nil), rlock.New(a, "two", nil)))
	refused(kit.Lock(t, batch.Context(t.Context()), rlock.New(a, "one", nil)), b, "together with other locks")
	refused(kit.Lock(t, t.Context(), setlock.New(a, "set", nil)), b, "stays in its session")
	rw := rwlock.New(a, "rw", nil)
	writes := kit.Lock(t, t.Context(), rw.Write())
	reads := kit.Lock(t, writes.Context(t.Context()), rw.Read())
	refused(reads, b, "stays in its session")
	refused(writes, b, "the other half")
	require.NoError(t, reads.Release())
	handTo(t, t.Context(), writes, b)
	inner := kit.Lock(t, hold.Context(t.Context()), l)
	require.NoError(t, inner.Detach())
	refused(hold, b, "was detached")

	_, err := hold.HandTo(hold.Context(t.Context()), a)
	require.ErrorIs(t, err, holdfast.ErrAlreadyHeld, "it is handed to its own owner")
	require.NoError(t, hold.Release())
	_, err = hold.HandTo(t.Context(), b)
	require.ErrorIs(t, err, holdfast.ErrNotHeld)
	gone, stop := context.WithCancel(t.Context())
	stop()
	hold = kit.Lock(t, t.Context(), fairlock.New(a, "z", nil))
	_, err = hold.HandTo(gone, b)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, hold.Release())
}

// A fixed lease is not made longer, neither here nor on the server.
func TestAFixedLeaseIsHandedOverAsItIs(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, &rlock.Options{FixedLease: 3 * time.Second}))
	until := hold.Deadline()
	next := handTo(t, t.Context(), hold, b)
	require.WithinDuration(t, until, next.Deadline(), time.Millisecond)
	kit.Await(t, "its end", func() bool { return next.Err() != nil })
	require.ErrorIs(t, next.Err(), holdfast.ErrLost)
	kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))

	permits := semaphore.NewExpirable(a, "permits", &semaphore.ExpirableOptions{FixedLease: semaphore.Forever})
	require.NoError(t, kit.ErrorOf(permits.TrySetPermits(t.Context(), 1)))
	permit, err := permits.Acquire(t.Context())
	require.NoError(t, err)
	given := handTo(t, t.Context(), permit, b)
	require.Equal(t, permit.ID(), given.ID())
	require.NoError(t, given.Err())
	require.WithinDuration(t, permit.Deadline(), given.Deadline(), time.Millisecond)
	require.NoError(t, permits.Release(t.Context(), given.ID()), "by its id, anywhere")
	require.ErrorIs(t, given.Release(), holdfast.ErrLost)
}

// A token is one owner's, also if its hold was handed to another session and passes on there.
func TestATokenThatWasHandedOverStaysWithItsHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	fenced := &rlock.Options{Fenced: true}
	hold := handTo(t, t.Context(), kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, fenced)), b)
	token := hold.Token()
	require.Positive(t, token)
	waiting := kit.GoLock(t.Context(), rlock.New(b, kit.Orders, nil).Lock)
	kit.Await(t, "the waiter", func() bool { return srv.Int(t, "LLEN", wire.Line(kit.Orders)) > 0 })
	require.NoError(t, hold.Release())
	next := kit.Granted(t, kit.LongestWait, waiting, "the lock")
	require.Zero(t, next.Token())
	inner := kit.Lock(t, next.Context(t.Context()), rlock.New(b, kit.Orders, fenced))
	require.Greater(t, inner.Token(), token)
	require.NoError(t, inner.Release())
	require.NoError(t, next.Release())
}

// The observers of both sessions see a hold end and one begin; neither is a loss.
func TestObserversSeeAHandOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	events := make(chan string, 8)
	observer := func(who string) *holdfast.Options {
		return &holdfast.Options{Observer: &holdfast.Observer{
			Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
				events <- who + " begins"
				return func(ended holdfast.Ended) {
					assert.NoError(t, ended.Err)
					events <- who + " ends"
				}
			},
		}}
	}
	a, b := kit.Open(t, srv.Addr(), observer("a")), kit.Open(t, srv.Addr(), observer("b"))
	hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
	require.NoError(t, handTo(t, t.Context(), hold, b).Release())
	for _, want := range []string{"a begins", "a ends", "b begins", "b ends"} {
		require.Equal(t, want, kit.Within(t, kit.LongestWait, events, want))
	}
}

// Calls of the owner that come at the same time take part, or come too late: in the end nothing is left.
func TestAHandOverBesideOtherCallsOfTheOwner(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	sessions := []*holdfast.Session{kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)}
	for _, k := range handed() {
		if !k.Reentrant {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			name := k.Own(kit.Orders)[0]
			var inside atomic.Int64
			for range 30 {
				hold := kit.Lock(t, t.Context(), k.Make(sessions[0], name, 0))
				require.EqualValues(t, 1, inside.Add(1))
				ctx := hold.Context(t.Context())
				var nested sync.WaitGroup
				for range 3 {
					nested.Go(func() { // until it has been handed over
						for inner := hold; inner != nil; {
							if inner, _ = k.Make(sessions[0], name, 0).TryLock(ctx); inner != nil {
								_ = inner.Release()
							}
						}
					})
				}
				other := kit.GoLock(t.Context(), k.Make(sessions[1], name, 0).Lock)
				next := handTo(t, holdfast.NewOwner(t.Context()), hold, sessions[1])
				nested.Wait()
				require.NoError(t, next.Err())
				require.EqualValues(t, 0, inside.Add(-1))
				require.NoError(t, next.Release())
				require.NoError(t, kit.Granted(t, kit.LongestWait, other, "the next one").Release())
			}
			// An attempt whose ctx ended with the hold may still be undone.
			kit.Await(t, "nothing left", func() bool {
				locked, err := k.Make(sessions[0], name, 0).Locked(t.Context())
				require.NoError(t, err)
				return !locked
			})
		})
	}
}

// In a cluster, too.
func TestAHandOverInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	sessions := []*holdfast.Session{kit.OpenCluster(t, c, nil), kit.OpenCluster(t, c, nil)}
	for _, k := range handed() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			name := k.Own(kit.Orders)[0]
			hold := kit.Lock(t, t.Context(), k.Make(sessions[0], name, 0))
			other := kit.GoLock(t.Context(), k.Make(sessions[0], name, 0).Lock)
			for i := range 10 {
				hold = handTo(t, t.Context(), hold, sessions[(i+1)%2])
			}
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Granted(t, kit.LongestWait, other, "the waiter").Release())
		})
	}
}

// A hold that is lost, whether that is known or not, cannot be handed over, nor one of which a call may still be
// executed.
func TestALostHoldIsNotHandedOver(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	a := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 5 * time.Second})
	b := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(a, kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), l)
	p.Silence()
	kit.Await(t, "the end of the lease", func() bool { return hold.Err() != nil })
	_, err := hold.HandTo(t.Context(), b)
	require.ErrorIs(t, err, holdfast.ErrLost)
	p.ResumeAll()

	hold = kit.Lock(t, t.Context(), l)
	_, err = rlock.New(b, kit.Orders, nil).ForceUnlock(t.Context())
	require.NoError(t, err)
	_, err = hold.HandTo(t.Context(), b)
	require.Error(t, err, "%v", hold.Err())
	kit.Await(t, "the next renewal", func() bool { return hold.Err() != nil })
	require.ErrorIs(t, hold.Err(), holdfast.ErrLost)

	hold = kit.Lock(t, t.Context(), l)
	lost := p.On(kit.ScriptNamed("guard_commands"), proxy.DropReply, proxy.First)
	require.ErrorIs(t, kit.ErrorOf(hold.Guard(t.Context())), holdfast.ErrUnknown)
	lost.Wait(t, 1)
	_, err = hold.HandTo(t.Context(), b)
	require.ErrorContains(t, err, "is not known")
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
}

// Whoever was asked for the lock passes the question on with it.
func TestAHoldThatIsAskedForIsAskedForInItsNewSession(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	l := fairlock.New(a, kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), l)
	requireAsked(t, l, 1)
	next := handTo(t, t.Context(), hold, b)
	kit.Within(t, kit.LongestWait, next.Asked(), "the question")
	require.NoError(t, next.Release())
}

// What was asked of a hold before it was handed over inside its session does not go with the next one to another.
func TestAQuestionToAnEarlierHoldStaysBehind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	l := rlock.New(a, kit.Orders, nil)
	first := kit.Lock(t, t.Context(), l)
	waits := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "a call that waits", func() bool {
		all, err := l.Waiters(t.Context())
		return err == nil && len(all) == 1
	})
	requireAsked(t, l, 1)
	require.NoError(t, first.Release())
	second := kit.Granted(t, kit.LongestWait, waits, "the call that waits")
	require.Equal(t, first.ID(), second.ID(), "handed over inside the session")
	third := handTo(t, t.Context(), second, b)
	select {
	case <-third.Asked():
		require.Fail(t, "the question was for the first hold")
	case <-time.After(time.Second):
	}
	fourth := handTo(t, t.Context(), third, a)
	requireAsked(t, l, 1)
	kit.Within(t, kit.LongestWait, fourth.Asked(), "the question")
	fifth := handTo(t, t.Context(), fourth, b)
	kit.Within(t, kit.LongestWait, fifth.Asked(), "the question that came with it")
	require.NoError(t, fifth.Release())
}

// A multilock whose member is handed to another session, by a hold that is nested in it, ends, and that is no loss.
func TestAMultiLockEndsWithAMemberThatIsHandedOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	ends := make(chan holdfast.Ended, 1)
	a, b := kit.Open(t, srv.Addr(), &holdfast.Options{Observer: &holdfast.Observer{
		Hold: func(_ context.Context, of holdfast.Subject) func(holdfast.Ended) {
			if of.Kind != "multilock" {
				return nil
			}
			return func(ended holdfast.Ended) { ends <- ended }
		},
	}}), kit.Open(t, srv.Addr(), nil)
	x := fairlock.New(a, "x", nil)
	both := kit.Lock(t, t.Context(), multilock.New(x, fairlock.New(a, "y", nil)))
	next := handTo(t, t.Context(), kit.Lock(t, both.Context(t.Context()), x), b)
	require.ErrorIs(t, both.Err(), holdfast.ErrNotHeld)
	require.NoError(t, kit.Within(t, kit.LongestWait, ends, "its end").Err)
	require.NoError(t, next.Release())
}

// A read hold that was detached, and whose lease is over, keeps no write hold from being handed over.
func TestAWriteHoldIsHandedOverWhenADetachedReadIsOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	const short = 500 * time.Millisecond
	write := kit.Lock(t, t.Context(), kit.OrdersRW(a, 0).Write())
	require.NoError(t, kit.Lock(t, write.Context(t.Context()), kit.OrdersRW(a, short).Read()).Detach())
	_, err := write.HandTo(t.Context(), b)
	require.ErrorContains(t, err, "the other half")
	kit.SleepUntil(time.Now().Add(2 * short))
	next := handTo(t, t.Context(), write, b)
	nested := kit.Lock(t, next.Context(t.Context()), kit.OrdersRW(b, 0).Read())
	require.NoError(t, next.Release())
	require.NoError(t, nested.Err())
	require.NoError(t, nested.Release())
	require.Empty(t, srv.Keyspace(t))
}
