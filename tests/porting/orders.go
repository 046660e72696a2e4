package porting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
)

// ErrOrderBusy says that somebody else works on the order.
var ErrOrderBusy = errors.New("order is in work")

// Orders is the port of OrderService: methods that lock and call each other, and one that hands work to others.
type Orders struct {
	session *holdfast.Session
	store   OrderStore
	pickUp  func(ctx context.Context, id string) error // by the carrier
}

// An OrderStore is where orders are.
type OrderStore interface {
	SetState(ctx context.Context, id, state string) error
}

// NewOrders returns the service of a program.
func NewOrders(session *holdfast.Session, store OrderStore, pickUp func(ctx context.Context, id string) error) *Orders {
	return &Orders{session: session, store: store, pickUp: pickUp}
}

// Ship has the order picked up. It waits 3 s for the order, and has it for a minute at the most.
func (o *Orders) Ship(ctx context.Context, id string) error {
	order := rlock.New(o.session, "orders:"+id, &rlock.Options{FixedLease: time.Minute})
	hold, err := order.TryLockFor(ctx, 3*time.Second)
	if errors.Is(err, holdfast.ErrBusy) {
		return fmt.Errorf("order %s: %w", id, ErrOrderBusy)
	}
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)

	if err := o.pickUp(ctx, id); err != nil {
		return err
	}
	return o.SetState(ctx, id, "shipped") // locks the order again: ctx says that it is ours
}

// SetState sets the state of an order, whether the caller has the order already or not.
func (o *Orders) SetState(ctx context.Context, id, state string) error {
	hold, err := rlock.New(o.session, "orders:"+id, nil).Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)

	return o.store.SetState(ctx, id, state)
}

// ShipAll ships orders at the same time, in the turn of whoever calls it.
func (o *Orders) ShipAll(ctx context.Context, ids []string) error {
	hold, err := fairlock.New(o.session, "dispatch", nil).Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)

	all, ctx := errgroup.WithContext(ctx)
	for _, id := range ids {
		all.Go(func() error { return o.Ship(holdfast.NewOwner(ctx), id) })
	}
	return all.Wait()
}
