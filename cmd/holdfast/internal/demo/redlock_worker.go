package demo

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

func workRedLock(ctx context.Context, w *worker) error {
	return w.employOnAll(ctx, func(s []*holdfast.Session, g goroutine) job {
		return (&counting{
			goroutine: g, lock: newRedLock(s, w.Name), counter: counter(w.File), beside: g.watch,
		}).increment
	})
}

// newRedLock makes one lock of one on each server. In Java, with Redisson:
//
//	RLock lock = redisson.getRedLock(
//	    client1.getLock(name), client2.getLock(name), client3.getLock(name), …);
func newRedLock(sessions []*holdfast.Session, name string) *multilock.RedLock {
	var locks []holdfast.Locker
	for _, s := range sessions {
		locks = append(locks, rlock.New(s, name, nil))
	}
	return multilock.NewRedLock(locks, &multilock.RedLockOptions{ServerTimeout: redLockTimeout})
}

// watch tells what becomes of a hold, until it ends or ctx does: that its deadline moves on, and
// how long before the last one it has ended by itself.
func (g goroutine) watch(ctx context.Context, hold *holdfast.Hold) {
	ctx = hold.Context(ctx)
	deadline := hold.Deadline()
	told := deadline
	looks := time.NewTicker(glance)
	defer looks.Stop()
	for {
		select {
		case <-looks.C:
			later := hold.Deadline()
			if hold.Err() != nil {
				continue // the last deadline was the one before
			}
			deadline = later
			// Servers renew it one after the other, which moves it by very little.
			if deadline.Sub(told) > g.Lease/10 {
				told = deadline
				_ = g.tell(event{What: renewed, Left: time.Until(told)}) // if nobody listens the others end it all
			}
		case <-ctx.Done():
			if errors.Is(hold.Err(), holdfast.ErrLost) {
				_ = g.tell(event{What: expired, Left: time.Until(deadline)})
			}
			return
		}
	}
}
