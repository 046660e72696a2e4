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

// ErrOrderBusy means that somebody else is working on the order.
var ErrOrderBusy = errors.New("order is in work")

// Orders is the port of OrderService: methods that lock and call each other, and one that hands work to goroutines.
type Orders struct {
	session *holdfast.Session
	store   OrderStore
	pickUp  func(ctx context.Context, id string) error // by the carrier
}

// An OrderStore stores orders.
type OrderStore interface {
	SetState(ctx context.Context, id, state string) error
}

// NewOrders returns the service of a program.
func NewOrders(session *holdfast.Session, store OrderStore, pickUp func(ctx context.Context, id string) error) *Orders {
	return &Orders{session: session, store: store, pickUp: pickUp}
}

// Ship lets the carrier pick up the order. It waits up to 3 s for the order, and holds it for at most a minute.
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
	return o.SetState(ctx, id, "shipped") // locks the order again: ctx has its owner
}

// SetState sets the state of an order, whether the caller already holds the order or not.
func (o *Orders) SetState(ctx context.Context, id, state string) error {
	hold, err := rlock.New(o.session, "orders:"+id, nil).Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)

	return o.store.SetState(ctx, id, state)
}

// ShipAll ships orders concurrently; its callers take turns.
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
