package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// A Holder is who holds a lock, how often, and for how long if nobody renews. The root package
// has a type of the same fields.
type Holder struct {
	ID    string
	Count int
	Lease time.Duration
}

// HoldersScript tells who holds a lock that is one hash.
var HoldersScript = script.Load("lock_holders")

// RenewScript extends locks that are one hash.
var RenewScript = script.Load("lock_renew")

// Holders asks who holds the lock, and for how long it stays taken at least if nobody renews or
// releases it: 0 if nobody holds it, below zero if it has no end.
func Holders[H ~struct {
	ID    string
	Count int
	Lease time.Duration
}](ctx context.Context, l *Lock, operation string) (holders []H, left time.Duration, err error) {
	return holdersOf[H](ctx, l, "", operation)
}

// holdersOf is Holders, of one wire owner if one is given.
func holdersOf[H ~struct {
	ID    string
	Count int
	Lease time.Duration
}](ctx context.Context, l *Lock, owner, operation string) (holders []H, left time.Duration, err error) {
	endless := false
	call := l.protocol.(Inspector).Holders(owner)
	err = l.Run(ctx, operation, call, func() error {
		values, err := call.ReadArray()
		if err != nil {
			return err
		}
		return call.ReadRows(values, 2, func(id string, n []int64) {
			lasts := time.Duration(n[1]) * time.Millisecond
			if left = max(left, lasts); lasts < 0 {
				lasts, endless = -1, true
			}
			holders = append(holders, H{ID: id, Count: int(n[0]), Lease: lasts})
		})
	})
	if endless {
		left = -1
	}
	return holders, left, err
}

// HoldCount asks how often ctx's owner holds the lock; 0 without an owner.
func (l *Lock) HoldCount(ctx context.Context, operation string) (int, error) {
	if err := l.Mistake(operation); err != nil {
		return 0, err
	}
	owner, held := l.Held(ctx)
	if held == 0 {
		return 0, nil
	}
	holders, _, err := holdersOf[Holder](ctx, l, owner, operation)
	if err != nil || len(holders) == 0 || holders[0].ID != owner {
		return 0, err
	}
	return min(holders[0].Count, held), nil
}
