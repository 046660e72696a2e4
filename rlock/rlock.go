// Package rlock is the reentrant lock, Redisson's RLock: one holder at a time, who may take
// it again. With [Options] it is also Redisson's fenced lock (RFencedLock), non-reentrant lock and
// spin lock. All of them share keys, fields, channels and messages with Java.
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
// Use one kind for one name. Under the name of a read-write lock, or of what is no lock, calls fail with
// [holdfast.ErrWrongKind]; under that of a fair lock, a call may overtake its queue.
package rlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
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

	// TokenTTL has the server forget the last token when none has been issued for so long; it needs Fenced. Tokens then
	// are the server's clock in microseconds since 1970, or one more than the last if that is not lower, so none is
	// lower than one before it: not when the key has expired, whatever the clock does meanwhile; nor when the key was
	// lost in another way, by a failover or by hand, unless the clock lags behind. They exceed 32 bits, and stay below
	// 2^53 until the year 2255.
	//
	// All who take the lock with tokens should set it. Who does not, such as Redisson, begins at 1 if there is no key: the
	// resource refuses that until one is issued here again. So only keys that are made here expire; one without a time
	// to live, which others may have made, keeps none. Those that are left from before may be deleted by hand once
	// all set it. It is at least a minute; take a longer time than any during which only others use the lock. The
	// default, 0, keeps the key for ever, as Redisson does.
	TokenTTL time.Duration

	// NonReentrant gives an owner that holds the lock and asks for it again
	// [holdfast.ErrAlreadyHeld] at once, instead of a nested hold.
	NonReentrant bool

	// Backoff makes a waiting Lock poll instead of subscribing to the lock's channel, as
	// Redisson's spin lock does. It sleeps Backoff(n), at least 1 ms, after the n-th attempt,
	// counted from 1. See [Exponential]. Of a session's polling callers one polls at a time, in
	// the order in which they came, and a release in the session ends its pause. Callers that
	// subscribe do not wait behind them. The default, nil, subscribes.
	Backoff func(attempt int) time.Duration
}

// Exponential is a back-off for [Options.Backoff]. It starts at least, doubles with each attempt up
// to most, and takes a random time between half and all of that, so that the waiters of a lock
// spread. Redisson's is much like Exponential(time.Millisecond, 128*time.Millisecond).
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
	if o.TokenTTL > 0 {
		p.tokenTTL = lease.Millis(o.TokenTTL)
	}
	set := kind.Settings{FixedLease: o.FixedLease, NonReentrant: o.NonReentrant, Backoff: o.Backoff, TellsAge: true}
	if !o.Fenced {
		set.Together = &together
		set.HandsOver = true
	}
	var calls kind.Protocol = p
	if o.Backoff == nil {
		calls = lined{p}
	}
	label := session.Label{Kind: "rlock", Name: name}
	core.InitLock(p.lock(), (*session.Session)(s), calls, label, set, wire.LockChannel)
	p.lock().Refuse(o.mistake())
	keys := keysOf(p.lock().Key())
	p.keys = [...]string{cmp.Or(p.keys[0], keys[0]), keys[1], keys[2]}
	return &p.mutex
}

// minTokenTTL is longer than a copy of a call may be under way, which finds the token of the call.
const minTokenTTL = time.Minute

// mistake is what is wrong with the options, nil if nothing is.
func (o *Options) mistake() error {
	switch {
	case o.TokenTTL != 0 && !o.Fenced:
		return fmt.Errorf("Options.TokenTTL is %v, which needs Options.Fenced", o.TokenTTL)
	case o.TokenTTL != 0 && o.TokenTTL < minTokenTTL:
		return fmt.Errorf("Options.TokenTTL is %v, must be 0 or at least %v", o.TokenTTL, minTokenTTL)
	}
	return nil
}

func (m *Mutex) lock() *core.Lock { return (*core.Mutex)(&m.Mutex).Inside() }

// Waiters returns which sessions wait for the lock, in the order in which releases hand it to them. A session stands
// in this line once, however many of its calls wait; the ID is the owner under which it stands. Its Alive starts anew
// every few seconds. Dead waiters are listed until somebody notices.
//
// Others are not listed: callers that poll ([Options.Backoff]) or take several locks with one command, Redisson's
// waiters, and a session of which the server has not confirmed yet that it listens.
func (m *Mutex) Waiters(ctx context.Context) ([]holdfast.Waiter, error) {
	keys := keysOf(m.lock().Key())
	found, err := holders.Waiters(ctx, m.lock(), keys[0], keys[1])
	all := make([]holdfast.Waiter, len(found))
	for i, w := range found {
		all[i] = holdfast.Waiter(w)
	}
	return all, err
}

// LastToken returns the last fencing token that was issued for the lock, whoever got it, and whether anybody holds the
// lock by now; 0 if there was none, or the server has forgotten it. It needs no hold and no [Options.Fenced], asks the
// master, and blocks for a round trip. It corresponds to getToken().
//
// It is for who guards a resource, or looks at it from outside. It says nothing about the caller: to show that it
// holds the lock, a holder needs [holdfast.Hold.Token], since by now somebody else may have the last one.
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
