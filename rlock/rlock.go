// Package rlock is the reentrant lock, Redisson's RLock: one holder at a time, who may take
// it again. By [Options] it is also the fenced lock (RFencedLock), the non-reentrant lock and
// the spin lock of Redisson. All of them share keys, fields, channels and messages with Java.
//
// Who holds a lock may take it again if the call is made under the same owner: with the
// context that [holdfast.Hold.Context] returns. Each Lock must be released once, in any order.
//
//	hold, err := rlock.New(session, "orders:42", nil).Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//	ctx = hold.Context(ctx)
//
// The lock does not stop a holder that keeps working after its lease has run out: for that,
// use [Options.Fenced] and hand [holdfast.Hold.Token] to the resource (docs/guarantees.md shows both sides).
package rlock

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Mutex is a reentrant lock of one name. Its methods are those of all locks.
type Mutex = holdfast.Mutex

// Options tune a Mutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time; they are never renewed. The
	// least is 10 ms. The default, 0, renews them until they are released, with the lease of
	// the session. It is the leaseTime of Redisson's lock methods.
	FixedLease time.Duration

	// Fenced issues a fencing token with each outermost hold, as RFencedLock does.
	Fenced bool

	// NonReentrant has an owner that holds the lock and asks for it again get
	// [holdfast.ErrAlreadyHeld], at once, instead of a nested hold.
	NonReentrant bool

	// Backoff makes a waiting Lock poll instead of subscribing to the lock's channel, as
	// Redisson's spin lock does: it sleeps Backoff(n) after the n-th attempt, counted from 1,
	// at least 1 ms. See [Exponential]. Of the callers of a session that poll for the lock one at
	// a time does, in the order in which they came; a release in their session ends the pause.
	// Those who subscribe do not wait behind them. The default, nil, subscribes.
	Backoff func(attempt int) time.Duration
}

// Exponential is a back-off for [Options.Backoff]: it starts at least, doubles with each
// attempt up to most, and takes a random time between half and all of that, so that those who
// wait for the same lock spread. Redisson's is much like Exponential(time.Millisecond,
// 128*time.Millisecond).
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
	set := core.Settings{FixedLease: o.FixedLease, NonReentrant: o.NonReentrant, Backoff: o.Backoff, TellsAge: true}
	if !o.Fenced {
		set.Together = &together
	}
	core.InitLock(&p.lock, (*core.Session)(s), p, core.Label{Kind: "rlock", Name: name}, set, wire.LockChannel)
	return (*Mutex)(&p.lock)
}
