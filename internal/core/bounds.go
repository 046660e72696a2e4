package core

import (
	"context"
	"errors"
	"sync"
	"time"
)

// bounds hands out contexts that end within the bound of a release. Calls of about the same
// time share one, because a context of its own would be most of what a release allocates.
type bounds struct {
	limit time.Duration

	mu     sync.Mutex      // guards the rest
	ctx    context.Context //nolint:containedctx // what it is for
	cancel context.CancelFunc
	made   time.Time
}

// context returns one that ends after at most limit, and at least fifteen sixteenths of it.
func (b *bounds) context() context.Context {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx == nil || now.Sub(b.made) > b.limit/16 {
		// The one before is left to its timer: calls still use it.
		b.ctx, b.cancel = context.WithTimeoutCause(context.Background(), b.limit, errNoReply)
		b.made = now
	}
	return b.ctx
}

// end ends the youngest context; the others end by themselves.
func (b *bounds) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
}

// errNoReply is the cause of the session's own timeouts: no caller's context has ended.
var errNoReply = errors.New("no reply in time")

// within returns a context that ends after at most limit, from the shared ones if it can.
func (s *Session) within(limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == s.bounds.limit {
		return s.bounds.context(), func() {}
	}
	return context.WithTimeoutCause(context.Background(), limit, errNoReply)
}
