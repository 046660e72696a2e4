package locks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A relay is the lock "orders" of one session, in which a release hands it over to the next call.
type relay struct {
	*testing.T
	srv *redistest.Server
	o   *lookout
	s   *holdfast.Session
	l   *rlock.Mutex
}

func newRelay(t *testing.T, lease time.Duration) *relay {
	t.Helper()
	srv := redistest.Start(t)
	return newRelayAt(t, srv, srv.Addr(), lease)
}

// newRelayAt is newRelay of a server that is reached at an address.
func newRelayAt(t *testing.T, srv *redistest.Server, addr string, lease time.Duration) *relay {
	t.Helper()
	r := &relay{T: t, srv: srv, o: &lookout{}}
	r.s = kit.Open(t, addr, &holdfast.Options{Lease: lease, Observer: r.o.observer()})
	r.l = rlock.New(r.s, "orders", nil)
	return r
}

// lock takes the lock.
func (r *relay) lock() *holdfast.Hold {
	r.Helper()
	return kit.Lock(r, r.Context(), r.l)
}

// next has another call wait for the lock, and returns once it does.
func (r *relay) next(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) <-chan kit.Result {
	r.Helper()
	waits := r.o.sum("wait")
	got := kit.GoLock(ctx, take)
	kit.Await(r, "a call that waits", func() bool { return r.o.sum("wait") > waits })
	return got
}

// settled is next of the first call that waits, whose looks are over when it returns.
func (r *relay) settled(ctx context.Context) <-chan kit.Result {
	r.Helper()
	busy := r.o.sum("attempt busy")
	got := r.next(ctx, r.l.Lock)
	kit.Await(r, "both looks", func() bool { return r.o.sum("attempt busy") >= busy+2 })
	return got
}

// release releases a hold and returns that of the call which gets the lock after it.
func (r *relay) release(h *holdfast.Hold, next <-chan kit.Result) *holdfast.Hold {
	r.Helper()
	require.NoError(r, h.Release())
	return kit.Granted(r, kit.LongestWait, next, "the next call")
}

// handOver is release that hands the lock over.
func (r *relay) handOver(h *holdfast.Hold, next <-chan kit.Result) *holdfast.Hold {
	r.Helper()
	heir := r.release(h, next)
	require.Equal(r, h.ID(), heir.ID(), "the server knows nothing of it")
	return heir
}

// empty requires that nothing is left on the server, and that the lock is to be had at once.
func (r *relay) empty() {
	r.Helper()
	kit.Await(r, "an empty server", func() bool { return len(r.srv.Keyspace(r)) == 0 })
	h, err := r.l.TryLock(r.Context())
	require.NoError(r, err)
	require.NoError(r, h.Release())
	r.o.requireBalance(r.T)
}

func TestAReleaseHandsTheLockOver(t *testing.T) {
	t.Parallel()
	r := newRelay(t, 30*time.Second) // so that nothing is renewed meanwhile
	h := r.lock()
	next := r.settled(t.Context())
	r.srv.ResetStats(t)
	heir := r.handOver(h, next)
	require.NoError(t, heir.Err())
	require.Zero(t, r.srv.CommandStats(t)["evalsha"], "calls")
	require.Equal(t, map[string]int64{h.ID(): 1}, r.counts())
	require.GreaterOrEqual(t, heir.Deadline(), h.Deadline())
	require.NoError(t, heir.Release())
	r.empty()
}

// counts are the hold counts on the server.
func (r *relay) counts() map[string]int64 {
	r.Helper()
	holders, err := r.l.Holders(r.Context())
	require.NoError(r, err)
	counts := map[string]int64{}
	for _, h := range holders {
		counts[h.ID] = int64(h.Count)
	}
	return counts
}

// What is left of the hold that was handed over answers for itself, and not for the one that followed it.
func TestWhatIsLeftOfAHoldThatWasHandedOver(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"with an owner": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, 30*time.Second)
			oldOwner := t.Context()
			if own {
				oldOwner = holdfast.NewOwner(oldOwner)
			}
			h := kit.Lock(t, oldOwner, r.l)
			before := h.Context(oldOwner)
			child, cancel := context.WithCancel(before)
			defer cancel()
			heirs := holdfast.NewOwner(t.Context())
			heir := r.handOver(h, r.next(heirs, r.l.Lock))

			for what, ctx := range map[string]context.Context{
				"made before": before, "derived from it": child, "made afterwards": h.Context(oldOwner),
			} {
				kit.Within(t, kit.LongestWait, ctx.Done(), what)
				require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld, what)
				r.requireCount(ctx, 0, what)
			}
			require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
			require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
			require.ErrorIs(t, h.Detach(), holdfast.ErrNotHeld)
			require.ErrorIs(t, h.Extend(t.Context(), time.Minute), holdfast.ErrNotHeld)
			require.NoError(t, heir.Err())

			r.requireCount(oldOwner, 0, "the old owner's")
			r.requireCount(heirs, 1, "the new owner's")
			r.requireCount(heir.Context(t.Context()), 1, "of the hold")
			_, err := r.l.TryLock(oldOwner)
			require.ErrorIs(t, err, holdfast.ErrBusy, "the old owner re-enters nothing")
			require.NoError(t, heir.Release())
			require.NoError(t, kit.Lock(t, oldOwner, r.l).Release())
			r.empty()
		})
	}
}

// requireCount requires that ctx's owner has the lock so often.
func (r *relay) requireCount(ctx context.Context, want int, what string) {
	r.Helper()
	ctx = context.WithoutCancel(ctx)
	n, err := r.l.HoldCount(ctx)
	require.NoError(r, err, what)
	require.Equal(r, want, n, what)
	held, err := r.l.Held(ctx)
	require.NoError(r, err, what)
	require.Equal(r, want > 0, held, what)
}

// Whoever has been handed the lock may do everything with it.
func TestWhatIsHandedOverIsAHoldLikeOthers(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"with an owner": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, do := range map[string]func(r *relay, heir *holdfast.Hold, ctx context.Context){
				"nested": func(r *relay, heir *holdfast.Hold, ctx context.Context) {
					inner := kit.Lock(r, ctx, r.l)
					require.Equal(r, heir.ID(), inner.ID())
					require.Equal(r, map[string]int64{heir.ID(): 2}, r.counts())
					require.NoError(r, heir.Release())
					require.NoError(r, inner.Err())
					require.Equal(r, map[string]int64{inner.ID(): 1}, r.counts())
					next := r.next(r.Context(), r.l.Lock)
					last := r.release(inner, next)
					require.NoError(r, last.Release())
				},
				"extended": func(r *relay, heir *holdfast.Hold, _ context.Context) {
					require.NoError(r, heir.Extend(r.Context(), time.Minute))
					require.Greater(r, time.Until(heir.Deadline()), 50*time.Second)
					require.NoError(r, heir.Release())
				},
				"detached": func(r *relay, heir *holdfast.Hold, _ context.Context) {
					require.NoError(r, heir.Detach())
					require.Equal(r, map[string]int64{heir.ID(): 1}, r.counts())
					_, err := r.l.TryLock(r.Context())
					require.ErrorIs(r, err, holdfast.ErrBusy)
					require.NoError(r, kit.Lock(r, r.Context(), r.l).Release(), "when its lease is over")
				},
				"renewed": func(r *relay, heir *holdfast.Hold, ctx context.Context) {
					ctx = heir.Context(ctx)
					deadline := heir.Deadline()
					kit.SleepUntil(deadline.Add(100 * time.Millisecond))
					require.NoError(r, heir.Err())
					require.NoError(r, ctx.Err())
					require.NoError(r, heir.Release())
				},
			} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					r := newRelay(t, 5*time.Second)
					ctx := t.Context()
					if own {
						ctx = holdfast.NewOwner(ctx)
					}
					heir := r.handOver(r.lock(), r.next(ctx, r.l.Lock))
					if !own {
						ctx = heir.Context(ctx)
					}
					do(r, heir, ctx)
					r.empty()
				})
			}
		})
	}
}

// The options say whether a lock may be handed over: its holds are renewed, they have no tokens, and waiters listen.
func TestWhichLocksAreHandedOver(t *testing.T) {
	t.Parallel()
	plain := &rlock.Options{}
	for name, c := range map[string]struct {
		from, to *rlock.Options
		want     bool
	}{
		"plain":          {plain, plain, true},
		"not re-entrant": {&rlock.Options{NonReentrant: true}, &rlock.Options{NonReentrant: true}, true},
		"from one that polls": {
			&rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 2*time.Millisecond)}, plain, true,
		},
		"to one that polls": {
			plain, &rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 2*time.Millisecond)}, false,
		},
		"from one with a token":  {&rlock.Options{Fenced: true}, plain, false},
		"to one with a token":    {plain, &rlock.Options{Fenced: true}, false},
		"from one with a lease":  {&rlock.Options{FixedLease: time.Minute}, plain, false},
		"to one with a lease":    {plain, &rlock.Options{FixedLease: time.Minute}, false},
		"between those of token": {&rlock.Options{Fenced: true}, &rlock.Options{Fenced: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, 30*time.Second)
			h := kit.Lock(t, t.Context(), rlock.New(r.s, "orders", c.from))
			heir := r.release(h, r.next(t.Context(), rlock.New(r.s, "orders", c.to).Lock))
			require.Equal(t, c.want, h.ID() == heir.ID())
			require.Equal(t, c.to.Fenced, heir.Token() != 0)
			if c.from.Fenced && c.to.Fenced {
				require.Greater(t, heir.Token(), h.Token())
			}
			require.NoError(t, heir.Release())
		})
	}
}

// A token is one owner's, also if that got it by a re-entry.
func TestATokenIsNotHandedOver(t *testing.T) {
	t.Parallel()
	r := newRelay(t, 30*time.Second)
	fenced := rlock.New(r.s, "orders", &rlock.Options{Fenced: true})
	h := r.lock()
	inner := kit.Lock(t, h.Context(t.Context()), fenced)
	token := inner.Token()
	require.Positive(t, token)
	require.NoError(t, inner.Release())
	heir := r.release(h, r.next(t.Context(), r.l.Lock))
	require.Zero(t, heir.Token())
	inner = kit.Lock(t, heir.Context(t.Context()), fenced)
	require.Greater(t, inner.Token(), token)
	require.NoError(t, inner.Release())
	require.NoError(t, heir.Release())
}

// What another hold of the owner needs stays with the owner.
func TestWhatAnOwnerHasTwiceIsNotHandedOver(t *testing.T) {
	t.Parallel()
	r := newRelay(t, 4*time.Second)
	ctx := holdfast.NewOwner(t.Context())
	outer := kit.Lock(t, ctx, r.l)
	inner := kit.Lock(t, ctx, r.l)
	next := r.next(t.Context(), r.l.Lock)
	require.NoError(t, outer.Release())
	require.NoError(t, inner.Err())
	r.requireCount(ctx, 1, "the inner one")
	require.Empty(t, next)
	heir := r.handOver(inner, next)
	r.requireCount(ctx, 0, "none")
	require.NoError(t, heir.Release())

	kept, given := kit.Lock(t, ctx, r.l), kit.Lock(t, ctx, r.l)
	require.NoError(t, kept.Detach())
	next = r.next(t.Context(), r.l.Lock)
	require.NoError(t, given.Release())
	require.Equal(t, map[string]int64{kept.ID(): 1}, r.counts(), "the detached one")
	heir = kit.Granted(t, kit.LongestWait, next, "what is left by the detached one")
	require.NotEqual(t, kept.ID(), heir.ID())
	require.NoError(t, heir.Release())
	r.empty()
}

// Nor is what another call of the owner is about to have: a re-entry is under way when the first hold is released.
func TestWhatTheOwnerReentersIsNotHandedOver(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	r := newRelayAt(t, srv, p.Addr(), 10*time.Second)
	ctx := holdfast.NewOwner(t.Context())
	h := kit.Lock(t, ctx, r.l)
	next := r.settled(t.Context())
	entered := p.On(kit.ScriptNamed("rlock_acquire"), proxy.HoldReply, proxy.First)
	inner := kit.GoLock(ctx, r.l.Lock)
	entered.Wait(t, 1)
	released := make(chan error, 1)
	go func() { released <- h.Release() }()
	kit.Await(t, "the end of the hold", func() bool { return h.Err() != nil })
	entered.Release()
	require.NoError(t, kit.Within(t, kit.LongestWait, released, "the release"))
	hold := kit.Granted(t, kit.LongestWait, inner, "the re-entry")
	r.requireCount(ctx, 1, "the re-entry")
	require.Empty(t, next)
	require.NoError(t, r.handOver(hold, next).Release())
	r.empty()
}

// Nor is it while another call of the owner is between two attempts: it would re-enter what somebody else has by then.
func TestWhatTheOwnerAsksForAgainIsNotHandedOver(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	r := &relay{T: t, srv: srv, o: &lookout{}}
	failed, goOn := make(chan struct{}), make(chan struct{})
	between := sync.OnceFunc(func() { close(failed); <-goOn })
	observer := r.o.observer()
	note := observer.Attempt
	observer.Attempt = func(of holdfast.Subject, a holdfast.Attempt) {
		if note(of, a); in(a.Err) == "badly" {
			between()
		}
	}
	r.s = kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second, Observer: observer})
	r.l = rlock.New(r.s, "orders", nil)
	ctx := holdfast.NewOwner(t.Context())
	h := kit.Lock(t, ctx, r.l)
	next := r.settled(t.Context())
	p.On(kit.ScriptNamed("rlock_acquire"), proxy.Answer(kit.LoadingReply), proxy.First)
	again := kit.GoLock(ctx, r.l.Lock)
	kit.Within(t, kit.LongestWait, failed, "a re-entry that fails")
	heir := r.release(h, next)
	busy := r.o.sum("attempt busy")
	close(goOn)
	kit.Await(t, "its next attempt", func() bool { return r.o.sum("attempt busy") > busy || len(again) > 0 })
	require.Empty(t, again, "somebody else has it")
	require.NoError(t, r.release(heir, again).Release())
	r.empty()
}

// Two calls of one owner that wait: the one that gets the lock is re-entered by the other. Nothing is tried in vain on
// and on because nothing can be handed over to them.
func TestTwoCallsOfOneOwnerThatWait(t *testing.T) {
	t.Parallel()
	for range 5 {
		r := newRelay(t, 30*time.Second) // so that nothing is renewed meanwhile
		ctx := holdfast.NewOwner(t.Context())
		h := r.lock()
		first := r.settled(ctx)
		second := r.next(ctx, r.l.Lock)
		r.srv.ResetStats(t)
		require.NoError(t, h.Release())
		one := kit.Granted(t, kit.LongestWait, first, "the first")
		other := kit.Granted(t, kit.LongestWait, second, "the second")
		require.LessOrEqual(t, r.srv.CommandStats(t)["evalsha"], int64(8), "calls")
		require.Equal(t, one.ID(), other.ID())
		r.requireCount(ctx, 2, "of the owner")
		require.NoError(t, one.Release())
		require.NoError(t, other.Release())
		r.empty()
	}
}

// The lock does not stay in a session when renewals fail: nobody there could trust it for long.
func TestWhatIsNotRenewedIsNotHandedOver(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	srv, p := kit.StartProxied(t)
	r := newRelayAt(t, srv, p.Addr(), lease)
	p.On(kit.ScriptNamed("lock_renew"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	require.NoError(t, r.handOver(r.lock(), r.next(t.Context(), r.l.Lock)).Release(), "while it is fresh")
	h := r.lock() // and a turn of its own
	next := r.next(t.Context(), r.l.Lock)
	still := kit.Stillness()
	kit.SleepUntil(h.Deadline().Add(-lease/12 + 50*time.Millisecond))
	if err := h.Release(); err != nil && still() > lease/24 { // the end of trust may have passed meanwhile
		require.ErrorIs(t, err, holdfast.ErrLost)
	} else {
		require.NoError(t, err)
	}
	heir := kit.Granted(t, kit.LongestWait, next, "the next call")
	require.NotEqual(t, h.ID(), heir.ID())
	require.NoError(t, heir.Release())
	r.empty()
}

// A call that got the lock inside the session leaves its place in the line on the server to whoever comes. The server
// forgets such a place, so who comes later takes another one, and hears of the release.
func TestAPlaceThatTheServerHasForgottenIsTakenAnew(t *testing.T) {
	t.Parallel()
	r := newRelay(t, 30*time.Second)
	h := r.lock()
	first := r.settled(t.Context())
	kit.Await(t, "a place in the line", func() bool { return r.srv.Int(t, "LLEN", lineKey) == 1 })
	h = r.handOver(h, first)
	r.srv.Do(t, "DEL", lineKey, aliveKey)
	kit.SleepUntil(time.Now().Add(3 * time.Second)) // it would take a quarter of a minute
	next := r.next(t.Context(), r.l.Lock)
	require.NoError(t, h.Release())
	require.NoError(t, kit.Granted(t, kit.Told, next, "the next one").Release())
}

// If somebody frees by force what was handed over, the first in the line may be a place that its session has for nobody
// any more. It is given up at once, and the next one gets the lock.
func TestForceGrantsNothingToAPlaceThatNobodyHas(t *testing.T) {
	t.Parallel()
	r := newRelay(t, 30*time.Second)
	other, third := kit.Open(t, r.srv.Addr(), nil), kit.Open(t, r.srv.Addr(), nil)
	hold := r.lock()
	heir := r.settled(t.Context()) // stands in the line on the server
	kit.Await(t, "the heir in the line", func() bool { return r.srv.Int(t, "LLEN", lineKey) == 1 })
	next := kit.GoLock(t.Context(), rlock.New(other, "orders", nil).Lock)
	kit.Await(t, "another one in the line", func() bool { return r.srv.Int(t, "LLEN", lineKey) == 2 })
	has := r.handOver(hold, heir)
	kit.AwaitHandOn(t, r.srv)
	was, err := rlock.New(third, "orders", nil).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.NoError(t, kit.Granted(t, kit.Told, next, "who stands behind it").Release())
	_ = has.Release()
	r.empty()
}
