package kit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// severalLocks are several locks as one. What locks tell of their holders there is not.
type severalLocks struct {
	untold
	taker
	first *rlock.Mutex
}

// taker is what locks offer that tell nothing.
type taker interface {
	holdfast.Locker
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
}

// newSeveralLocks makes them of a reentrant lock and one that second makes.
func newSeveralLocks(second func(s *holdfast.Session, name string,
	fixed time.Duration) holdfast.Locker) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	return func(s *holdfast.Session, name string, fixed time.Duration) Locker {
		first := rlock.New(s, name, &rlock.Options{FixedLease: fixed})
		other := name + "'"
		if name == "" {
			other = "x"
		}
		return severalLocks{taker: multilock.New(second(s, other, fixed), first), first: first}
	}
}

// fair and alike make the second lock: of another kind, so that they are taken one by one; or of the same.
func fair(s *holdfast.Session, name string, fixed time.Duration) holdfast.Locker {
	return fairlock.New(s, name, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second})
}

func alike(s *holdfast.Session, name string, fixed time.Duration) holdfast.Locker {
	return rlock.New(s, name, &rlock.Options{FixedLease: fixed})
}

func (l severalLocks) Locked(ctx context.Context) (bool, error) { return l.first.Locked(ctx) }

func (severalLocks) RemainingLease(context.Context) (time.Duration, error) {
	return 0, errors.ErrUnsupported
}

// newRedLocks makes locks on the server of the session and two more.
func newRedLocks(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	servers := StartServers(t, 2)
	return redLocksWith(func() []*holdfast.Session { return OpenAll(t, servers, nil) },
		&multilock.RedLockOptions{TrustRestarted: true})
}

// redLocksWith makes locks on the server of the session and those of its companions, which each session has of its own.
func redLocksWith(open func() []*holdfast.Session, options *multilock.RedLockOptions) func(s *holdfast.Session,
	name string, fixed time.Duration) Locker {
	var mu sync.Mutex
	companions := make(map[*holdfast.Session][]*holdfast.Session)
	return func(s *holdfast.Session, name string, fixed time.Duration) Locker {
		mu.Lock()
		defer mu.Unlock()
		if companions[s] == nil {
			companions[s] = open()
		}
		first := rlock.New(s, name, &rlock.Options{FixedLease: fixed})
		locks := []holdfast.Locker{first}
		for _, companion := range companions[s] {
			locks = append(locks, rlock.New(companion, name, &rlock.Options{FixedLease: fixed}))
		}
		return severalLocks{taker: multilock.NewRedLock(locks, options), first: first}
	}
}
