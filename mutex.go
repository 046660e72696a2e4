package holdfast

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/ask"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Mutex is a lock of one name: an rlock, a setlock, a fair lock, or one half of a read-write lock. Their packages say
// what is special about each. It is immutable and safe for concurrent use; make it once or at every use, as you like.
// Two values of the same session, kind and name are the same lock, whatever their options. Options apply to the holds
// and the waits of one value.
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
// After an error nothing is held, and what a lost reply may have left is given back in the background. The error
// matches ctx.Err() and its cause if ctx ended first, [ErrClosed] if the session did, [ErrAlreadyHeld] if the lock does
// not re-enter and this owner has it, and [ErrDeadlock] if owners wait for each other and [Options.BreakDeadlocks] is
// set. It matches [ErrLost] if the call should have re-entered a hold of its owner and that hold is lost, or if the
// lock is lost while replicas are waited for ([Options.Acks]), [ErrNotAcknowledged] if too few replicas have it in
// time, and [ErrWrongKind] if the name belongs to another kind. Anything else is a mistake in the name or the options,
// or the server's refusal, in its own words.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	h, err := m.core().Lock(ctx, "lock", session.Forever)
	return (*Hold)(h), err
}

// TryLock makes one attempt and does not wait: [ErrBusy] says that somebody else has the lock. It blocks for a round
// trip. If the reply is lost, the attempt is repeated for up to a third of the lease, at most a minute; then it is
// given up and undone, and TryLock returns [ErrUnknown]. With [Options.Acks] it also blocks until replicas have
// the lock, for AcksTimeout or a little more than twice that. Its other errors are those of [Mutex.Lock]. After an
// error nothing is held. It corresponds to tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	h, err := m.core().Lock(ctx, "try lock", 0)
	return (*Hold)(h), err
}

// TryLockFor waits as [Mutex.Lock] does, but at most for the time given, and then fails with [ErrBusy]. Whichever of
// ctx and wait ends first decides; ctx wins a tie. A wait of zero or less is one attempt. It corresponds to
// tryLock(waitTime, leaseTime).
//
// If the server did not answer by then, TryLockFor returns that error instead of ErrBusy, or [ErrUnknown] if an attempt
// was cut off, which takes up to 0.1 s more; or [ErrNoReply] alone if its only attempt was not even sent, because calls
// before it had no reply yet. A wait for replicas ([Options.Acks]) ends then as well, with
// [ErrNotAcknowledged].
func (m *Mutex) TryLockFor(ctx context.Context, wait time.Duration) (*Hold, error) {
	h, err := m.core().Lock(ctx, "try lock for", wait)
	return (*Hold)(h), err
}

// Locked reports whether anybody holds the lock. Like all inspection methods below, it asks the master and blocks for a
// round trip. If the server does not answer, it blocks until ctx ends or the connections are given up, which may take
// some 20 s, and some 5 s with a lease of a second. It corresponds to isLocked().
func (m *Mutex) Locked(ctx context.Context) (bool, error) { return holders.Locked(ctx, m.core()) }

// Held reports whether the owner that ctx carries holds the lock. It is false if ctx has no owner. It corresponds to
// isHeldByCurrentThread().
func (m *Mutex) Held(ctx context.Context) (bool, error) { return holders.Held(ctx, m.core()) }

// HoldCount returns how often the owner that ctx carries holds the lock. It is 0 if ctx has no owner. It corresponds to
// getHoldCount().
func (m *Mutex) HoldCount(ctx context.Context) (int, error) { return holders.HoldCount(ctx, m.core()) }

// RemainingLease returns how long at least the lock stays taken if nobody renews or releases it. It is 0 if nobody
// holds the lock, and negative if the lease has no end, which only another program can have caused. It corresponds to
// remainTimeToLive().
func (m *Mutex) RemainingLease(ctx context.Context) (time.Duration, error) {
	return holders.RemainingLease(ctx, m.core())
}

// Holders returns who holds the lock: at most one holder, or all readers of a read half, in no order, each with its
// longest lease. A holder that died is listed until its lease has run out.
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

// A State is the state of a lock, as [Mutex.Watch] reports it.
type State int

const (
	// Free says that nobody holds the lock.
	Free State = iota
	// Held says that somebody does.
	Held
	// Expired says that nobody holds the lock, because the lease of the last holder ran out: the holder died, was cut off,
	// or did not release in time. A release whose message is lost looks the same if it happens in the last seconds of a
	// lease.
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

// Watch reports whether somebody holds the lock: its state, and then each change, until ctx ends or the loop does.
//
//	for state, err := range lock.Watch(ctx) {
//		if err != nil {
//			return err
//		}
//		log.Print(state)
//	}
//
// The last state reported is the true one, apart from the following delays. A published release is reported at once,
// and a lease that runs out when it ends. Nothing is published when a lock is taken, when a fair lock is released, when
// Redisson's spin lock releases, or when another library releases a setlock: these changes are reported within 6 s. A
// change that is undone between two looks, or while the loop's body runs, is not reported at all; so a lock that passes
// from one holder to the next stays Held. The same state never comes twice in a row.
//
// Watch waits out an outage of the server, and afterwards reports what has become of the lock. An error comes last, and
// the state beside it means nothing. It matches ctx.Err() and its cause if ctx ended, and [ErrClosed] if the session
// was closed; otherwise it is the server's refusal.
//
// It costs a subscription, one look for each message on it, one when the present lease would end, and one every 4 to 6
// s. It delays nobody who wants the lock, except that a release of a read-write lock or a setlock takes the watching
// session for a waiter. It corresponds to addListener() with listeners for expired and deleted objects, and needs no
// keyspace events.
func (m *Mutex) Watch(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		err := holders.Watch(ctx, m.core(), func(s holders.State) bool { return yield(State(s), nil) })
		if err != nil {
			yield(Free, err)
		}
	}
}

// Ask tells those who hold the lock that somebody wants it, by closing the channel of [Hold.Asked], and returns how
// many they are: 0 if the lock is free. It does not wait for them, and they need not do anything about it; Redisson's
// do not hear of it. To get the lock, call Lock afterwards:
//
//	hold, err := upload.TryLock(ctx)
//	if errors.Is(err, holdfast.ErrBusy) {
//		if _, err := upload.Ask(ctx); err != nil {
//			return err
//		}
//		hold, err = upload.Lock(ctx)
//	}
//
// A holder hears of it at once if it listens, or within 6 s if the message is lost, and also if it begins to listen
// within a minute. Ask does not look at the kind: it asks whoever holds a lock of that name, of a read-write lock the
// holders of both halves. After [ErrUnknown] they may have been told. Ask blocks for a round trip. Redisson has no such
// thing.
func (m *Mutex) Ask(ctx context.Context) (holders int, err error) { return ask.Ask(ctx, m.core()) }

// ForceUnlock frees the lock whoever holds it, and wakes the waiters. It reports whether the lock was held. The holder
// learns of it at its next renewal or release, and at once if it belongs to this session. [ErrUnknown] says that the
// lock may have been freed, or may still be freed, within a third of the lease and at most a minute; a call that the
// server executes later than that frees nobody's lock. A holder in this session learns of it by then. It corresponds to
// forceUnlock().
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	return m.core().ForceUnlock(ctx)
}
