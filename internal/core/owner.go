package core

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/registry"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/turn"
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

// A claim has all that one owner holds of one name, by the rules of [owner.Claim], and whose turn it is: one operation
// is in flight for it at a time (guarantee G3).
type claim struct {
	turn.Turn        // its references are holds and calls, counted once there is an owner
	owner     *Owner // nil until a context carries it
	owner.Claim[*grant, *Single]
}

// claim returns the owner's claim to a name, to be given back with unref.
func (o *Owner) claim(l *Lock) *claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims.Get(l.claimKey())
	if c == nil {
		c = &claim{owner: o}
		o.claims.Put(l.claimKey(), c)
	}
	c.Lock()
	c.Refs++
	c.Unlock()
	return c
}

// wires are the wire owners under which the owner has anything, and nobody else ever will.
func (o *Owner) wires() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.claims.All() {
		c.Lock()
		own, other := c.Held(owner.Exclusive)
		c.Unlock()
		for _, g := range []*owner.Grant[*grant, *Single]{own, other} {
			if g != nil && !g.Of.lock.Wires.Reused {
				all = append(all, g.Wire)
			}
		}
	}
	return all
}

// Nest publishes that a call of the owner waits for l, if it waits for long while the owner holds anything.
func (o *Owner) Nest(r *session.Retries, l *Lock) {
	if in, ok := l.protocol.(kind.Inspector); ok && !l.Wires.Reused && len(o.wires()) > 0 {
		blockers := func(ctx context.Context) (owners []string, err error) {
			err = l.Inspect(ctx, "holders", in.InTheWay(), func(owner string, _ []int64) { owners = append(owners, owner) })
			return owners, err
		}
		r.Nest(&presence.Nested{Kind: l.Title(), Name: l.Key(), For: blockers, Holds: o.wires})
	}
}

// granted records that the server has granted a request of the owner's, if there is one.
func (c *claim) granted(r *owner.Request) {
	if c != nil {
		c.Lock()
		c.Granted(r)
		c.Unlock()
	}
}

// holds reports whether the owner has anything of the name.
func (c *claim) holds() bool {
	c.Lock()
	defer c.Unlock()
	return c.Holds()
}

// share gives the claim of a hold an owner, so that a context can carry it, and returns it. When the hold has ended,
// the claim may be somebody else's.
func (h *Single) share() *Owner {
	c := h.grant.claim
	c.Lock()
	defer c.Unlock()
	if h.ended.Load() != nil {
		return new(Owner)
	}
	if c.owner == nil {
		// Nobody else can have found the claim: the one reference is the hold's.
		c.owner, c.Refs = &h.setRare().owner, 1
		c.owner.claims.Put(h.lock.claimKey(), c)
	}
	return c.owner
}

// ownedBy is the owner of the claim, nil until a context carries it.
func (c *claim) ownedBy() *Owner {
	c.Lock()
	defer c.Unlock()
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
	c.Lock()
	defer c.Unlock()
	if c.Refs--; c.Refs == 0 {
		owner.claims.Remove(l.claimKey())
	}
}

// await has w woken when the claim is granted to another call of the same owner, at once if it has been.
func (c *claim) await(w turn.Waker) {
	c.Lock()
	defer c.Unlock()
	c.Await(w)
	if c.Holds() {
		w.Wake()
	}
}
