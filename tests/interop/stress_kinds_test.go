package interop_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
)

// errPassed says that a worker did not get what it wanted in time, or was told to stop.
var errPassed = errors.New("not in time")

// stressLock is what the locks of Go have, and its permits.
type stressLock interface {
	Lock(ctx context.Context) (*holdfast.Hold, error)
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
}

// permitLock makes a lock of a semaphore.
type permitLock struct{ *semaphore.Expirable }

func (p permitLock) Lock(ctx context.Context) (*holdfast.Hold, error) { return p.Acquire(ctx) }

func (p permitLock) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return p.TryAcquireFor(ctx, wait)
}

// stressKind is a kind of what the workers compete for.
type stressKind struct {
	name   string
	java   interop.Kind
	golang func(h *goHands, names []string) stressLock // nil: it has no holds
	names  func() []string                             // what to take this time
	n      func() int                                  // and how much of it
	wait   func() time.Duration                        // and how long to wait; 0: for ever
	hold   func() time.Duration
	again  bool // may be taken again
}

// fixed is a choice without a choice.
func fixed[T any](value T) func() T { return func() T { return value } }

// oneOf is a choice.
func oneOf[T any](values ...T) func() T { return func() T { return values[rand.N(len(values))] } }

// sometimesHasty waits for ever, mostly.
func sometimesHasty() time.Duration {
	if rand.N(4) > 0 {
		return 0
	}
	return 20*time.Millisecond + rand.N(300*time.Millisecond)
}

// briefly is how long most things are held.
func briefly() time.Duration { return time.Millisecond + rand.N(20*time.Millisecond) }

func stressRLock(options rlock.Options) func(*goHands, []string) stressLock {
	return func(h *goHands, names []string) stressLock { return rlock.New(h.session, names[0], &options) }
}

func stressFair(options fairlock.Options) func(*goHands, []string) stressLock {
	return func(h *goHands, names []string) stressLock { return fairlock.New(h.session, names[0], &options) }
}

// stressKinds are all kinds at once. Of the fair locks one is for those who survive: its queue is long, and nobody
// dies in it, so that it is known who comes next. In the others the dead are in the way until they are forgotten.
var stressKinds = func() map[string]stressKind {
	all := []stressKind{
		{
			name: "rlock", java: interop.RLock, golang: stressRLock(rlock.Options{}), again: true,
			names: oneOf([]string{"a"}, []string{"b"}, []string{"c"}, []string{"c"}, []string{"c"}),
		},
		{name: "fenced", java: interop.Fenced, golang: stressRLock(rlock.Options{Fenced: true}), again: true},
		{name: "nonreentrant", java: interop.NonReentrant, golang: stressRLock(rlock.Options{NonReentrant: true})},
		{
			name: "spin", java: interop.Spin, again: true,
			golang: stressRLock(rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 128*time.Millisecond)}),
		},
		{
			name: "fair", java: interop.Fair, golang: stressFair(fairlock.Options{WaiterLease: hastyWait, JavaWait: hastyWait}),
			wait: fixed(hastyWait), hold: fixed(60 * time.Millisecond),
		},
		{
			name: "nonreentrant fair", java: interop.NonReentrantFair,
			golang: stressFair(fairlock.Options{WaiterLease: hastyWait, JavaWait: hastyWait, NonReentrant: true}),
			wait:   fixed(hastyWait), hold: fixed(60 * time.Millisecond),
		},
		{
			name: "calm fair", java: interop.Fair,
			golang: stressFair(fairlock.Options{JavaWait: calmWait}),
			wait:   fixed(time.Duration(0)), hold: fixed(400 * time.Millisecond),
		},
		{
			name: "read", java: interop.ReadLock, names: fixed([]string{"rw"}), again: true,
			golang: func(h *goHands, names []string) stressLock { return rwlock.New(h.session, names[0], nil).Read() },
		},
		{
			name: "write", java: interop.WriteLock, names: fixed([]string{"rw"}), n: fixed(wholeRW), again: true,
			golang: func(h *goHands, names []string) stressLock { return rwlock.New(h.session, names[0], nil).Write() },
		},
		{
			name: "multilock", java: interop.MultiLock, names: oneOf([]string{"a", "b"}, []string{"b", "a"}),
			golang: func(h *goHands, names []string) stressLock {
				return multilock.New(rlock.New(h.session, names[0], nil), rlock.New(h.session, names[1], nil))
			},
		},
		{
			name: "redlock", java: interop.RedLock,
			golang: func(h *goHands, names []string) stressLock {
				var locks []holdfast.Locker
				for _, s := range h.independent {
					locks = append(locks, rlock.New(s, names[0], nil))
				}
				return newRedLock(locks)
			},
		},
		{
			name: "expirable", java: interop.Expirable,
			golang: func(h *goHands, names []string) stressLock {
				return permitLock{semaphore.NewExpirable(h.session, names[0], nil)}
			},
		},
		{name: "semaphore", java: interop.Semaphore, n: oneOf(1, 1, 1, 2)},
	}
	kinds := map[string]stressKind{}
	for _, k := range all {
		if k.names == nil {
			k.names = fixed([]string{k.name})
		}
		if k.n == nil {
			k.n = fixed(1)
		}
		if k.wait == nil {
			k.wait = sometimesHasty
		}
		if k.hold == nil {
			k.hold = briefly
		}
		kinds[k.name] = k
	}
	return kinds
}()

// What the workers of a process do. Only those who survive use what nobody gives back for the dead: counts of permits
// and latches. Each kind has workers of its own, so that not all wait where somebody has died.
var (
	survivorJobs = [][]string{
		{"rlock", "spin", "redlock"},
		{"multilock", "rlock", "semaphore"},
		{"fenced", "nonreentrant", "fair", "nonreentrant fair"},
		{"read", "read", "write", "semaphore"},
		{"expirable", "semaphore", "redlock"},
		{"calm fair"},
		{"calm fair"},
		{"calm fair"},
	}
	victimJobs = [][]string{
		{"rlock", "spin"},
		{"multilock", "rlock"},
		{"fenced", "nonreentrant"},
		{"read", "read", "write"},
		{"expirable"},
		{"redlock", "spin"},
		{"fair", "nonreentrant fair", "fenced"},
		{"multilock", "nonreentrant"},
	}
)
