// Package fairlock is the fair lock, Redisson's RFairLock: a reentrant lock that is granted in
// the order in which it was asked for, across processes and languages. It shares the queue with
// Java, in which each waiter has a place and a channel of its own; only the next one is woken.
//
//	hold, err := fairlock.New(session, "orders:42", nil).Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//
// A waiter that lives never loses its place, however long the holder holds: it tells the server
// that it is alive. One that died costs the others [Options.WaiterLease] at most; Redisson's own
// waiters have no such sign of life and cost what Redisson makes them cost, by default 5
// minutes. A process that was stopped, or cut off from the server, for longer than WaiterLease
// queues up anew, at the end.
//
// A fair lock costs more than an rlock: each waiter makes a call every few seconds, and a lock
// that is handed on waits for the next one's process to wake. Where order does not matter, use
// an rlock. Do not use both on one name: an rlock does not know the queue.
//
// Nor use two names of which one is the other in braces, such as x and {x}: Redisson's queue of
// both is the same. Whoever stands first in it waits for its own lock, and all others behind it,
// also those for whom the other lock is free.
package fairlock

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Mutex is a fair lock of one name. It is immutable and safe for concurrent use; make it once
// or at every use, as you like. Two values of the same session and name are the same lock,
// whatever their options, which concern the holds and the waits that are made through them.
type Mutex struct {
	lock     core.Lock
	keys     [5]string // as scripts take them
	wait     string    // Options.WaiterLease, likewise
	javaWait string
}

var _ holdfast.Locker = (*Mutex)(nil)

// Options tune a Mutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time; they are never renewed. The
	// least is 10 ms. The default, 0, renews them until they are released, with the lease of
	// the session. It is the leaseTime of Redisson's lock methods.
	FixedLease time.Duration

	// WaiterLease is how long a waiter that died may keep the others waiting; a live one tells
	// the server that it is alive in a third of it, and at least every 5 s or so. From 1 s to
	// 1 h; the default is 15 s. Clocks of Java hosts may be ahead of the server's by up to two
	// thirds of it. That a connection has fallen silent is noticed after up to a third of the
	// session's lease: with a WaiterLease of less than half of that lease, places are lost then.
	WaiterLease time.Duration

	// JavaWait is the longest time for which any Java process waits for this lock: Redisson's
	// fairLockWaitTimeout, or the longest waitTime of its tryLock if that is longer. Up to 24 h;
	// the default is Redisson's, 5 minutes. If it is too short, Java may drop live waiters of
	// this toolkit, which come back to their places within a third of WaiterLease. Where no
	// Java process uses the lock it is of no effect.
	JavaWait time.Duration

	// NonReentrant has an owner that holds the lock and asks for it again get
	// [holdfast.ErrAlreadyHeld], at once, instead of a nested hold.
	NonReentrant bool
}

// Defaults of Options.
const (
	defaultWaiterLease = 15 * time.Second
	defaultJavaWait    = 5 * time.Minute
)

// New returns the fair lock of that name. It sends nothing and cannot fail: a mistake in the
// name or the options comes back from the first call.
func New(s *holdfast.Session, name string, opts *Options) *Mutex {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.WaiterLease = orDefault(o.WaiterLease, defaultWaiterLease)
	o.JavaWait = orDefault(o.JavaWait, defaultJavaWait)
	m := &Mutex{wait: lease.Millis(o.WaiterLease), javaWait: lease.Millis(o.JavaWait)}
	p := (*protocol)(m)
	core.InitLock(&m.lock, (*core.Session)(s), p, core.Label{Kind: "fairlock", Name: name}, core.Settings{
		FixedLease: o.FixedLease, NonReentrant: o.NonReentrant,
		Queue: true, Leaver: p, WaiterLease: o.WaiterLease, Err: o.mistake(),
	}, wire.FairChannel)
	key := m.lock.Key()
	m.keys = [...]string{key, wire.FairQueue(key), wire.FairDue(key), wire.FairOurs(key), wire.FairAlive(key)}
	return m
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func (o *Options) mistake() error {
	if o.WaiterLease < time.Second || o.WaiterLease > time.Hour {
		return fmt.Errorf("Options.WaiterLease is %v, must be 0 or from 1s to 1h", o.WaiterLease)
	}
	if o.JavaWait < 0 || o.JavaWait > 24*time.Hour {
		return fmt.Errorf("Options.JavaWait is %v, must be from 0 to 24h", o.JavaWait)
	}
	return nil
}

// Name is the lock's name as it was given to [New].
func (m *Mutex) Name() string { return m.lock.Name }

// Inside is of no use outside this module, where its result has no name: package multilock asks by it.
func (m *Mutex) Inside() *core.Lock { return &m.lock }

// Lock takes the lock, waiting in the queue until it is its turn or ctx ends; an outage of the
// server is waited out as well. It corresponds to lock() and lock(leaseTime). An error that
// matches ctx.Err() and its cause says that ctx ended first, [holdfast.ErrClosed] that the
// session did, [holdfast.ErrAlreadyHeld] that a non-reentrant lock is this owner's own, [holdfast.ErrLost]
// that this owner's hold, which the call was to enter again, is lost; anything else is the server's refusal, in its own words. After an error nothing is held and no place is
// kept: the place, and what a lost reply may have left, are given back in the background, at
// once. An owner that holds the lock does not queue.
func (m *Mutex) Lock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := m.lock.Lock(ctx)
	return (*holdfast.Hold)(h), err
}

// TryLock makes one attempt, without a place in the queue, and overtakes nobody:
// [holdfast.ErrBusy] says that there is a holder or somebody waits. It corresponds to tryLock().
// It blocks for a round trip. If the reply is lost the attempt is repeated for up to a third of
// the lease, a minute at the most, then given up and undone: that is [holdfast.ErrUnknown]. Its other errors
// are Lock's. After an error nothing is held.
func (m *Mutex) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := m.lock.TryLock(ctx)
	return (*holdfast.Hold)(h), err
}

// TryLockFor waits as Lock does, but at most for the time given, and then leaves the queue and
// fails with [holdfast.ErrBusy]. Of ctx and wait the first to end decides, ctx if they end
// together. It corresponds to tryLock(waitTime, leaseTime). A wait of zero or less is one
// attempt.
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

// Waiters returns who waits for the lock, the next one first. Of a waiter of Redisson's, Alive
// is what Redisson goes by. Waiters that died are listed until somebody notices.
func (m *Mutex) Waiters(ctx context.Context) ([]holdfast.Waiter, error) {
	return core.Waiters[holdfast.Waiter](ctx, &m.lock, script.NewCall(waitersScript).Key(m.keys[1], m.keys[2], m.keys[4]))
}

// ForceUnlock frees the lock whoever holds it and wakes the next in the queue; it reports
// whether it was held. The holder learns it at its next renewal or release; at once if it is of
// this session. [holdfast.ErrUnknown] says that it may have been freed, or may yet be, within a
// third of the lease, a minute at the most: a call that comes later frees nobody's lock. It
// corresponds to forceUnlock().
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	return m.lock.Force(ctx, "force unlock", func(notAfter int64) *script.Call {
		p := (*protocol)(m)
		return p.call(forceScript).Arg(m.javaWait, m.lock.Publish(), m.lock.Channel).Int(notAfter)
	})
}
