// Package holdfast is the core of a toolkit of distributed synchronizers on Redis. They share
// their keys, fields, channels and messages with Redisson, so Go and Java processes hold the
// very same locks.
//
// A [Session] connects to a Redis server, a Sentinel set or a cluster. It owns everything that
// runs: a watchdog that renews what is held, and a connection that listens for releases. The
// packages of the toolkit, such as rlock, make locks of it. A lock is a name and settings: it is
// cheap to make and there is nothing to close. Taking it gives a [Hold]:
//
//	hold, err := orders.Lock(ctx) // ctx bounds the wait
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//	ctx = hold.Context(ctx) // use this one for the work: it ends if the lock is lost, and nested calls re-enter
//
// [Do] does all of this in one call.
//
// # Nested calls
//
// A context carries the owner of a hold. A nested call that locks the same name with
// hold.Context(ctx) re-enters. With the ctx from before the lock it has no owner in common with
// its caller and waits for it: a deadlock, until that ctx ends.
//
// # What is promised
//
// A holder learns that it has lost its lock before anyone else can have it, as far as a lease
// can promise that. [Hold.Err] and the contexts of [Hold.Context] answer from the clock, so
// they are right even if a timer is late or the process was stopped for a while.
//
// # What is not promised
//
// A lease cannot stop a process that pauses between its last look and a write: somebody else
// may have the lock by then. Before an irreversible step ask [Hold.Err]. Where that gap must be
// closed, too, write with [Hold.Guard] what is on the same server. Hand the fencing token
// ([Hold.Token]) to any other resource and let it refuse older ones.
//
// A server can forget what it granted: it was restarted without its data, or a replica
// took over that had not heard of it. Then it can grant a name twice.
package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
)

// The errors of the toolkit. Each answers one question, asked with errors.Is.
var (
	// ErrBusy: did a Try fail only because somebody else has it?
	ErrBusy = session.ErrBusy
	// ErrNotHeld: was there nothing of mine to release?
	ErrNotHeld = session.ErrNotHeld
	// ErrLost: did my hold end before I released it? See [LostError].
	ErrLost = session.ErrLost
	// ErrAlreadyHeld: would this owner wait for itself?
	ErrAlreadyHeld = session.ErrAlreadyHeld
	// ErrDeadlock: did this call wait, through the locks of others, for what its own owner holds? See
	// [Options.BreakDeadlocks].
	ErrDeadlock = session.ErrDeadlock
	// ErrWrongKind: does the name belong to another kind, for example to a semaphore, while this is a latch?
	ErrWrongKind = session.ErrWrongKind
	// ErrClosed: is the session over?
	ErrClosed = session.ErrClosed
	// ErrUnknown: was a reply lost, so that the effect is not known?
	ErrUnknown = session.ErrUnknown
	// ErrNoReply: was there no reply in time? It comes with [ErrUnknown] where the effect is not known, and with [ErrLost]
	// where a hold is lost because its renewals had no reply. With neither, an attempt holds nothing, and what it takes is
	// given back in the background; a hold that [Hold.HandTo] was to hand over is where it was.
	ErrNoReply = session.ErrNoReply
	// ErrNotAcknowledged: did too few replicas have my acquisition in time? See [Options.Acks] and
	// [NotAcknowledgedError].
	ErrNotAcknowledged = session.ErrNotAcknowledged
)

// A NotAcknowledgedError says how many replicas have an acquisition for which [Options.Acks] wanted more. It matches
// [ErrNotAcknowledged], and Err if there is one. Nothing is held: the acquisition is given back in the background. If
// the server cannot be reached, others may have to wait for that, for at most a lease. After [Hold.Extend], what
// was held is held as before.
type NotAcknowledgedError struct {
	Wanted int   // replicas; for AcksMost and AcksAll as far as their number was known
	Got    int   // replicas that had it in time; 0 if that is not known
	Err    error // another failure, if there was one: the server's refusal, or that it has lost the lock
}

// Error says how many replicas have it, and what else has gone wrong.
func (e *NotAcknowledgedError) Error() string {
	text := fmt.Sprintf("%v: %d of %d replicas have it", ErrNotAcknowledged, e.Got, e.Wanted)
	if e.Err != nil {
		return text + ": " + e.Err.Error()
	}
	return text
}

// Unwrap makes the error match [ErrNotAcknowledged] and Err.
func (e *NotAcknowledgedError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNotAcknowledged}
	}
	return []error{ErrNotAcknowledged, e.Err}
}

// A LostError says how a hold was lost. It matches [ErrLost], and Err if there is one.
type LostError struct {
	Name string        // the lock's, as the caller gave it
	Held time.Duration // from the acquisition to the end of trust
	// Err is the error of the last renewal; of a RedLock, one error per server; after [Options.MaxHold], that the hold
	// was held for longer. It is nil if no renewal failed: the server no longer had the hold, or the lease ran out before
	// it was renewed.
	Err error
}

// Error says how long the hold was held, and why it is lost as far as that is known.
func (e *LostError) Error() string {
	text := "holdfast: lost " + session.Quote(e.Name) + " after " + e.Held.Round(time.Millisecond).String()
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

// A Locker is anything that can be waited for and held. Every lock of the toolkit is one.
type Locker interface {
	// Name is the lock's name as the caller gave it.
	Name() string
	// Lock waits until it has the lock or ctx ends.
	Lock(ctx context.Context) (*Hold, error)
	// TryLock makes one attempt; it fails with [ErrBusy] if somebody else has the lock.
	TryLock(ctx context.Context) (*Hold, error)
}

// A Holder is someone who holds a lock. The fields from Host on are empty if its session does not publish
// them: Redisson's, an anonymous one ([Options.Anonymous]), one that has just started, or one that is gone.
type Holder struct {
	ID    string        // "<session>:<number>"; for Java "<client>:<thread>"
	Count int           // the number of nested holds
	Lease time.Duration // how long it lasts at least without another renewal; negative if it has no end
	Note  string        // from [WithNote]; "" if there is none or the hold is younger than a quarter of a second

	Host    string    // where its process runs
	PID     int       // its process id
	Program string    // the file name of the program it runs
	Label   string    // [Options.Label]
	Started time.Time // when the session was opened
}

// A Waiter stands in the queue of a fair lock or of an election, in the line of an rlock, or in that of the sessions
// that wait to write. The fields from Host on are those of a [Holder].
type Waiter struct {
	ID    string        // "<session>:<number>"; for Java "<client>:<thread>"
	Alive time.Duration // how long it counts as alive if it gives no further sign of life

	Host    string    // where its process runs
	PID     int       // its process id
	Program string    // the file name of the program it runs
	Label   string    // [Options.Label]
	Started time.Time // when the session was opened
}

// NewOwner returns ctx with an owner that nobody else has. An owner is to Holdfast what a thread
// is to Redisson: locks taken under one owner re-enter each other, and a lock taken under another
// owner waits for them. A Lock whose ctx has no owner gets a fresh one, which [Hold.Context]
// passes on. So NewOwner is for work that must not share the locks of the ctx it was given, for
// example at a go statement. A lock taken with NewOwner under a hold waits for that hold.
func NewOwner(ctx context.Context) context.Context { return core.NewOwner(ctx) }

// WithNote returns ctx with a note for people: who wants a lock, why, or for which request. [Mutex.Holders] and the
// commands ls and show of holdfast show the notes of holds that were taken with the returned ctx, unless the session is
// [Options.Anonymous]; of permits, show alone does, with the process that has them. A session publishes the notes of
// its 64 oldest such holds. A hold of less than a quarter of a second costs nothing more; each change of what is
// published is one command, at most four a second. A note has at most 256 bytes; a longer one is cut. An empty note is
// none. Redisson has nothing like it.
func WithNote(ctx context.Context, note string) context.Context {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "")
	}
	return session.WithNote(ctx, note)
}

const maxNote = 256

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
				session.Unreleased(hold.core(), released)
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
