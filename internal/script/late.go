package script

import (
	"context"
	"sync"
	"time"
)

// An EndingLate is a context that has its own end only from when it matters: when a call has to wait for others, or for
// a connection, or has failed. Before, the connection ends a call that falls silent; and a context with an end would be
// more than all else that a call allocates, and would make a direct connection pipelined. It is of one goroutine until
// then.
type EndingLate struct {
	context.Context //nolint:containedctx // what it is for

	end   time.Time
	cause error
	stop  context.CancelFunc // nil: it has no end of its own yet
}

var unlimited = sync.Pool{New: func() any { return new(EndingLate) }}

// EndsLate returns ctx, which is to end then because of cause, unless ctx ends before. Stop it.
func EndsLate(ctx context.Context, end time.Time, cause error) *EndingLate {
	l := unlimited.Get().(*EndingLate)
	*l = EndingLate{Context: ctx, end: end, cause: cause}
	return l
}

// limit has it end at its end from now on.
func (l *EndingLate) limit() {
	if l.stop == nil {
		l.Context, l.stop = context.WithDeadlineCause(l.Context, l.end, l.cause)
	}
}

// Stop says that nobody needs it any more.
func (l *EndingLate) Stop() {
	if l.stop != nil { // a call that was left behind may still have it
		l.stop()
		return
	}
	*l = EndingLate{}
	unlimited.Put(l)
}

// Limited is ctx, which ends when it should from now on.
func Limited(ctx context.Context) context.Context {
	if l, ok := ctx.(*EndingLate); ok {
		l.limit()
	}
	return ctx
}
