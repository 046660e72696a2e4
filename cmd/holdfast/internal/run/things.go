//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/inspect"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// A kind is which lock is taken, or a permit.
type kind string

const (
	plain  kind = "lock"
	fair   kind = "fair"
	reads  kind = wire.ModeRead
	writes kind = wire.ModeWrite
	permit kind = "permit"
	tenure kind = "term" // of a leader
)

// covers reports whether a hold of kind k makes one of the other kind, of the same name, unnecessary.
func (k kind) covers(other kind) bool {
	if k == permit || other == permit {
		return k == other
	}
	return k != reads || other == reads
}

func (s *settings) kind() kind {
	switch {
	case s.verb == leads:
		return tenure
	case s.permits > 0:
		return permit
	case s.shared:
		return reads
	case s.exclusive:
		return writes
	case s.fair:
		return fair
	}
	return plain
}

// A thing is a lock, or a semaphore.
type thing interface {
	Lock(ctx context.Context) (*holdfast.Hold, error)
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
	Holders(ctx context.Context) ([]holdfast.Holder, error)
}

// newThing is the lock or the semaphore of a name. Its lease is fixed, or renewed if fixed is 0.
func newThing(session *holdfast.Session, k kind, name string, fixed time.Duration, fenced bool) thing {
	switch k {
	case permit:
		return permits{semaphore.NewExpirable(session, name, &semaphore.ExpirableOptions{FixedLease: fixed})}
	case fair, tenure:
		return fairlock.New(session, name, &fairlock.Options{FixedLease: fixed, Fenced: fenced})
	case reads:
		return rwlock.New(session, name, &rwlock.Options{FixedLease: fixed}).Read()
	case writes:
		return rwlock.New(session, name, &rwlock.Options{FixedLease: fixed}).Write()
	case plain:
	}
	return rlock.New(session, name, &rlock.Options{FixedLease: fixed, Fenced: fenced})
}

// permits makes a semaphore a thing. The server does not know who holds its permits.
type permits struct{ *semaphore.Expirable }

func (p permits) Lock(ctx context.Context) (*holdfast.Hold, error) { return p.Acquire(ctx) }

func (p permits) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return p.TryAcquireFor(ctx, wait)
}

func (p permits) Holders(context.Context) ([]holdfast.Holder, error) { return nil, nil }

// An election makes the lock of package leader's elections a thing that is taken by standing for one.
type election struct {
	thing
	session *holdfast.Session
	name    string
	over    *sync.WaitGroup // done when the process does not stand any more
}

// Lock returns a hold that is nested in the leader's. With its end the process resigns.
func (e election) Lock(ctx context.Context) (hold *holdfast.Hold, err error) {
	standing, resign := context.WithCancel(context.WithoutCancel(ctx))
	elected := context.AfterFunc(ctx, resign) // no longer than until then
	result := make(chan error, 2)
	e.over.Go(func() {
		result <- leader.Run(standing, e.session, e.name, func(ctx context.Context) (err error) {
			if hold, err = e.thing.Lock(ctx); err != nil {
				return err
			}
			elected()
			result <- nil
			<-hold.Context(ctx).Done()
			resign() // after a loss, too: another call stands again
			return nil
		})
		resign()
	})
	err = <-result
	return hold, err
}

// holders are the holders of what is wanted; of a read-write lock, those of both halves.
func (s *settings) holders(ctx context.Context, session *holdfast.Session) (all []*survey.Party, err error) {
	kinds, half := []kind{s.kind()}, s.shared || s.exclusive
	if half {
		kinds = []kind{writes, reads}
	}
	for _, k := range kinds {
		holders, err := newThing(session, k, s.name, 0, false).Holders(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range holders {
			p := inspect.HolderOf(h)
			if half {
				p.Mode = string(k)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// holds reports whether the owner with that id holds the lock, or the permit with that id is still taken.
func holds(ctx context.Context, session *holdfast.Session, k kind, name, id string) (bool, error) {
	if k == permit {
		_, err := semaphore.NewExpirable(session, name, nil).RemainingLease(ctx, id)
		return err == nil, err
	}
	holders, err := newThing(session, k, name, 0, false).Holders(ctx)
	return slices.ContainsFunc(holders, func(h holdfast.Holder) bool { return h.ID == id }), err
}
