package tests

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A locker is what every lock of the toolkit offers.
type locker interface {
	holdfast.Locker
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
	Locked(ctx context.Context) (bool, error)
	Held(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	RemainingLease(ctx context.Context) (time.Duration, error)
	Holders(ctx context.Context) ([]holdfast.Holder, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// A kind is one row of the conformance suite: how to make a lock of it, and what sets it
// apart.
type kind struct {
	name      string
	reentrant bool
	fenced    bool
	polls     bool   // a waiter is not woken by other processes, it looks
	twin      bool   // for what depends on scripts alone, another row does
	oneString bool   // on the server
	several   bool   // it is several locks as one: nobody can be asked who has it
	together  bool   // and one call takes and releases them
	permits   bool   // it is a semaphore of one permit: there are no owners
	queues    bool   // waiters stand in a queue on the server, and a free lock is promised to the first
	scripts   string // whose names scripts have, if it is not the kind's
	make      func(s *holdfast.Session, name string, fixed time.Duration) locker
	// most is make of locks that other servers have, too: what becomes of one server is not noticed.
	most func(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) locker
	// other makes the lock that cannot be had while this one is held; nil: it excludes itself.
	other func(s *holdfast.Session, name string, fixed time.Duration) locker
}

// rival makes a lock of a session that excludes those of the kind.
func (k kind) rival(s *holdfast.Session, name string, fixed time.Duration) locker {
	if k.other != nil {
		return k.other(s, name, fixed)
	}
	return k.make(s, name, fixed)
}

var kinds = []kind{
	{
		name: "rlock", reentrant: true,
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed})
		},
	},
	{
		name: "rlock fenced", reentrant: true, fenced: true,
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed, Fenced: true})
		},
	},
	{
		name: "rlock non-reentrant",
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed, NonReentrant: true})
		},
	},
	{
		name: "rlock back-off", reentrant: true, polls: true,
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return rlock.New(s, name, &rlock.Options{
				FixedLease: fixed, Backoff: rlock.Exponential(time.Millisecond, 20*time.Millisecond),
			})
		},
	},
	{
		name: "fairlock", reentrant: true, queues: true,
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return fairlock.New(s, name, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second})
		},
	},
	{
		name: "fairlock non-reentrant", queues: true,
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return fairlock.New(s, name, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second, NonReentrant: true})
		},
	},
	{name: "rwlock write", reentrant: true, twin: true, make: writeHalf(false)},
	{name: "rwlock write preferred", reentrant: true, make: writeHalf(true)},
	{name: "rwlock read", reentrant: true, make: readHalf(false), other: writeHalf(false)},
	{name: "rwlock read preferred", reentrant: true, twin: true, make: readHalf(true), other: writeHalf(true)},
	{name: "semaphore expirable", permits: true, make: newPermitLock},
	{
		name: "setlock", oneString: true,
		make: func(s *holdfast.Session, name string, fixed time.Duration) locker {
			return setlock.New(s, name, &setlock.Options{FixedLease: fixed})
		},
	},
	{name: "multilock", reentrant: true, several: true, scripts: "rlock", make: newSeveralLocks(fair)},
	{name: "multilock together", reentrant: true, several: true, together: true, scripts: "rlock all", make: newSeveralLocks(alike)},
	{name: "redlock", reentrant: true, several: true, most: newRedLocks},
}

// own makes names the kind's: a name is of one kind.
func (k kind) own(names ...string) (own []string) {
	for _, name := range names {
		own = append(own, name+" "+k.name)
	}
	return own
}

// kindOf returns the kind of a name.
func kindOf(name string) kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	return kinds[i]
}

func readHalf(preferWriter bool) func(s *holdfast.Session, name string, fixed time.Duration) locker {
	return func(s *holdfast.Session, name string, fixed time.Duration) locker {
		return rwlock.New(s, name, &rwlock.Options{FixedLease: fixed, PreferWriter: preferWriter}).Read()
	}
}

func writeHalf(preferWriter bool) func(s *holdfast.Session, name string, fixed time.Duration) locker {
	return func(s *holdfast.Session, name string, fixed time.Duration) locker {
		return rwlock.New(s, name, &rwlock.Options{FixedLease: fixed, PreferWriter: preferWriter}).Write()
	}
}

// eachKind runs test once for every kind, in parallel, each with a server of its own.
func eachKind(t *testing.T, test func(t *testing.T, k kind, srv *redistest.Server)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			if k.most != nil {
				k.make = k.most(t)
			}
			test(t, k, redistest.Start(t))
		})
	}
}

// onOneServer are the kinds of which a lock is on one server.
func onOneServer() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.most != nil })
}

// eachAlone is eachKind for what is to be seen on one server.
func eachAlone(t *testing.T, test func(t *testing.T, k kind, srv *redistest.Server)) {
	eachKind(t, func(t *testing.T, k kind, srv *redistest.Server) {
		if k.most == nil {
			test(t, k, srv)
		}
	})
}

// eachLock is eachKind for what only locks with owners have.
func eachLock(t *testing.T, test func(t *testing.T, k kind, srv *redistest.Server)) {
	eachKind(t, func(t *testing.T, k kind, srv *redistest.Server) {
		if !k.permits && !k.several {
			test(t, k, srv)
		}
	})
}

// open opens a session that ends with the test. Without options the lease is 3 s. It is anonymous: what tests look at is
// what locks have on the server.
func open(t testing.TB, addr string, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	return openWith(t, rueidis.ClientOption{InitAddress: []string{addr}}, opts)
}

func openWith(t testing.TB, client rueidis.ClientOption, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	if opts == nil {
		opts = &holdfast.Options{Lease: 3 * time.Second}
	}
	anonymous := *opts
	anonymous.Anonymous = true
	return openKnown(t, client, &anonymous)
}

// openKnown is openWith of a session that may tell which process it is.
func openKnown(t testing.TB, client rueidis.ClientOption, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	s, err := holdfast.Open(client, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	redistest.Limit(t, func() { _ = s.Close() })
	return s
}

// await waits until holds is true; what says of what.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	awaitFor(t, 20*time.Second, what, holds)
}

// awaitFor is await of what may take so long.
func awaitFor(t testing.TB, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// lock takes the lock or fails the test.
func lock(t testing.TB, ctx context.Context, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	require.NotNil(t, h)
	return h
}

// A result is what a call in another goroutine returned.
type result struct {
	hold *holdfast.Hold
	err  error
}

// goLock calls take in a goroutine.
func goLock(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) <-chan result {
	c := make(chan result, 1)
	go func() {
		h, err := take(ctx)
		c <- result{h, err}
	}()
	return c
}

// within receives from c or fails the test.
func within[T any](t testing.TB, d time.Duration, c <-chan T, what string) T {
	t.Helper()
	for watch, left := stopwatch(), d; left > 0; left = d - watch() {
		select {
		case v := <-c:
			return v
		case <-time.After(left):
		}
	}
	t.Fatalf("%s: not within %v", what, d)
	panic("unreachable")
}

// granted receives a hold from c or fails the test.
func granted(t testing.TB, d time.Duration, c <-chan result, what string) *holdfast.Hold {
	t.Helper()
	r := within(t, d, c, what)
	require.NoError(t, r.err, what)
	return r.hold
}

// waiting waits until somebody listens on a channel of the server, or, of a kind that polls,
// until attempts were made.
func waiting(t testing.TB, k kind, srv *redistest.Server) {
	t.Helper()
	if k.polls {
		before := srv.CommandStats(t)["evalsha"]
		await(t, "attempts", func() bool { return srv.CommandStats(t)["evalsha"] > before+1 })
		return
	}
	await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
}
