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
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Mutex is a reentrant lock of one name. It is immutable and safe for concurrent use; make
// it once or at every use, as you like. Two values of the same session and name are the same
// lock, whatever their options, which concern the holds that are taken through them.
type Mutex struct {
	lock core.Lock
	opts Options
}

var _ holdfast.Locker = (*Mutex)(nil)

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
	m := &Mutex{}
	if opts != nil {
		m.opts = *opts
	}
	set := core.Settings{
		FixedLease: m.opts.FixedLease, NonReentrant: m.opts.NonReentrant, Backoff: m.opts.Backoff, TellsAge: true,
	}
	if !m.opts.Fenced {
		set.Together = &together
	}
	core.InitLock(&m.lock, (*core.Session)(s), (*protocol)(m), core.Label{Kind: "rlock", Name: name}, set, wire.LockChannel)
	return m
}

// Name is the lock's name as it was given to [New].
func (m *Mutex) Name() string { return m.lock.Name }

// Inside is of no use outside this module, where its result has no name: package multilock asks by it.
func (m *Mutex) Inside() *core.Lock { return &m.lock }

// Lock takes the lock, waiting until it is free or ctx ends; an outage of the server is
// waited out as well. It corresponds to lock() and lock(leaseTime). An error that matches
// ctx.Err() and its cause says that ctx ended first, [holdfast.ErrClosed] that the session
// did, [holdfast.ErrAlreadyHeld] that a non-reentrant lock is this owner's own, [holdfast.ErrLost]
// that this owner's hold, which the call was to enter again, is lost; anything else is the server's
// refusal, in its own words. After an error nothing is held: what a lost reply
// may have left is given back in the background.
func (m *Mutex) Lock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := m.lock.Lock(ctx)
	return (*holdfast.Hold)(h), err
}

// TryLock makes one attempt and does not wait for the holder; [holdfast.ErrBusy] says that
// there is one. It corresponds to tryLock(). It blocks for a round trip. If the reply is lost
// the attempt is repeated for up to a third of the lease, a minute at the most, then given up and
// undone: that is [holdfast.ErrUnknown]. Its other errors are Lock's. After an error nothing is held.
func (m *Mutex) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := m.lock.TryLock(ctx)
	return (*holdfast.Hold)(h), err
}

// TryLockFor waits as Lock does, but at most for the time given, and then fails with
// [holdfast.ErrBusy]. Of ctx and wait the first to end decides, ctx if they end together. It
// corresponds to tryLock(waitTime, leaseTime). A wait of zero or less is one attempt.
//
// If the server did not answer in the end, it fails with that instead, or with [holdfast.ErrUnknown] if
// an attempt was cut off, which takes up to 0.1 s more.
func (m *Mutex) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	h, err := m.lock.TryLockFor(ctx, wait)
	return (*holdfast.Hold)(h), err
}

// Locked reports whether anybody holds the lock. It asks the master, as all these do. It
// corresponds to isLocked().
func (m *Mutex) Locked(ctx context.Context) (bool, error) {
	return m.lock.Locked(ctx)
}

// Held reports whether the owner that ctx carries holds the lock; false without an owner. It
// corresponds to isHeldByCurrentThread().
func (m *Mutex) Held(ctx context.Context) (bool, error) {
	return m.lock.Held(ctx)
}

// HoldCount returns how often the owner that ctx carries holds the lock; 0 without an owner.
// It corresponds to getHoldCount().
func (m *Mutex) HoldCount(ctx context.Context) (int, error) {
	return m.lock.HoldCount(ctx)
}

// RemainingLease returns how long the lock stays taken at least if nobody renews or releases
// it: 0 if nobody holds it, below zero if it has no end, which only another program can have
// brought about. It corresponds to remainTimeToLive().
func (m *Mutex) RemainingLease(ctx context.Context) (time.Duration, error) {
	return m.lock.RemainingLease(ctx)
}

// Holders returns who holds the lock: nobody, or one.
func (m *Mutex) Holders(ctx context.Context) ([]holdfast.Holder, error) {
	return core.Holders[holdfast.Holder](ctx, &m.lock)
}

// ForceUnlock frees the lock whoever holds it and wakes those who wait; it reports whether it
// was held. The holder learns it at its next renewal or release; at once if it is of this
// session. [holdfast.ErrUnknown] says that it may have been freed, or may yet be, within a
// third of the lease, a minute at the most: a call that comes later frees nobody's lock. It
// corresponds to forceUnlock().
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	return m.lock.Force(ctx, "force unlock", func(notAfter int64) *script.Call {
		return script.NewCall(forceScript).Key(m.lock.Key()).Arg(m.lock.Publish(), m.lock.Channel).Int(notAfter)
	})
}
