// Package holders answers who holds a lock, for how long it stays taken, and who waits for it.
package holders

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/presence"
)

// A Holder is who holds a lock, how often, and for how long if nobody renews.
type Holder struct {
	ID    string
	Count int
	Lease time.Duration
	Note  string
	presence.Process
}

// Inspect asks who holds the lock, one wire owner only if it is given, and for how long it stays taken
// at least if nobody renews or releases it: 0 if nobody holds it, below zero if it has no end.
func Inspect(
	ctx context.Context, l *core.Lock, owner, operation string,
) (holders []Holder, left time.Duration, err error) {
	endless := false
	call := l.Protocol().(kind.Inspector).Holders(owner)
	err = l.Inspect(ctx, operation, call, func(id string, n []int64) {
		lasts := lease.Lasting(n[1])
		if left = max(left, lasts); lasts < 0 {
			lasts, endless = -1, true
		}
		holders = append(holders, Holder{ID: id, Count: int(n[0]), Lease: lasts})
	})
	if endless {
		left = -1
	}
	return holders, left, err
}

// Locked asks whether anybody holds the lock.
func Locked(ctx context.Context, l *core.Lock) (bool, error) {
	holders, _, err := Inspect(ctx, l, "", "locked")
	return len(holders) > 0, err
}

// RemainingLease asks how long the lock stays taken, by Inspect.
func RemainingLease(ctx context.Context, l *core.Lock) (time.Duration, error) {
	_, left, err := Inspect(ctx, l, "", "remaining lease")
	return left, err
}

// All asks who holds the lock, and which processes they are.
func All(ctx context.Context, l *core.Lock) ([]Holder, error) {
	holders, _, err := Inspect(ctx, l, "", "holders")
	if err != nil {
		return nil, err
	}
	owners := make([]string, len(holders))
	for i, h := range holders {
		owners[i] = h.ID
	}
	for i, t := range l.Session().Presence().Told(ctx, owners) {
		holders[i].Process, holders[i].Note = t.Process, t.Notes[owners[i]]
	}
	return holders, nil
}

// Held asks whether ctx's owner holds the lock.
func Held(ctx context.Context, l *core.Lock) (bool, error) {
	n, err := holdCount(ctx, l, "held")
	return n > 0, err
}

// HoldCount asks how often ctx's owner holds the lock; 0 without an owner.
func HoldCount(ctx context.Context, l *core.Lock) (int, error) {
	return holdCount(ctx, l, "hold count")
}

func holdCount(ctx context.Context, l *core.Lock, operation string) (int, error) {
	if err := l.Mistake(operation); err != nil {
		return 0, err
	}
	owner, held := l.Believed(ctx)
	if held == 0 {
		return 0, nil
	}
	holders, _, err := Inspect(ctx, l, owner, operation)
	if err != nil || len(holders) == 0 || holders[0].ID != owner {
		return 0, err
	}
	return min(holders[0].Count, held), nil
}
