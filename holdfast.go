// Package holdfast is the heart of a toolkit of distributed synchronizers on Redis that share
// their keys, fields, channels and messages with Redisson, so that Go and Java processes hold
// the very same locks.
//
// A [Session] connects to Redis, or to a Sentinel set, or to a cluster, and owns all that
// runs: one watchdog that renews what is held, one connection that listens for releases. Lock
// values are made from it by the packages of the toolkit, such as rlock; they are a name and
// settings, cheap, and have nothing to close. Taking one gives a [Hold]:
//
//	hold, err := orders.Lock(ctx)             // ctx limits the wait …
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//	ctx = hold.Context(ctx)                   // … and this one the work; pass it to nested calls and they re-enter
//
// # What is promised
//
// A holder learns that it has lost its lock before anyone else can have it, as far as a lease
// can promise that. [Hold.Err] and the contexts of [Hold.Context] answer from the clock, so
// they are right even when a timer is late or the process was stopped for a while.
//
// # What is not promised
//
// A lease cannot stop a process that pauses between its last look and a write: somebody else
// may have the lock by then. Before an irreversible step ask [Hold.Err]; where that gap must
// be closed as well, hand the fencing token ([Hold.Token]) to the resource and have it refuse
// older ones. A server that forgets what it granted, because it was restarted without its
// data or because a replica took over that had not got it yet, can grant a name twice.
package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
)

// The errors of the toolkit. Each answers one question, asked with errors.Is.
var (
	// ErrBusy: did a Try fail only because somebody else has it?
	ErrBusy = core.ErrBusy
	// ErrNotHeld: was there nothing of mine to release?
	ErrNotHeld = core.ErrNotHeld
	// ErrLost: did my hold end before I released it? See [LostError].
	ErrLost = core.ErrLost
	// ErrAlreadyHeld: would this owner wait for itself?
	ErrAlreadyHeld = core.ErrAlreadyHeld
	// ErrClosed: is the session over?
	ErrClosed = core.ErrClosed
	// ErrUnknown: was a reply lost, so that the effect is not known?
	ErrUnknown = core.ErrUnknown
)

// A LostError says how a hold was lost. It matches [ErrLost], and Err if there is one.
type LostError struct {
	Name string        // the lock's, as the caller gave it
	Held time.Duration // from the acquisition to the end of trust
	Err  error         // of the last renewal, if that failed; of several servers what became of each. Else nil: the server had dropped the hold, by force or because it forgot; or its lease was over before it was renewed
}

// Error says how long the hold was held, and why it is lost as far as that is known.
func (e *LostError) Error() string {
	text := "holdfast: lost " + quote(e.Name) + " after " + e.Held.Round(time.Millisecond).String()
	if e.Err != nil {
		return text + ": " + e.Err.Error()
	}
	return text + ": its lease was over, or the server has dropped it"
}

// Unwrap makes the error match [ErrLost] and Err.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost}
	}
	return []error{ErrLost, e.Err}
}

// A Locker is anything that one can wait for and hold: every lock of the toolkit is one.
type Locker interface {
	// Name is the lock's name as the caller gave it.
	Name() string
	// Lock waits until it has the lock or ctx ends.
	Lock(ctx context.Context) (*Hold, error)
	// TryLock makes one attempt; it fails with [ErrBusy] if somebody else has the lock.
	TryLock(ctx context.Context) (*Hold, error)
}

// A Holder is one who holds a lock. Of what its session tells of itself (see [Options.Anonymous]) all is
// empty if it does not: one of Redisson's, one that began just now, or one that is gone.
type Holder struct {
	ID    string        // the wire owner: "<session>:<number>", of Java "<client>:<thread>"
	Count int           // how often
	Lease time.Duration // for how long at least, without another renewal; below zero if it has no end

	Host    string    // where its process runs
	PID     int       // which it is there
	Program string    // that it runs: the file's name
	Label   string    // [Options.Label]
	Started time.Time // when the session was opened
}

// A Waiter is one who stands in the queue of a fair lock, with what its session tells of itself, as a
// [Holder]'s does.
type Waiter struct {
	ID    string        // the wire owner: "<session>:<number>", of Java "<client>:<thread>"
	Alive time.Duration // for how long it is taken to be alive if it is not heard of again

	Host    string    // where its process runs
	PID     int       // which it is there
	Program string    // that it runs: the file's name
	Label   string    // [Options.Label]
	Started time.Time // when the session was opened
}

// NewOwner gives ctx an owner that nobody else has: to Holdfast what a thread is to Redisson.
// Locks taken under one owner re-enter each other, and a lock taken under another owner waits
// for them. Without an owner each Lock gets a fresh one, which [Hold.Context] passes on, so
// NewOwner is for work that must not share the locks of the ctx it was given: at a go
// statement, say. NewOwner under a hold waits for that hold.
func NewOwner(ctx context.Context) context.Context { return core.NewOwner(ctx) }

// Do takes, works, and releases. take is a method such as l.Lock or l.TryLock; its error
// comes back as it is, and work has not run then. work gets the hold's context.
//
// Otherwise Do returns work's error, joined with the loss if the hold ended before work did:
// nil means that work succeeded and was protected throughout. A release whose outcome is
// unknown is logged and not returned: work was protected, and the session goes on giving it back.
// If work panics, the hold is released and the panic goes on.
func Do(ctx context.Context, take func(context.Context) (*Hold, error), work func(context.Context) error) (err error) {
	hold, err := take(ctx)
	if err != nil {
		return err
	}
	worked := false
	defer func() {
		// Ask before releasing, which ends the hold itself.
		lost := hold.Err()
		released := hold.Release()
		if !worked {
			return // a panic, or runtime.Goexit
		}
		if lost == nil && released != nil {
			if errors.Is(released, ErrLost) {
				lost = released
			} else {
				(*core.Hold)(hold).Warn("release failed", released)
			}
		}
		if lost != nil && !errors.Is(err, lost) {
			err = errors.Join(err, lost)
		}
	}()
	err = work(hold.Context(ctx))
	worked = true
	return err
}
