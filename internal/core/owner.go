package core

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/registry"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/session"
)

// An Owner is to Holdfast what a thread is to Redisson: locks taken under one owner re-enter
// each other. It is a local idea; on the wire each outermost acquisition has an owner of its
// own (guarantee G3). A context carries it.
type Owner struct {
	mu     sync.Mutex // guards the rest; taken before a claim's own
	claims registry.Few[claimKey, *claim]
}

// NewOwner returns ctx with an owner that nobody else has.
func NewOwner(ctx context.Context) context.Context {
	return scope.WithOwner(ctx, new(Owner))
}

// WithOwner returns ctx with the owner that it has, or else with a fresh one.
func WithOwner(ctx context.Context) context.Context {
	if OwnerOf(ctx) != nil {
		return ctx
	}
	return NewOwner(ctx)
}

// OwnerOf returns the owner that ctx carries, or nil.
func OwnerOf(ctx context.Context) *Owner {
	owner, _ := scope.Owner(ctx).(*Owner)
	return owner
}

// As returns ctx with the owner.
func (o *Owner) As(ctx context.Context) context.Context { return scope.WithOwner(ctx, o) }

// A claimKey is what makes two lock values one lock to an owner.
type claimKey struct {
	session   *session.Session
	kind, key string
}

// A claim is what one owner has of one name, by the rules of [owner.Claim], and whose turn it is: one operation is in
// flight for it at a time (guarantee G3).
type claim struct {
	mu    sync.Mutex
	owner *Owner // nil until a context carries it
	refs  int32  // holds and calls; counted once there is an owner
	busy  bool   // an operation is in flight
	crowd *crowd // nil unless several calls meet
	owner.Claim[*grant, *Single]
}

// A crowd is what a claim needs when several calls of one owner meet at one name.
type crowd struct {
	turns []chan struct{} // operations that wait for their turn
	waits []Waker         // calls that wait for the name, and would re-enter it
}

// gather returns the claim's crowd. mu is held.
func (c *claim) gather() *crowd {
	if c.crowd == nil {
		c.crowd = new(crowd)
	}
	return c.crowd
}

// A Waker is a waiting call that can be told to look again. Wake must not block.
type Waker interface{ Wake() }

// claim returns the owner's claim to a name, to be given back with unref.
func (o *Owner) claim(l *Lock) *claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims.Get(l.claimKey())
	if c == nil {
		c = &claim{owner: o}
		o.claims.Put(l.claimKey(), c)
	}
	c.mu.Lock()
	c.refs++
	c.mu.Unlock()
	return c
}

// holds reports whether the owner has anything of the name.
func (c *claim) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Holds()
}

// existing returns the claim of ctx's owner to a name if there is one, without a reference.
func existing(ctx context.Context, key claimKey) *claim {
	o := OwnerOf(ctx)
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims.Get(key)
}

// share gives the claim of a hold an owner, so that a context can carry it, and returns it. When the hold has ended,
// the claim may be somebody else's.
func (h *Single) share() *Owner {
	c := h.grant.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.ended.Load() != nil {
		return new(Owner)
	}
	if c.owner == nil {
		// Nobody else can have found the claim: the one reference is the hold's.
		c.owner, c.refs = &h.setRare().owner, 1
		c.owner.claims.Put(h.lock.claimKey(), c)
	}
	return c.owner
}

// ownedBy is the owner of the claim, nil until a context carries it.
func (c *claim) ownedBy() *Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner
}

// unref gives a reference to the claim to a lock back; with the last one the owner forgets the name.
func (c *claim) unref(l *Lock) {
	if c == nil {
		return
	}
	owner := c.ownedBy()
	if owner == nil {
		return
	}
	owner.mu.Lock()
	defer owner.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refs--; c.refs == 0 {
		owner.claims.Remove(l.claimKey())
	}
}

// enter waits for the turn of an operation. Give it back with leave.
func (c *claim) enter(ctx context.Context) error {
	c.mu.Lock()
	if !c.busy {
		c.busy = true
		c.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	crowd := c.gather()
	crowd.turns = append(crowd.turns, turn)
	c.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if i := slices.Index(crowd.turns, turn); i >= 0 {
		crowd.turns = slices.Delete(crowd.turns, i, i+1)
		c.mu.Unlock()
		return context.Cause(ctx)
	}
	c.mu.Unlock()
	c.leave() // the turn came at the same moment: pass it on
	return context.Cause(ctx)
}

// leave passes the turn on.
func (c *claim) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crowd == nil || len(c.crowd.turns) == 0 {
		c.busy = false
		return
	}
	close(c.crowd.turns[0])
	c.crowd.turns = slices.Delete(c.crowd.turns, 0, 1)
}

// await has w woken when the claim is granted to another call of the same owner, at once if it
// has been.
func (c *claim) await(w Waker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	crowd := c.gather()
	crowd.waits = append(crowd.waits, w)
	if c.Holds() {
		w.Wake()
	}
}

// forgo ends await.
func (c *claim) forgo(w Waker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crowd == nil {
		return // the claim was handed over with the lock
	}
	c.crowd.waits = slices.DeleteFunc(c.crowd.waits, func(other Waker) bool { return other == w })
}
