// Package scope makes contexts that end with a hold, and that say whose they are.
package scope

import (
	"context"
	"sync"
	"time"
)

type ownerKey struct{}

// WithOwner returns ctx with an owner.
func WithOwner(ctx context.Context, owner any) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Owner is the one that ctx carries; nil if it carries none.
func Owner(ctx context.Context) any { return ctx.Value(ownerKey{}) }

// A Hold is something that contexts end with. Err is nil while it is held; it reads the clock.
type Hold interface{ Err() error }

// A Context ends with a hold. It answers from the clock: the standard context only knows what a timer told it, and
// timers are late in a busy process. Derived contexts attach to the cancelable context inside, and cost no goroutine.
//
// Contexts of one hold whose parents end together share that context inside, and only the first of them is kept. So a
// long hold does not collect contexts even if many are made of a parent that does not end.
type Context struct {
	context.Context                 //nolint:containedctx // cancelable, derived from the first parent
	parent          context.Context //nolint:containedctx // the caller's, whose values these are
	ends            <-chan struct{} // the parent's Done, which is not asked for under a mutex
	cancel          context.CancelCauseFunc
	hold            Hold
	owner           any      // nil: the caller's, if there is one
	next            *Context // of the same hold
}

// Contexts are the contexts of a hold, linked as a list. A mutex of the hold's guards them. They are not to be copied.
type Contexts struct {
	first *Context
	n     int32
	limit int32   // of n; then those that have ended are dropped; below zero: no more are kept
	room  Context // for one: most holds have no more
	used  bool    // it is
}

// newContext makes a context. The mutex is held.
func (cs *Contexts) newContext() *Context {
	if cs.used {
		return new(Context)
	}
	cs.used = true
	return &cs.room
}

// New returns ctx with an owner, unless that is nil, ended when either ctx or the hold ends. The mutex is that of the
// contexts.
func (cs *Contexts) New(ctx context.Context, mu *sync.Mutex, hold Hold, owner any) *Context {
	ends := ctx.Done()
	mu.Lock()
	beside := cs.beside(ends)
	if beside != nil {
		mu.Unlock()
		return beside.of(ctx)
	}
	c := cs.newContext()
	mu.Unlock()
	inner, cancel := context.WithCancelCause(ctx)
	*c = Context{Context: inner, parent: ctx, ends: ends, cancel: cancel, hold: hold, owner: owner}
	mu.Lock()
	kept := cs.add(c)
	mu.Unlock()
	if !kept {
		c.look()
	}
	return c
}

// add keeps c, unless the hold has ended. Contexts whose parents have ended do not collect in a long hold that
// makes many short ones: they are dropped now and then, which costs each addition little.
func (cs *Contexts) add(c *Context) (kept bool) {
	if cs.limit < 0 {
		return false
	}
	if cs.n >= max(cs.limit, 4) {
		cs.dropEnded()
		cs.limit = 2 * cs.n
	}
	c.next, cs.first = cs.first, c
	cs.n++
	return true
}

// watching is the end of the parents of those that only tell of the end of the hold: nobody's.
var watching = make(chan struct{})

// Watch calls ended when the hold ends, with the reason, or at once if it has. It must not block. The mutex is that of
// the contexts.
func (cs *Contexts) Watch(mu *sync.Mutex, hold Hold, ended context.CancelCauseFunc) {
	mu.Lock()
	c := cs.newContext()
	c.Context, c.ends, c.cancel = context.Background(), watching, ended
	kept := cs.add(c)
	mu.Unlock()
	if !kept {
		ended(hold.Err())
	}
}

// recent is how many contexts are looked at before a new one is kept.
const recent = 8

// beside returns one of those that were kept lately whose parent ends with ends, or nil.
func (cs *Contexts) beside(ends <-chan struct{}) *Context {
	c := cs.first
	for range recent {
		if c == nil || c.ends == ends {
			return c
		}
		c = c.next
	}
	return nil
}

func (cs *Contexts) dropEnded() {
	for at := &cs.first; *at != nil; {
		if (*at).Context.Err() == nil {
			at = &(*at).next
			continue
		}
		*at = (*at).next
		cs.n--
	}
}

// Close says that the hold has ended: no more contexts are kept. It returns the last of those that are, to be ended
// without the mutex, which is held.
func (cs *Contexts) Close() *Context {
	last := cs.first
	cs.first, cs.limit = nil, -1
	return last
}

// EndAll ends a context, if there is one, and those that were kept before it.
func (c *Context) EndAll(why error) {
	for ; c != nil; c = c.next {
		c.cancel(why)
	}
}

// of returns a context with another parent, which ends with the parent of c.
func (c *Context) of(parent context.Context) *Context {
	return &Context{Context: c.Context, parent: parent, cancel: c.cancel, hold: c.hold, owner: c.owner}
}

// Of returns the context that makes makes of ctx for a hold. It refers to the hold; the part that is kept with the
// others does not. Parents are kept as well, so a context of the same hold is not made a parent.
func Of(ctx context.Context, hold Hold, makes func(ctx context.Context) *Context) *Context {
	if c, ok := ctx.(*Context); ok && c.hold == hold {
		return c
	}
	c := makes(ctx)
	c = c.of(c.parent)
	c.hold = hold
	return c
}

// Err looks at the hold first, and so at the clock.
func (c *Context) Err() error {
	c.look()
	return c.Context.Err()
}

// Done looks at the hold first, and so at the clock.
func (c *Context) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// look ends the inner context, with the hold's reason as the cause, before anybody learns of it. The parent may be the
// context of another hold, which looks at the clock as well.
func (c *Context) look() {
	if err := c.hold.Err(); err != nil {
		c.cancel(err)
		return
	}
	_ = c.parent.Err()
}

// Deadline is the parent's.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// cancelable has a value for one key alone: that by which package context asks for the cancelable context inside.
var cancelable = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Value finds the owner, and for package context the cancelable context inside. All else is the parent's: to ask the
// one inside as well, which asks its parent, would take twice as long for each context that this one is nested in.
func (c *Context) Value(key any) any {
	switch {
	case key == (ownerKey{}) && c.owner != nil:
		return c.owner
	case cancelable.Value(key) != nil:
		return c.Context.Value(key)
	}
	return c.parent.Value(key)
}
