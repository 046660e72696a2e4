package core

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A bubble has a session whose server does not hear of anything, and whose time passes at once.
type bubble struct {
	*keeper
	lock *Lock
	mu   sync.Mutex
	held []time.Duration // for which holds were held that are lost
}

// inBubble runs a test in a bubble, with holds that are renewed for at most that long; 0: for ever. Its lease is 30 s,
// of which 29.65 s are trusted.
func inBubble(t *testing.T, most time.Duration, test func(t *testing.T, b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{}
		s := session.New(session.Config{
			Client: noServer{}, Lease: 30 * time.Second, MaxHold: most, Logger: slog.New(slog.DiscardHandler),
			Lost: func(_ string, held time.Duration, _ error) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.held = append(b.held, held)
				return session.ErrLost
			},
		})
		k := &keeper{session: s}
		k.debts.Init(s)
		k.dog = lease.NewWatchdog(s.Now, s.Lease(), func(f func()) { s.Start(f) }, func([]*grant) {}, (*grant).look)
		s.Start(func() { k.dog.Run(s.Context()) })
		defer func() { assert.NoError(t, s.Close()) }()
		b.keeper = k
		b.lock = b.of(0)
		test(t, b)
	})
}

// of is a lock of the bubble; its holds are renewed unless it has a fixed lease.
func (b *bubble) of(fixed time.Duration) *Lock {
	return &Lock{
		Object: session.NewObject(b.session, session.Label{}, nil), Settings: &kind.Settings{FixedLease: fixed},
		keeper: b.keeper, protocol: bare{},
	}
}

// granted is what the server has answered just now.
func (b *bubble) granted() *answer {
	return &answer{Reply: script.Reply{Sent: b.session.Now(), At: b.session.Now()}}
}

// take takes the lock.
func (b *bubble) take(l *Lock) *Single {
	return new(outermost).begin(l, new(claim), "wire", b.granted(), 0)
}

// nest takes it once more.
func (b *bubble) nest(l *Lock, g *grant) *Single {
	h, a := new(Single), b.granted()
	h.init(l, g, a.At, a.trust(l))
	g.add(h, a.Sent)
	return h
}

// A lease that turns out to be shorter ends what depends on it, though nobody looks, and nothing is renewed.
func TestALeaseThatIsShorterThanBelievedEndsInTime(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		h, other := b.take(b.lock), b.take(b.of(time.Hour)) // without a timer, so the watchdog looks
		var ended atomic.Bool
		h.Watch(func(error) { ended.Store(true) })
		for _, hold := range []*Single{h, other} {
			hold.grant.Gone() // else it is given back
			hold.grant.lasting()(b.session.Now(), 8*time.Second)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		assert.False(t, ended.Load())
		assert.Nil(t, other.ended.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.True(t, ended.Load())
		assert.NotNil(t, other.ended.Load())
	})
}

// A hold without a renewal ends in time though nobody looks, beside others that last for longer or are renewed.
func TestWhatIsNotRenewedEndsInTime(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		outer := b.take(b.of(time.Minute))
		g := outer.grant
		inner, last := b.nest(b.of(10*time.Second), g), b.nest(b.of(time.Hour), g)
		assert.Equal(t, inner.Trust(), g.look())
		renewed := b.nest(b.lock, g)
		assert.False(t, b.dog.Rests(g))
		require.NoError(t, renewed.finish(detachedEnd))
		assert.True(t, b.dog.Rests(g), "nothing is renewed any more")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.NotNil(t, inner.ended.Load())
		time.Sleep(50 * time.Second)
		synctest.Wait()
		assert.NotNil(t, outer.ended.Load())
		assert.Nil(t, last.ended.Load())
		require.NoError(t, last.finish(detachedEnd))
		assert.False(t, b.dog.Any())
	})
}

// A grant is renewed until its outermost hold has been held for too long, and what is nested in it goes on.
func TestARenewedGrantOfTheLongestTime(t *testing.T) {
	inBubble(t, time.Minute, func(t *testing.T, b *bubble) {
		outer := b.take(b.lock)
		g := outer.grant
		time.Sleep(20 * time.Second)
		outer.prolong(b.session.Now(), b.session.Now()+time.Minute)
		inner := b.nest(b.lock, g)
		inner.prolong(b.session.Now(), b.session.Now()+time.Hour)
		assert.Len(t, b.withinMax([]*grant{g}), 1)
		time.Sleep(40 * time.Second)
		assert.Empty(t, b.withinMax([]*grant{g}))
		assert.True(t, b.dog.Rests(g))
		require.ErrorContains(t, outer.failure(), "MaxHold")
		require.NoError(t, outer.finish(detachedEnd))
		assert.False(t, b.dog.Rests(g), "the other one has not been held for that long")
		require.NoError(t, inner.finish(detachedEnd))
	})
}

// Nothing is given back of what the server does not have.
func TestWhatTheServerDoesNotHaveIsNotOwed(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		h := b.take(b.lock)
		h.grant.lose(b.session.Now())
		require.ErrorIs(t, h.Err(), session.ErrLost)
		assert.False(t, b.debts.Owes("wire"))
	})
}

// No late renewal revives a hold, and one that comes in time moves its end, whoever looks.
func TestARenewalMovesTheEndOfAHoldThatIsTrusted(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		h := b.take(b.lock)
		trust := h.Trust()
		var ended atomic.Bool
		h.Watch(func(error) { ended.Store(true) })
		time.Sleep(10 * time.Second)
		h.prolong(b.session.Now(), trust+10*time.Second)
		time.Sleep(trust - b.session.Now())
		synctest.Wait()
		assert.False(t, ended.Load())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.True(t, ended.Load())

		late := b.take(b.lock)
		held := late.Trust() - b.session.Now()
		time.Sleep(time.Minute)
		late.prolong(b.session.Now(), b.session.Now()+time.Minute)
		assert.NotNil(t, late.ended.Load())
		assert.Equal(t, []time.Duration{trust + 10*time.Second, held}, b.held, "until they were trusted no longer")
	})
}

// That the server has nothing of a hold is why it is lost, unless it was lost before.
func TestWhyAHoldIsLost(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		for after, why := range map[time.Duration]error{0: nil, time.Minute: errTrimming} {
			h := b.take(b.lock)
			h.setFailure(errTrimming)
			time.Sleep(after)
			h.grant.lose(b.session.Now())
			assert.Equal(t, why, h.failure())
		}
	})
}

// What the owner has lost without noticing is not in its own way.
func TestAnOwnerIsNotBlockedByWhatItHasLost(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		b.lock.NonReentrant = true
		ctx, cancel := context.WithCancel(NewOwner(t.Context()))
		cancel() // so that nothing is sent
		a := newAcquisition()
		a.lock = b.lock
		a.init(ctx)
		a.begins()
		h := new(outermost).begin(b.lock, a.claim, "wire", b.granted(), 0)
		_, _, err := a.tryTo(ctx)
		require.ErrorIs(t, err, session.ErrAlreadyHeld)
		time.Sleep(30 * time.Second)
		_, _, err = a.tryTo(ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.NotNil(t, h.ended.Load())
	})
}

// A call without a reply may stand in the line of sessions, also if the next one does not, and finds the lock taken.
func TestACallWithoutAReplyMayStand(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		l := b.lock
		l.protocol, l.lined = lined{lock: l}, true
		lost := &script.Failure{Class: script.Unknown, Temporary: true, Err: session.ErrNoReply}
		for _, stands := range []bool{true, false} {
			a := newAcquisition()
			a.lock, a.Wire, a.answer = l, "wire", b.granted()
			_, _, err := a.entered(t.Context(), stands, lost)
			require.ErrorIs(t, err, lost)
			assert.Equal(t, lease.Add(a.answer.Sent, l.NotAfter()), a.Copies)
			*a.answer = answer{Reply: script.Reply{Sent: a.Copies, At: a.Copies, Code: script.Busy}}
			_, _, err = a.entered(t.Context(), false, nil)
			require.ErrorIs(t, err, session.ErrBusy)
			assert.Zero(t, a.Copies)
			assert.Equal(t, stands, a.Stands)
		}
	})
}

// A call looks at once if nobody of its session waits, or if its owner has the lock; and is woken when that gets it.
func TestWhoLooksAtOnce(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		call := func(ctx context.Context) *acquisition {
			a := newAcquisition()
			a.lock = b.lock
			a.init(ctx)
			return a
		}
		mine, stranger := NewOwner(t.Context()), NewOwner(t.Context())
		first := call(mine)
		assert.True(t, first.looksAtOnce())
		place := first.join()
		second, other := call(mine), call(stranger)
		assert.False(t, second.looksAtOnce())

		h := new(outermost).begin(b.lock, first.claim, "wire", b.granted(), 0)
		began := time.Now()
		require.NoError(t, place.Sleep(t.Context(), time.Hour))
		assert.True(t, second.looksAtOnce())
		late := second.join()
		require.NoError(t, late.Sleep(t.Context(), time.Hour))
		assert.Equal(t, began, time.Now())
		assert.False(t, other.looksAtOnce())
		late.Leave(0)
		place.Leave(0)
		assert.True(t, other.looksAtOnce())
		require.NoError(t, h.finish(detachedEnd))
	})
}

// What is held for long is told of the outermost hold of each name.
func TestWhatIsHeldForLongIsTheOutermost(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		outer := b.take(b.lock)
		time.Sleep(10 * time.Second)
		inner := b.nest(b.lock, outer.grant)
		var all []session.Identified
		b.HeldSince(-1, 5*time.Second, func(h session.Held) { all = append(all, h.Of) })
		assert.Equal(t, []session.Identified{outer}, all)
		for _, h := range []*Single{inner, outer} {
			require.NoError(t, h.finish(detachedEnd))
		}
		b.HeldSince(-1, time.Minute, func(session.Held) { t.Error("nothing is held any more") })
	})
}
