package core

import (
	"context"
	"reflect"
	"time"
)

// A holdContext is a context that ends with a hold. It answers from the clock: the standard
// context only knows what a timer told it, and timers are late in a busy process. What is
// derived from it attaches to the cancelable context inside, and costs no goroutine.
type holdContext struct {
	context.Context                 //nolint:containedctx // cancelable, derived from the caller's
	parent          context.Context //nolint:containedctx // the caller's
	cancel          context.CancelCauseFunc
	hold            *Hold
	owner           *Owner       // nil: the caller's, if there is one
	next            *holdContext // of the same hold
}

// contexts are those of a hold, a list through them.
type contexts struct {
	first *holdContext
	n     int32
	limit int32 // of n; then those that have ended are dropped
}

// add keeps c. Contexts whose parents have ended do not collect in a long hold that makes
// many short ones: they are dropped now and then, which costs each addition little.
func (cs *contexts) add(c *holdContext) {
	if cs.n >= max(cs.limit, 4) {
		cs.dropEnded()
		cs.limit = 2 * cs.n
	}
	c.next, cs.first = cs.first, c
	cs.n++
}

// recent is how many contexts are looked at before another one is made of the same parent.
const recent = 8

// of returns the context that was made of the parent, if that was not long ago, or nil. Whoever makes one again and
// again, of a parent that does not end, gets the same: they would collect.
func (cs *contexts) of(parent context.Context) *holdContext {
	// Contexts are pointers as a rule. Others may not be comparable, and to find out costs allocations.
	if parent != context.Background() && reflect.TypeOf(parent).Kind() != reflect.Pointer {
		return nil
	}
	c := cs.first
	for range recent {
		if c == nil || c.parent == parent {
			break
		}
		c = c.next
	}
	if c == nil || c.parent != parent {
		return nil
	}
	return c
}

func (cs *contexts) dropEnded() {
	for at := &cs.first; *at != nil; {
		if (*at).Context.Err() == nil {
			at = &(*at).next
			continue
		}
		*at = (*at).next
		cs.n--
	}
}

// Context returns ctx with the owner of the hold, ended when either ends.
func (h *Hold) Context(ctx context.Context) context.Context {
	if h.group != nil {
		return h.group.context(ctx, h)
	}
	claim := h.tenure.claim
	claim.mu.Lock()
	same := h.contexts.of(ctx)
	claim.mu.Unlock()
	if same != nil {
		return same
	}
	inner, cancel := context.WithCancelCause(ctx)
	c := &holdContext{Context: inner, parent: ctx, cancel: cancel, hold: h}
	if !h.lock.Permits {
		c.owner = claim.share()
	}
	claim.mu.Lock()
	ending := h.ended.Load()
	if ending == nil {
		h.contexts.add(c)
		if h.timer == nil {
			h.timer = time.AfterFunc(h.remaining(), h.tick)
		}
	}
	claim.mu.Unlock()
	if ending != nil {
		cancel(ending.err)
	}
	return c
}

func (h *Hold) remaining() time.Duration {
	return h.trust() - h.lock.session.now()
}

// tick ends the contexts when trust has run out.
func (h *Hold) tick() {
	if h.Err() != nil {
		return
	}
	h.rearm()
}

// rearm sets the timer to when trust runs out now.
func (h *Hold) rearm() {
	h.tenure.claim.mu.Lock()
	defer h.tenure.claim.mu.Unlock()
	if h.timer != nil && h.ended.Load() == nil {
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
	if key == (ownerKey{}) && c.owner != nil {
		return c.owner
	}
	return c.Context.Value(key)
}
