package porting

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rwlock"
)

// Catalog is the port of the class of that name: many read prices, one replaces them and goes on reading.
type Catalog struct {
	session *holdfast.Session
	lock    *rwlock.RWMutex
	prices  PriceStore
}

// A PriceStore stores prices. It protects nothing by itself.
type PriceStore interface {
	Price(ctx context.Context, sku string) (int, error)
	Replace(ctx context.Context, prices map[string]int) error
	All(ctx context.Context) (map[string]int, error)
}

// NewCatalog returns the catalog of a program.
func NewCatalog(session *holdfast.Session, prices PriceStore) *Catalog {
	return &Catalog{session: session, lock: rwlock.New(session, "catalog", nil), prices: prices}
}

// AwaitStart returns when that many programs have called it for a release, or after 30 s.
func (c *Catalog) AwaitStart(ctx context.Context, release string, programs int) error {
	ready := latch.New(c.session, "catalog-start-"+release)
	if _, err := ready.TrySetCount(ctx, programs); err != nil { // false: somebody was first
		return err
	}
	if err := ready.CountDown(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return ready.Wait(ctx)
}

// Price is the price of an article.
func (c *Catalog) Price(ctx context.Context, sku string) (int, error) {
	hold, err := c.lock.Read().Lock(ctx)
	if err != nil {
		return 0, err
	}
	defer hold.Release()
	return c.prices.Price(hold.Context(ctx), sku)
}

// Replace replaces the prices and announces the new ones. Meanwhile others may read, but nobody may write.
func (c *Catalog) Replace(ctx context.Context, prices map[string]int,
	announce func(ctx context.Context, prices map[string]int) error,
) error {
	writing, err := c.lock.Write().Lock(ctx)
	if err != nil {
		return err
	}
	defer writing.Release() // does nothing the second time
	if err := c.prices.Replace(writing.Context(ctx), prices); err != nil {
		return err
	}

	reading, err := c.lock.Read().Lock(writing.Context(ctx)) // the same owner
	if err != nil {
		return err
	}
	defer reading.Release()
	if err := writing.Release(); err != nil {
		return err
	}

	ctx = reading.Context(ctx) // from the first ctx: the write hold's context has ended with it
	all, err := c.prices.All(ctx)
	if err != nil {
		return err
	}
	return announce(ctx, all)
}
