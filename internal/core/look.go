package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Holder is who holds a lock, how often, and for how long if nobody renews.
type Holder struct {
	ID    string
	Count int
	Lease time.Duration
	presence.Process
}

// HoldersScript tells who holds a lock that is one hash.
var HoldersScript = script.LoadLook("lock_holders")

// RenewScript extends locks that are one hash.
var RenewScript = script.Load("lock_renew")

// Inspect asks who holds the lock, one wire owner only if it is given, and for how long it stays taken
// at least if nobody renews or releases it: 0 if nobody holds it, below zero if it has no end.
func (l *Lock) Inspect(ctx context.Context, owner, operation string) (holders []Holder, left time.Duration, err error) {
	endless := false
	call := l.protocol.(Inspector).Holders(owner)
	err = l.Run(ctx, operation, call, func() error {
		values, err := call.ReadArray()
		if err != nil {
			return err
		}
		return call.ReadRows(values, 2, func(id string, n []int64) {
			lasts := lease.Lasting(n[1])
			if left = max(left, lasts); lasts < 0 {
				lasts, endless = -1, true
			}
			holders = append(holders, Holder{ID: id, Count: int(n[0]), Lease: lasts})
		})
	})
	if endless {
		left = -1
	}
	return holders, left, err
}

// Locked asks whether anybody holds the lock.
func (l *Lock) Locked(ctx context.Context) (bool, error) {
	holders, _, err := l.Inspect(ctx, "", "locked")
	return len(holders) > 0, err
}

// RemainingLease asks for how long the lock stays taken, as Inspect tells it.
func (l *Lock) RemainingLease(ctx context.Context) (time.Duration, error) {
	_, left, err := l.Inspect(ctx, "", "remaining lease")
	return left, err
}

// Holders asks who holds the lock, and which processes they are.
func (l *Lock) Holders(ctx context.Context) ([]Holder, error) {
	holders, _, err := l.Inspect(ctx, "", "holders")
	if err != nil {
		return nil, err
	}
	owners := make([]string, len(holders))
	for i, h := range holders {
		owners[i] = h.ID
	}
	for i, p := range l.session.Presence().Processes(ctx, owners) {
		holders[i].Process = p
	}
	return holders, nil
}

// Held asks whether ctx's owner holds the lock.
func (l *Lock) Held(ctx context.Context) (bool, error) {
	n, err := l.holdCount(ctx, "held")
	return n > 0, err
}

// HoldCount asks how often ctx's owner holds the lock; 0 without an owner.
func (l *Lock) HoldCount(ctx context.Context) (int, error) { return l.holdCount(ctx, "hold count") }

func (l *Lock) holdCount(ctx context.Context, operation string) (int, error) {
	if err := l.Mistake(operation); err != nil {
		return 0, err
	}
	owner, held := l.believed(ctx)
	if held == 0 {
		return 0, nil
	}
	holders, _, err := l.Inspect(ctx, owner, operation)
	if err != nil || len(holders) == 0 || holders[0].ID != owner {
		return 0, err
	}
	return min(holders[0].Count, held), nil
}
