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

// severalLocks is several locks as one. It cannot tell who holds it.
type severalLocks struct {
	untold
	taker
	first *rlock.Mutex
}

// A taker is a lock that does not tell who holds it.
type taker interface {
	holdfast.Locker
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
}

// newSeveralLocks combines a reentrant lock and one that second makes.
func newSeveralLocks(second func(s *holdfast.Session, name string,
	fixed time.Duration) holdfast.Locker,
) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	return func(s *holdfast.Session, name string, fixed time.Duration) Locker {
		first := rlock.New(s, name, &rlock.Options{FixedLease: fixed})
		other := name + "'"
		if name == "" {
			other = "x"
		}
		return severalLocks{taker: multilock.New(second(s, other, fixed), first), first: first}
	}
}

// fair and alike make the second lock: one of another kind, so that the locks are taken one by one, or one of the
// same kind.
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

// newRedLocks makes locks on the session's server and two more.
func newRedLocks(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	servers := StartServers(t, 2)
	return redLocksWith(func() []*holdfast.Session { return OpenAll(t, servers, nil) })
}

// redLocksWith makes locks on the session's server and on those of its companions, of which each session has its own.
func redLocksWith(open func() []*holdfast.Session) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	var mu sync.Mutex
	companions := make(map[*holdfast.Session][]*holdfast.Session)
	return func(s *holdfast.Session, name string, fixed time.Duration) Locker {
		mu.Lock()
		defer mu.Unlock()
		if companions[s] == nil {
			companions[s] = open()
		}
		options := *Patient
		if fixed != 0 { // a server must be waited for less long than a lease is trusted
			options.ServerTimeout = 900 * time.Millisecond
		}
		first := rlock.New(s, name, &rlock.Options{FixedLease: fixed})
		locks := []holdfast.Locker{first}
		for _, companion := range companions[s] {
			locks = append(locks, rlock.New(companion, name, &rlock.Options{FixedLease: fixed}))
		}
		return severalLocks{taker: multilock.NewRedLock(locks, &options), first: first}
	}
}
