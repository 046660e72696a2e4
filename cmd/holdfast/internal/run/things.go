//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/inspect"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

// A kind is what is held.
type kind string

const (
	plain  kind = "lock"
	fair   kind = "fair"
	reads  kind = "read"
	writes kind = "write"
	permit kind = "permit"
)

// covers reports whether who holds something of kind k of a name needs not take the other of that name.
func (k kind) covers(other kind) bool {
	if k == permit || other == permit {
		return k == other
	}
	return k != reads || other == reads
}

func (s *settings) kind() kind {
	switch {
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

// A thing can be taken.
type thing interface {
	Lock(ctx context.Context) (*holdfast.Hold, error)
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
	Holders(ctx context.Context) ([]holdfast.Holder, error)
}

// thing is what is to be held; fixed is its lease if it is not renewed, else 0.
func (s *settings) thing(session *holdfast.Session, fixed time.Duration) thing {
	return newThing(session, s.kind(), s.name, fixed, s.fenced)
}

func newThing(session *holdfast.Session, k kind, name string, fixed time.Duration, fenced bool) thing {
	switch k {
	case permit:
		return permits{semaphore.NewExpirable(session, name, &semaphore.ExpirableOptions{FixedLease: fixed})}
	case fair:
		return fairlock.New(session, name, &fairlock.Options{FixedLease: fixed})
	case reads:
		rw := rwlock.New(session, name, &rwlock.Options{FixedLease: fixed})
		return half{rw.Read(), rw}
	case writes:
		rw := rwlock.New(session, name, &rwlock.Options{FixedLease: fixed})
		return half{rw.Write(), rw}
	case plain:
	}
	return rlock.New(session, name, &rlock.Options{FixedLease: fixed, Fenced: fenced})
}

// A half is one of a read-write lock.
type half struct {
	*rwlock.Half
	both *rwlock.RWMutex
}

// holdersOf are those who hold a thing, or the other half of it.
func holdersOf(ctx context.Context, what thing) (all []*survey.Party, err error) {
	add := func(mode string, of thing) {
		var holders []holdfast.Holder
		if err == nil {
			holders, err = of.Holders(ctx)
		}
		for _, h := range holders {
			all = append(all, inspect.HolderOf(h, mode))
		}
	}
	if rw, ok := what.(half); ok {
		add(wire.ModeWrite, rw.both.Write())
		add(wire.ModeRead, rw.both.Read())
	} else {
		add("", what)
	}
	return all, err
}

// permits makes a semaphore a thing. Nobody tells who holds its permits.
type permits struct{ *semaphore.Expirable }

func (p permits) Lock(ctx context.Context) (*holdfast.Hold, error) { return p.Acquire(ctx) }

func (p permits) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return p.TryAcquireFor(ctx, wait)
}

func (p permits) Holders(context.Context) ([]holdfast.Holder, error) { return nil, nil }

// holds reports whether the owner, or the permit of that id, holds something of that kind and name.
func holds(ctx context.Context, session *holdfast.Session, k kind, name, id string) (bool, error) {
	if k == permit {
		_, err := semaphore.NewExpirable(session, name, nil).RemainingLease(ctx, id)
		if errors.Is(err, holdfast.ErrNotHeld) {
			return false, nil
		}
		return err == nil, err
	}
	holders, err := newThing(session, k, name, 0, false).Holders(ctx)
	return slices.ContainsFunc(holders, func(h holdfast.Holder) bool { return h.ID == id }), err
}
