package demo

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
)

func workFair(ctx context.Context, w *worker) error {
	return w.count(ctx, func(s *holdfast.Session) holdfast.Locker { return impatient{newFair(s, w.Name), w} })
}

// An impatient lock is a fair one whose waiters give up on the coordinator's order, one each.
type impatient struct {
	*fairlock.Mutex
	worker *worker
}

func (i impatient) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return i.worker.orGiveUp(ctx, i.Mutex.Lock)
}
