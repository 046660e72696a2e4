package script

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// An EndingLate is a context that has its own end only from when it matters: when a call has to wait for a
// connection, or has failed. Before, the connection ends a call that falls silent; and a context with an end would be
// more than all else that a call allocates.
type EndingLate struct {
	context.Context //nolint:containedctx // what it is for

	end     time.Time
	limited atomic.Pointer[ending] // nil: it has no end of its own yet
}

type ending struct {
	context.Context //nolint:containedctx // with the end
	stop            context.CancelFunc
}

// ErrNoReply is why it ends.
var ErrNoReply = errors.New("no reply in time")

// EndsLate returns ctx, which is to end then because of [ErrNoReply], unless ctx ends before. Stop it.
func EndsLate(ctx context.Context, end time.Time) *EndingLate {
	return &EndingLate{Context: ctx, end: end}
}

// An Outlasting is the context of a call that outlasts its caller, who may leave it behind when it has been sent, and
// not before: it waits in front of the connection no longer than its caller does.
type Outlasting struct {
	context.Context                 //nolint:containedctx // what it is for
	Caller          context.Context //nolint:containedctx // as above
}

// inTime is ctx for a wait in front of the connection, which ends when ctx should. If the connection is up after that,
// the call itself needs no end of its own.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	switch c := ctx.(type) {
	case *EndingLate:
		if c.limited.Load() == nil {
			return context.WithDeadlineCause(c.Context, c.end, ErrNoReply)
		}
	case *Outlasting:
		caller, cancel := context.WithCancel(c.Caller)
		stop := context.AfterFunc(c.Context, cancel)
		return caller, func() {
			stop()
			cancel()
		}
	}
	return ctx, func() {}
}

// Limited is ctx, which ends when it should from now on.
func Limited(ctx context.Context) context.Context {
	if l, ok := ctx.(*EndingLate); ok && l.limited.Load() == nil {
		inside, stop := context.WithDeadlineCause(l.Context, l.end, ErrNoReply)
		l.limited.Store(&ending{inside, stop})
	}
	return ctx
}

// Stop says that nobody waits for its end any more.
func (l *EndingLate) Stop() {
	if now := l.limited.Load(); now != nil {
		now.stop()
	}
}

func (l *EndingLate) now() context.Context {
	if now := l.limited.Load(); now != nil {
		return now
	}
	return l.Context
}

// Deadline is that of ctx, until there is an earlier end.
func (l *EndingLate) Deadline() (time.Time, bool) { return l.now().Deadline() }

// Done is closed at the end, if there is one by now.
func (l *EndingLate) Done() <-chan struct{} { return l.now().Done() }

// Err says why it has ended.
func (l *EndingLate) Err() error { return l.now().Err() }

// Value is that of ctx.
func (l *EndingLate) Value(key any) any { return l.now().Value(key) }
