package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// An Observer sees what the synchronizers of a session do, for metrics, traces and alarms: see
// [Options.Observer]. Functions that are nil are not called and cost nothing. The others are called by
// many goroutines at the same time and must not block. A function that one of them returns is called
// once, and may be nil.
//
// No mutex is held while one of them runs, and none changes what becomes of a lock. If a function panics on the
// caller's goroutine, whatever its call was granted is given back, and the panic goes on to the caller. Losses,
// renewals, ends of terms and wake-ups of a latch have goroutines of their own, where a panic ends the process as any
// other does. All functions may use the session. Those that are called for a hold's end or a renewal may close it; the
// others run inside a call, for which Close would wait as long as it may.
//
// A lock that consists of several ("multilock", "redlock") appears in addition to its members, under their names joined
// by commas.
type Observer struct {
	// Acquire is called when a call begins that takes something or waits for it: Lock, TryLock and TryLockFor, their
	// counterparts of a semaphore, Wait of a latch, and Await of a barrier. It gets the caller's ctx, so that a
	// measurement can be linked to the caller's own. The function it returns is called with the outcome.
	Acquire func(ctx context.Context, of Subject) (done func(Acquired))

	// Attempt is called when an attempt to take something is over, answered or not.
	Attempt func(of Subject, a Attempt)

	// Wait is called when a call begins to wait because somebody else has what it wants. The function it
	// returns is called when the wait is over.
	Wait func(of Subject) (done func())

	// WakeUp is called when a waiting call looks again. Timers are no sign of trouble: a waiter behind a long hold looks
	// every 5 s. Waits that end without any message are a sign of trouble.
	WakeUp func(of Subject, by WakeUp)

	// Hold is called when a hold begins, nested ones included, with the ctx of the call that took it. The
	// function it returns is called when the hold has ended.
	Hold func(ctx context.Context, of Subject) (ended func(Ended))

	// Renewal is called with nil when a hold was renewed, and with the reason when it could not be. A failed renewal is
	// tried again until the hold is lost.
	Renewal func(of Subject, err error)

	// Term is called when a candidate of package leader begins to lead, with the number of the term and the ctx that lead
	// gets. The function it returns is called when the term has ended. A term is a hold of kind "fairlock" as well.
	Term func(ctx context.Context, of Subject, number int64) (ended func(Ended))
}

// A Subject is the synchronizer that an event is about.
type Subject struct {
	Kind string // the package's name, with the half of a read-write lock: "rlock", "rwlock.Read"; "semaphore.Expirable"
	Name string // as the caller gave it. There may be very many: think before making it a label of a metric
}

// Acquired is the outcome of a call that takes something.
type Acquired struct {
	Took     time.Duration // including the wait
	Attempts int           // at the server; 0 where others ask: a multilock's members, or one waiter of a latch for all
	// HandedOver says that another call of the session handed the lock over when it released, without asking the server.
	HandedOver bool
	// Granted says that another session handed the lock over when it released, by the server: the call waited in the
	// lock's line, and made no attempt after that.
	Granted bool
	Err     error // as the caller got it; nil if the call succeeded
}

// An Attempt is one request to the server to take something.
type Attempt struct {
	Took time.Duration
	Err  error // nil if it was granted; [ErrBusy] if somebody else has it
}

// Ended is the end of a hold, or of a term.
type Ended struct {
	Held time.Duration
	Err  error // nil if it was released, detached or resigned; otherwise a *[LostError] or [ErrClosed]
}

// A WakeUp is the reason why a waiting call looks again.
type WakeUp int

const (
	// ByMessage says that a message of a release came, from this session or another one, or that a subscription began.
	ByMessage WakeUp = iota
	// ByTimer says that the holder's lease has ended, or that no message came for about 5 s.
	ByTimer
	// ByTurn says that the call has become the first waiter of this session.
	ByTurn
)

// String returns "message", "timer" or "turn".
func (w WakeUp) String() string {
	switch w {
	case ByMessage:
		return "message"
	case ByTimer:
		return "timer"
	}
	return "turn"
}

// inside is the observer as the core has it, which knows none of the types here.
func (o *Observer) inside() *session.Observer {
	if o == nil {
		return nil
	}
	var c session.Observer
	if o.Acquire != nil {
		c.Acquire = func(ctx context.Context, kind, name string) func(session.Acquired) {
			done := o.Acquire(ctx, Subject{kind, name})
			if done == nil {
				return nil
			}
			return func(a session.Acquired) { done(Acquired(a)) }
		}
	}
	if o.Attempt != nil {
		c.Attempt = func(kind, name string, took time.Duration, err error) {
			o.Attempt(Subject{kind, name}, Attempt{took, err})
		}
	}
	if o.Wait != nil {
		c.Wait = func(kind, name string) func() { return o.Wait(Subject{kind, name}) }
	}
	if o.WakeUp != nil {
		c.WakeUp = func(kind, name string, by wait.Cause) { o.WakeUp(Subject{kind, name}, WakeUp(by)) }
	}
	if o.Hold != nil {
		c.Hold = func(ctx context.Context, kind, name string) func(time.Duration, error) {
			return endInside(o.Hold(ctx, Subject{kind, name}))
		}
	}
	if o.Renewal != nil {
		c.Renewal = func(kind, name string, err error) { o.Renewal(Subject{kind, name}, err) }
	}
	if o.Term != nil {
		c.Term = func(ctx context.Context, kind, name string, number int64) func(time.Duration, error) {
			return endInside(o.Term(ctx, Subject{kind, name}, number))
		}
	}
	return &c
}

// endInside is a function for an end as the core has it.
func endInside(ended func(Ended)) func(held time.Duration, err error) {
	if ended == nil {
		return nil
	}
	return func(held time.Duration, err error) { ended(Ended{held, err}) }
}
