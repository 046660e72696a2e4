package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

// bounds hands out contexts that end within the bound of a release. Calls of about the same time share one, because a
// context of their own would be most of the memory that a release allocates.
type bounds struct {
	limit time.Duration
	young atomic.Pointer[bound]
}

// A bound is a context that some calls share.
type bound struct {
	ctx    context.Context //nolint:containedctx // what it is for
	cancel context.CancelFunc
	made   time.Duration
}

// context returns one that ends after at most limit from now, and at least fifteen sixteenths
// of it.
func (b *bounds) context(now time.Duration) context.Context {
	young := b.young.Load()
	if young != nil && now-young.made <= b.limit/16 {
		return young.ctx
	}
	fresh := &bound{made: now}
	ctx, cancel := context.WithTimeoutCause(sharing.Own(), b.limit, ErrNoReply)
	fresh.ctx, fresh.cancel = sharing.Dateless(ctx), cancel // once, and not for each call
	if !b.young.CompareAndSwap(young, fresh) {
		fresh.cancel()
		return b.context(now)
	}
	return fresh.ctx // the one before is left to its timer: calls still use it
}

// end ends the youngest context; the others end by themselves.
func (b *bounds) end() {
	if young := b.young.Load(); young != nil {
		young.cancel()
	}
}

// whileItLasts returns a context for a call whose reply must not be missed: it ends some time after
// the session does. The client ends the call when the connection is lost.
func (s *Session) whileItLasts() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(sharing.Own())
	stop := context.AfterFunc(s.ctx, func() {
		timer := time.AfterFunc(closeWithin/2, func() { cancel(ErrNoReply) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Within returns a context that ends after at most limit from now, a shared one if it can.
func (s *Session) Within(now, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == s.bounds.limit {
		return s.bounds.context(now), func() {}
	}
	parent := context.Background()
	if limit > s.bounds.limit {
		parent = sharing.Own()
	}
	return context.WithTimeoutCause(parent, limit, ErrNoReply)
}

// Beside returns a context for calls that go on, for at most limit, when their caller waits no longer. It has the
// values of ctx. One that is late does not break the connection.
func Beside(ctx context.Context, limit time.Duration, late error) (context.Context, context.CancelFunc) {
	beside, cancel := context.WithTimeoutCause(sharing.Owned(ctx), limit, late)
	return sharing.Dateless(beside), cancel
}

type acksKey struct{}

// WithAcksUntil returns ctx, under which replicas are waited for no longer than until then.
func WithAcksUntil(ctx context.Context, end time.Time) context.Context {
	if earlier, ok := ctx.Value(acksKey{}).(time.Time); ok && earlier.Before(end) {
		return ctx
	}
	return context.WithValue(ctx, acksKey{}, end)
}

// AcksUntil is that moment of ctx; the latest one if it has none.
func (s *Session) AcksUntil(ctx context.Context) time.Duration {
	if end, ok := ctx.Value(acksKey{}).(time.Time); ok {
		return s.Moment(end)
	}
	return Forever
}

// Bound is how long a release may take that has the session's lease.
func (s *Session) Bound() time.Duration { return s.bounds.limit }
