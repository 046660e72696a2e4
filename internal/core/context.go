package core

import (
	"context"
	"time"
)

// A holdContext is a context that ends with a hold. It answers from the clock: the standard
// context only knows what a timer told it, and timers are late in a busy process. What is
// derived from it attaches to the cancelable context inside, and costs no goroutine.
//
// Contexts of one hold whose parents end together share that context inside, and only the first of them
// is kept. So a long hold of which many are made, of a parent that does not end, collects none.
type holdContext struct {
	context.Context                 //nolint:containedctx // cancelable, derived from the first parent
	parent          context.Context //nolint:containedctx // the caller's, whose values these are
	ends            <-chan struct{} // the parent's Done, which is not asked for under a mutex
	cancel          context.CancelCauseFunc
	hold            Holding
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

// recent is how many contexts are looked at before a new one is kept.
const recent = 8

// beside returns one of those that were kept lately whose parent ends with ends, or nil.
func (cs *contexts) beside(ends <-chan struct{}) *holdContext {
	c := cs.first
	for range recent {
		if c == nil || c.ends == ends {
			return c
		}
		c = c.next
	}
	return nil
}

// of is a context of another parent, which ends with that of c.
func (c *holdContext) of(parent context.Context) *holdContext {
	return &holdContext{Context: c.Context, parent: parent, cancel: c.cancel, hold: c.hold, owner: c.owner}
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
func (h *Single) Context(ctx context.Context) context.Context {
	claim := h.tenure.claim
	ends := ctx.Done()
	claim.mu.Lock()
	beside := h.contexts.beside(ends)
	claim.mu.Unlock()
	if beside != nil {
		return beside.of(ctx)
	}
	inner, cancel := context.WithCancelCause(ctx)
	c := &holdContext{Context: inner, parent: ctx, ends: ends, cancel: cancel, hold: h}
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

func (h *Single) remaining() time.Duration {
	return h.trust() - h.lock.session.now()
}

// tick ends the contexts when trust has run out.
func (h *Single) tick() {
	if h.Err() != nil {
		return
	}
	h.rearm()
}

// rearm sets the timer to when trust runs out now.
func (h *Single) rearm() {
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

// Deadline is the parent's.
func (c *holdContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Value finds the owner, and for package context, which asks for it by a key of its own, the cancelable
// context inside. All else is the parent's.
func (c *holdContext) Value(key any) any {
	if key == (ownerKey{}) && c.owner != nil {
		return c.owner
	}
	if inside := c.Context.Value(key); inside == any(c.Context) {
		return inside
	}
	return c.parent.Value(key)
}
