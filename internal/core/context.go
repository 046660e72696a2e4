package core

import (
	"context"
	"time"
)

// A holdContext is a context that ends with a hold. It answers from the clock: the standard
// context only knows what a timer told it, and timers are late in a busy process. What is
// derived from it attaches to the cancelable context inside, and costs no goroutine.
type holdContext struct {
	context.Context //nolint:containedctx // cancelable, derived from the caller's
	cancel          context.CancelCauseFunc
	hold            *Hold
	owner           *Owner
}

// Context returns ctx with the owner of the hold, ended when either ends.
func (h *Hold) Context(ctx context.Context) context.Context {
	inner, cancel := context.WithCancelCause(ctx)
	c := &holdContext{Context: inner, cancel: cancel, hold: h, owner: h.tenure.claim.share()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.ended.Load(); e != nil {
		cancel(e.err)
		return c
	}
	if h.contexts == nil {
		h.contexts = h.room[:0]
	} else if len(h.contexts) == cap(h.contexts) {
		h.forgetEnded()
	}
	h.contexts = append(h.contexts, c)
	if h.timer == nil {
		h.timer = time.AfterFunc(h.remaining(), h.tick)
	}
	return c
}

// forgetEnded drops the contexts whose parents have ended, so that a long hold with many
// short contexts does not collect them. h.mu is held.
func (h *Hold) forgetEnded() {
	live := h.contexts[:0]
	for _, c := range h.contexts {
		if c.Context.Err() == nil {
			live = append(live, c)
		}
	}
	clear(h.contexts[len(live):])
	h.contexts = live
}

func (h *Hold) remaining() time.Duration {
	return h.trust() - h.lock.session.now()
}

// tick ends the contexts when trust has run out.
func (h *Hold) tick() {
	if h.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended.Load() == nil {
		h.timer.Reset(h.remaining())
	}
}

// Err looks at the hold first, and so at the clock.
func (c *holdContext) Err() error {
	c.look()
	return c.Context.Err()
}

// Done looks at the hold first, and so at the clock.
func (c *holdContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// look ends the inner context, with the hold's reason as the cause, before anybody is told.
func (c *holdContext) look() {
	if err := c.hold.Err(); err != nil {
		c.cancel(err)
	}
}

// Value finds the owner.
func (c *holdContext) Value(key any) any {
	if key == (ownerKey{}) {
		return c.owner
	}
	return c.Context.Value(key)
}
