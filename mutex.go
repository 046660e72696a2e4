package holdfast

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Mutex is a lock of one name: of package rlock or setlock, a fair one of package fairlock, or a half of
// a read-write lock of package rwlock, which say what is special about each. It is immutable and safe for
// concurrent use; make it once or at every use, as you like. Two values of the same session, kind and name
// are the same lock, whatever their options. Options concern the holds and the waits of the value.
//
// The zero value is not usable. Only the packages above make one.
type Mutex core.Mutex

var _ Locker = (*Mutex)(nil)

func (m *Mutex) core() *core.Lock { return (*core.Mutex)(m).Inside() }

func init() {
	core.LockOf = func(lock any) *core.Lock {
		if l, ok := lock.(interface{ core() *core.Lock }); ok { // also of a type that embeds a Mutex
			return l.core()
		}
		return nil
	}
}

// Name is the lock's name as the caller gave it.
func (m *Mutex) Name() string { return m.core().Name }

// Lock takes the lock. It waits until the lock is free or ctx ends, and waits out an outage of the server.
// It corresponds to lock() and lock(leaseTime).
//
// After an error nothing is held, and what a lost reply may have left is given back in the background. The
// error matches ctx.Err() and its cause if ctx ended first, [ErrClosed] if the session did,
// [ErrAlreadyHeld] if the lock does not re-enter and this owner has it, and [ErrDeadlock] if owners wait for
// each other and [Options.BreakDeadlocks] is set. It matches [ErrLost] if this call was to re-enter a hold
// of its owner and that hold is lost, and [ErrWrongKind] if the name is that of another kind. Anything else is
// the server's refusal, in its own words.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	h, err := m.core().Lock(ctx, "lock", session.Forever)
	return (*Hold)(h), err
}

// TryLock makes one attempt and does not wait: [ErrBusy] says that somebody else has the lock. It blocks
// for a round trip. If the reply is lost, the attempt is repeated for up to a third of the lease, at most a
// minute, and then given up and undone: that is [ErrUnknown]. Its other errors are those of
// [Mutex.Lock]. After an error nothing is held. It corresponds to tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	h, err := m.core().Lock(ctx, "try lock", 0)
	return (*Hold)(h), err
}

// TryLockFor waits as [Mutex.Lock] does, but at most for the time given, and then fails with [ErrBusy]. Of
// ctx and wait the first to end decides, ctx if they end together. A wait of zero or less is one attempt.
// It corresponds to tryLock(waitTime, leaseTime).
//
// If the server did not answer in the end, that is the error instead, or [ErrUnknown] if an attempt was cut
// off, which takes up to 0.1 s more.
func (m *Mutex) TryLockFor(ctx context.Context, wait time.Duration) (*Hold, error) {
	h, err := m.core().Lock(ctx, "try lock for", wait)
	return (*Hold)(h), err
}

// Locked reports whether anybody holds the lock. Like all questions below it asks the master. It
// corresponds to isLocked().
func (m *Mutex) Locked(ctx context.Context) (bool, error) { return holders.Locked(ctx, m.core()) }

// Held reports whether the owner that ctx carries holds the lock; false without an owner. It corresponds to
// isHeldByCurrentThread().
func (m *Mutex) Held(ctx context.Context) (bool, error) { return holders.Held(ctx, m.core()) }

// HoldCount returns how often the owner that ctx carries holds the lock; 0 without an owner. It corresponds
// to getHoldCount().
func (m *Mutex) HoldCount(ctx context.Context) (int, error) { return holders.HoldCount(ctx, m.core()) }

// RemainingLease returns how long the lock stays taken at least if nobody renews or releases it: 0 if nobody
// holds it, below zero if it has no end, which only another program can have caused. It corresponds to
// remainTimeToLive().
func (m *Mutex) RemainingLease(ctx context.Context) (time.Duration, error) {
	return holders.RemainingLease(ctx, m.core())
}

// Holders returns who holds the lock: nobody or one, and of a read half all readers, in no order, each with
// its longest lease. A holder that died is listed until its lease has run out.
func (m *Mutex) Holders(ctx context.Context) ([]Holder, error) {
	found, err := holders.All(ctx, m.core())
	if err != nil {
		return nil, err
	}
	all := make([]Holder, len(found))
	for i, h := range found {
		all[i] = Holder{
			ID: h.ID, Count: h.Count, Lease: h.Lease, Note: h.Note,
			Host: h.Host, PID: h.PID, Program: h.Program, Label: h.Label, Started: h.Started,
		}
	}
	return all, nil
}

// A State is what a lock is in, as [Mutex.Watch] tells it.
type State int

const (
	// Free says that nobody holds the lock.
	Free State = iota
	// Held says that somebody does.
	Held
	// Expired says that nobody holds the lock, because the lease of the last holder ran out: it died or was cut off, or
	// it did not release in the time that it had. A release that is not heard of, in the last seconds of a lease, looks
	// the same.
	Expired
)

// String returns "free", "held" or "expired".
func (s State) String() string {
	switch s {
	case Free:
		return "free"
	case Held:
		return "held"
	}
	return "expired"
}

// Watch tells whether somebody holds the lock: its state, and then each change, until ctx ends or the loop does.
//
//	for state, err := range lock.Watch(ctx) {
//		if err != nil {
//			return err
//		}
//		log.Print(state)
//	}
//
// After each change the last state told is the true one. A release is told at once if it is published, and a lease that
// runs out when it is over. Nothing is published when a lock is taken; nor when a fair lock is released, by Redisson's
// spin lock, or by other libraries that share a setlock: that is told within 6 s. What changes and changes back between
// two looks, or while the loop's body runs, is not told at all; so a lock that passes from one holder to the next stays
// Held. The same state never comes twice in a row.
//
// Watch waits out an outage of the server, and tells then what has become of the lock. An error is the last that it
// tells, and the state beside it means nothing: the error matches ctx.Err() and its cause if ctx ended, [ErrClosed] if
// the session did, and is the server's refusal otherwise.
//
// It costs a subscription, one look for each message on it, one when the lease in the way would be over, and one every
// 4 to 6 s. It holds up nobody who wants the lock, except that a release of a read-write lock or a setlock takes the
// watching session for one that waits. It corresponds to addListener() of listeners that hear of expired and deleted
// objects, and needs no keyspace events.
func (m *Mutex) Watch(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		err := holders.Watch(ctx, m.core(), func(s holders.State) bool { return yield(State(s), nil) })
		if err != nil {
			yield(Free, err)
		}
	}
}

// ForceUnlock frees the lock whoever holds it, and wakes those who wait. It reports whether the lock was held.
// The holder learns of it at its next renewal or release, and at once if it is of this session.
// [ErrUnknown] says that the lock may have been freed, or may yet be, within a third of the lease and at
// most a minute; a call that is executed later than that frees nobody's lock. It corresponds to
// forceUnlock().
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) { return m.core().ForceUnlock(ctx) }
