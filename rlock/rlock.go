// Package rlock is the reentrant lock, Redisson's RLock: it has one holder at a time, who may take it again. With
// [Options] it is also Redisson's fenced lock (RFencedLock), non-reentrant lock and spin lock. All of them share keys,
// fields, channels and messages with Java.
//
// A holder may take the lock again if the call has the same owner, that is, the context that
// [holdfast.Hold.Context] returns. With the context from before the lock, the call waits for its
// own caller: a deadlock. Each Lock must be released once, in any order.
//
//	hold, err := rlock.New(session, "orders:42", nil).Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//	ctx = hold.Context(ctx)
//
// The lock does not stop a holder that keeps working after its lease has run out. For that, use
// [Options.Fenced] and hand [holdfast.Hold.Token] to the resource; docs/guarantees.md shows both
// sides.
//
// Use one kind for one name. If the name belongs to a read-write lock or to something that is no lock, calls fail with
// [holdfast.ErrWrongKind]; if it belongs to a fair lock, a call may overtake its queue.
package rlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Mutex is a reentrant lock of one name, with the methods of all locks and two of its own.
type Mutex struct{ holdfast.Mutex }

// Options tune a Mutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time, at least 10 ms; they are never
	// renewed. The default, 0, renews them with the lease of the session until they are
	// released. It is the leaseTime of Redisson's lock methods.
	FixedLease time.Duration

	// Fenced issues a fencing token with each outermost hold, as RFencedLock does.
	Fenced bool

	// TokenTTL makes the last token expire when no token has been issued for that long. It needs Fenced. Tokens are then
	// the server's clock in microseconds since 1970, or one more than the last token if the clock is not higher. So no
	// token is lower than an earlier one after the key has expired, whatever the clock does meanwhile. If the key was lost
	// in another way, by a failover or by hand, that holds unless the clock lags behind. Tokens exceed 32 bits, and stay
	// below 2^53 until the year 2255.
	//
	// All clients that take the lock with tokens should set it. A client that does not, such as Redisson, starts at 1 if
	// the key is missing. The resource then refuses its tokens until one is issued here again. So only keys that are made
	// here expire; a key without a time to live, which others may have made, gets none. Keys that are left from before may
	// be deleted by hand once all clients set it. TokenTTL must be at least a minute; choose more than the longest time
	// during which only others use the lock. The default, 0, keeps the key for ever, as Redisson does.
	TokenTTL time.Duration

	// NonReentrant gives an owner that holds the lock and asks for it again
	// [holdfast.ErrAlreadyHeld] at once, instead of a nested hold.
	NonReentrant bool

	// Backoff makes a waiting Lock poll instead of subscribing to the lock's channel, as Redisson's spin lock does. It
	// sleeps Backoff(n), at least 1 ms, after the n-th attempt, counted from 1. See [Exponential]. Only one of a session's
	// polling callers polls at a time, in the order in which they came, and a release in the session ends its pause.
	// Callers that subscribe do not wait behind them. A release is published all the same: without the right to publish
	// on the lock's channel, the server refuses it. The default, nil, subscribes.
	Backoff func(attempt int) time.Duration
}

// Exponential is a back-off for [Options.Backoff]. It starts at least, doubles with each attempt up to most, and
// returns a random time between half and all of that, so that the waiters of a lock spread out. Redisson's is much like
// Exponential(time.Millisecond, 128*time.Millisecond).
func Exponential(least, most time.Duration) func(attempt int) time.Duration {
	return wait.Exponential(least, most)
}

// New returns the lock of that name. It sends nothing and cannot fail: a mistake in the name
// or the options comes back from the first call.
func New(s *holdfast.Session, name string, opts *Options) *Mutex {
	var o Options
	if opts != nil {
		o = *opts
	}
	p := &protocol{fenced: o.Fenced}
	set := &usual
	if o.Fenced || o.NonReentrant || o.Backoff != nil || o.TokenTTL != 0 {
		set = &kind.Settings{NonReentrant: o.NonReentrant, Backoff: o.Backoff, Ages: true, TokenTTL: o.TokenTTL}
		if !o.Fenced {
			set.Together, set.HandsOver = usual.Together, usual.HandsOver
		}
	}
	var calls kind.Protocol = p
	if o.Backoff == nil {
		calls = lined{p}
	}
	label := session.Label{Kind: "rlock", Name: name}
	named := func(key string) (channel string) { return p.name(key, s.ID()) }
	core.InitLock(p.lock(), (*session.Session)(s), calls, label, set, o.FixedLease, named)
	p.lock().Refuse(kind.CheckTokens(o.Fenced, o.TokenTTL))
	return &p.mutex
}

func (m *Mutex) lock() *core.Lock { return (*core.Mutex)(&m.Mutex).Inside() }

// Waiters returns the sessions that wait for the lock, in the order in which releases hand it to them. A session stands
// in this line once, however many of its calls wait; the ID is the owner under which it stands. Its Alive is extended
// every few seconds. Dead waiters are listed until somebody notices.
//
// Other waiters are not listed: callers that poll ([Options.Backoff]) or take several locks with one command,
// Redisson's waiters, and a session whose subscription the server has not confirmed yet.
func (m *Mutex) Waiters(ctx context.Context) ([]holdfast.Waiter, error) {
	keys := keysOf(m.lock().Key())
	return holders.Waiters[holdfast.Waiter](ctx, m.lock(), keys[0], keys[1])
}

// LastToken returns the last fencing token that was issued for the lock, whoever got it and whether or not anybody
// holds the lock now. It is 0 if there was none or the server has forgotten it. It needs no hold and no
// [Options.Fenced], asks the master, and blocks for a round trip. It corresponds to getToken().
//
// Use it to guard a resource or to inspect it from outside. It says nothing about the caller: to show that it holds the
// lock, a holder needs [holdfast.Hold.Token], since somebody else may have the last token by now.
func (m *Mutex) LastToken(ctx context.Context) (token int64, err error) {
	c := script.NewCall(tokenScript).Key(wire.TokenKey(m.lock().Key()))
	err = m.lock().Run(ctx, "last token", c, func() error {
		n, err := c.ReadNumbers(nil)
		switch {
		case err != nil:
			return err
		case len(n) != 1:
			return c.Unexpected()
		}
		token = n[0]
		return nil
	})
	return token, err
}
