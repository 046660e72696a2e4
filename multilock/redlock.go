package multilock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/several"
)

// leastServers is how many make a majority that survives the end of one.
const leastServers = 3

// A RedLock is a lock on several independent servers. The owner that has it on most of them holds it. It is immutable
// and safe for concurrent use.
type RedLock struct {
	quorum several.Quorum
}

var _ holdfast.Locker = (*RedLock)(nil)

// RedLockOptions tune a RedLock. The zero value of a field means its default.
type RedLockOptions struct {
	// ServerTimeout bounds the wait for each server in taking, extending and releasing, so that a server that is gone
	// costs little of the lease. The default is a hundredth of the shortest lease, but at least 100 ms and at most a
	// second, and never more than a quarter of the lease. Whatever it is, releasing takes at most a third of the lease or
	// 5 s, whichever is less. It bounds the wait for replicas as well ([holdfast.Options.Acks]), which then fails with
	// [holdfast.ErrNotAcknowledged]. By default, replicas have AcksTimeout besides, but at most a third of the lease.
	ServerTimeout time.Duration

	// MinValidity is how long a hold must be trusted, without a renewal, when it is granted. A hold with less time left is
	// given back. The default, 0, accepts any time.
	MinValidity time.Duration

	// TrustRestarted counts a server as soon as it has started. By default a server does not count until
	// it has been up for a lease, because it may have forgotten a lock that it granted before. Set it for
	// servers that lose no write when they fail: with appendfsync always.
	TrustRestarted bool
}

// NewRedLock makes one lock of several, each on a server of its own. The servers must be independent: no replicas of
// each other, no nodes of one cluster. The owner of more than half of the locks holds the RedLock. This is the
// algorithm that the documentation of Redis calls Redlock. At least three are needed. Odd numbers are best: a fourth
// server allows for no more failures than three do.
//
// If the members are locks of package rlock, the RedLock re-enters, like Redisson's. If they are locks of package
// setlock without a Token, it is the lock of redsync. As a rule they all have the same name. All clients should use the
// same lease. If a type of the program embeds such a lock, that lock is the member, and methods that hide its own are
// not called.
//
// NewRedLock sends nothing and cannot fail: a mistake comes back from the first call. It corresponds to Redisson's
// getRedLock(), which neither counts the time that the requests take nor knows of restarts.
func NewRedLock(locks []holdfast.Locker, opts *RedLockOptions) *RedLock {
	if opts == nil {
		opts = &RedLockOptions{}
	}
	r := &RedLock{quorum: several.Quorum{
		ServerTimeout: opts.ServerTimeout, MinValidity: opts.MinValidity, TrustRestarted: opts.TrustRestarted,
	}}
	name, mistake := r.add(locks)
	if mistake == nil {
		mistake = r.check()
	}
	several.InitQuorum(&r.quorum, session.Label{Kind: "redlock", Name: name}, mistake)
	return r
}

// add makes the locks members, or says why it cannot, and returns their joint name.
func (r *RedLock) add(locks []holdfast.Locker) (name string, mistake error) {
	var names []string
	for i, l := range locks {
		if isNil(l) {
			return "", fmt.Errorf("lock %d is nil", i+1)
		}
		lock := core.LockOf(l)
		if lock == nil || !lock.Ages {
			return "", fmt.Errorf("lock %d is %s, must be an rlock or a setlock", i+1, called(lock, l))
		}
		if len(names) == 0 || names[len(names)-1] != l.Name() {
			names = append(names, l.Name())
		}
		for j, other := range r.quorum.Locks {
			if lock.Session() == other.Session() {
				mistake = fmt.Errorf("locks %d and %d are of one session, must be on independent servers", j+1, i+1)
			}
		}
		r.quorum.Locks = append(r.quorum.Locks, lock)
	}
	return strings.Join(names, ", "), mistake
}

// called returns the name of a lock in error texts.
func called(lock *core.Lock, l holdfast.Locker) string {
	if lock == nil {
		return fmt.Sprintf("a %T", l)
	}
	return lock.String()
}

// check returns what is wrong with the number of locks or with the options.
func (r *RedLock) check() error {
	q := &r.quorum
	if len(q.Locks) < leastServers {
		return fmt.Errorf("%d locks are given, must be at least %d", len(q.Locks), leastServers)
	}
	for _, l := range q.Locks {
		if err := wrong(l); err != nil {
			return err
		}
	}
	shortest, _ := q.Leases()
	switch limit := several.Validity(shortest); {
	case q.ServerTimeout < 0 || q.ServerTimeout >= limit:
		return fmt.Errorf("RedLockOptions.ServerTimeout is %v, must be 0 or less than %v, for which a lease is trusted",
			q.ServerTimeout, limit)
	case q.MinValidity < 0 || q.MinValidity >= limit:
		return fmt.Errorf("RedLockOptions.MinValidity is %v, must be 0 or less than %v, for which a lease is trusted",
			q.MinValidity, limit)
	}
	return nil
}

// Name is the name of the members. If they have different names, it lists them.
func (r *RedLock) Name() string { return r.quorum.Name }

// Lock takes the lock. It waits until most servers have granted it or ctx ends. All are asked at once. If too few grant
// it, their grants are given back, and all are asked again when one of them announces a release, or after a random time
// of at first 10 ms and at most a quarter of a second. Only one waiter of a process asks at a time.
//
// An error that matches ctx.Err() and its cause says that ctx ended first, [holdfast.ErrAlreadyHeld] that the members
// do not re-enter and this owner has them. Any other error says that so many servers refused that no majority was left.
// After an error nothing is held: servers that have not answered are told to give the lock back as soon as they do.
// Lock waits for what is given back for at most 0.1 s after ctx has ended.
//
// The hold has no ID and no Token: servers that do not know of each other cannot issue tokens that increase. Until its
// Deadline, which allows for clock drift, most servers are certain to grant the lock to nobody else. The hold ends when
// the majority is no longer certain, not when one server is gone. A server that has come back is asked to join at the
// next renewal. Release returns nil if most servers have given the lock back; the others are told in the background. It
// corresponds to lock().
func (r *RedLock) Lock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := r.quorum.Lock(ctx, "lock", session.Forever)
	return (*holdfast.Hold)(h), err
}

// TryLock asks all servers once. It blocks for about a round trip if most of them grant it, or say that somebody has
// it. Otherwise, if any server does not answer, it blocks for [RedLockOptions.ServerTimeout], and for as long again to
// give back what was granted. It does not wait for a server that was silent before if somebody has the lock on one of
// the others. [holdfast.ErrBusy] says that somebody has the lock on some of them, or is asking at the same moment. Any
// other error lists what servers said. It matches [holdfast.ErrUnknown] if the outcome of a call is not known;
// whatever that call takes is given back. It corresponds to tryLock().
func (r *RedLock) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := r.quorum.Lock(ctx, "try lock", 0)
	return (*holdfast.Hold)(h), err
}

// TryLockFor waits as Lock does, but at most for the time given, and then fails with [holdfast.ErrBusy], or with the
// reason if too few servers answer. Whichever of ctx and wait ends first decides; ctx wins a tie. It corresponds to
// tryLock(waitTime). A wait of zero or less is one attempt.
func (r *RedLock) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	h, err := r.quorum.Lock(ctx, "try lock for", wait)
	return (*holdfast.Hold)(h), err
}
