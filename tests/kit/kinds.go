package kit

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A Locker is what every lock of the toolkit offers.
type Locker interface {
	holdfast.Locker
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
	Locked(ctx context.Context) (bool, error)
	Held(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	RemainingLease(ctx context.Context) (time.Duration, error)
	Holders(ctx context.Context) ([]holdfast.Holder, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// A Kind is one row of the conformance suite: how to make a lock of it, and what sets it
// apart.
type Kind struct {
	Name      string
	Reentrant bool
	Fenced    bool
	Polls     bool   // a waiter is not woken by other processes, it looks
	Twin      bool   // for what depends on scripts alone, another row does
	OneString bool   // on the server
	Several   bool   // it is several locks as one: nobody can be asked who has it
	Together  bool   // and one call takes and releases them
	Permits   bool   // it is a semaphore of one permit: there are no owners
	Queues    bool   // waiters stand in a queue on the server, and a free lock is promised to the first
	scripts   string // whose names scripts have, if it is not the kind's
	Make      func(s *holdfast.Session, name string, fixed time.Duration) Locker
	// Most is make of locks that other servers have, too: what becomes of one server is not noticed.
	Most func(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) Locker
	// Other makes the lock that cannot be had while this one is held; nil: it excludes itself.
	Other func(s *holdfast.Session, name string, fixed time.Duration) Locker
}

// Rival makes a lock of a session that excludes those of the kind.
func (k Kind) Rival(s *holdfast.Session, name string, fixed time.Duration) Locker {
	if k.Other != nil {
		return k.Other(s, name, fixed)
	}
	return k.Make(s, name, fixed)
}

// Kinds are the rows.
var Kinds = []Kind{
	{
		Name: "rlock", Reentrant: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed})
		},
	},
	{
		Name: "rlock fenced", Reentrant: true, Fenced: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed, Fenced: true})
		},
	},
	{
		Name: "rlock non-reentrant",
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed, NonReentrant: true})
		},
	},
	{
		Name: "rlock back-off", Reentrant: true, Polls: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return rlock.New(s, name, &rlock.Options{
				FixedLease: fixed, Backoff: rlock.Exponential(time.Millisecond, 20*time.Millisecond),
			})
		},
	},
	{
		Name: "fairlock", Reentrant: true, Queues: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return fairlock.New(s, name, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second})
		},
	},
	{
		Name: "fairlock non-reentrant", Queues: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return fairlock.New(s, name, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second,
				NonReentrant: true})
		},
	},
	{Name: "rwlock write", Reentrant: true, Twin: true, Make: writeHalf(false)},
	{Name: "rwlock write preferred", Reentrant: true, Make: writeHalf(true)},
	{Name: "rwlock read", Reentrant: true, Make: readHalf(false), Other: writeHalf(false)},
	{Name: "rwlock read preferred", Reentrant: true, Twin: true, Make: readHalf(true), Other: writeHalf(true)},
	{Name: "semaphore expirable", Permits: true, Make: newPermitLock},
	{
		Name: "setlock", OneString: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return setlock.New(s, name, &setlock.Options{FixedLease: fixed})
		},
	},
	{Name: "multilock", Reentrant: true, Several: true, scripts: "rlock", Make: newSeveralLocks(fair)},
	{Name: "multilock together", Reentrant: true, Several: true, Together: true, scripts: "rlock all", Make: newSeveralLocks(alike)},
	{Name: "redlock", Reentrant: true, Several: true, Most: newRedLocks},
}

// Own makes names the kind's: a name is of one kind.
func (k Kind) Own(names ...string) (own []string) {
	for _, name := range names {
		own = append(own, name+" "+k.Name)
	}
	return own
}

// KindOf returns the kind of a name.
func KindOf(name string) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	return Kinds[i]
}

func readHalf(preferWriter bool) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	return func(s *holdfast.Session, name string, fixed time.Duration) Locker {
		return rwlock.New(s, name, &rwlock.Options{FixedLease: fixed, PreferWriter: preferWriter}).Read()
	}
}

func writeHalf(preferWriter bool) func(s *holdfast.Session, name string, fixed time.Duration) Locker {
	return func(s *holdfast.Session, name string, fixed time.Duration) Locker {
		return rwlock.New(s, name, &rwlock.Options{FixedLease: fixed, PreferWriter: preferWriter}).Write()
	}
}

// EachKind runs test once for every kind, in parallel, each with a server of its own.
func EachKind(t *testing.T, test func(t *testing.T, k Kind, srv *redistest.Server)) {
	t.Parallel()
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			if k.Most != nil {
				k.Make = k.Most(t)
			}
			test(t, k, redistest.Start(t))
		})
	}
}

// OnOneServer are the kinds of which a lock is on one server.
func OnOneServer() []Kind {
	return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k.Most != nil })
}

// EachAlone is EachKind for what is to be seen on one server.
func EachAlone(t *testing.T, test func(t *testing.T, k Kind, srv *redistest.Server)) {
	EachKind(t, func(t *testing.T, k Kind, srv *redistest.Server) {
		if k.Most == nil {
			test(t, k, srv)
		}
	})
}

// EachLock is EachKind for what only locks with owners have.
func EachLock(t *testing.T, test func(t *testing.T, k Kind, srv *redistest.Server)) {
	EachKind(t, func(t *testing.T, k Kind, srv *redistest.Server) {
		if !k.Permits && !k.Several {
			test(t, k, srv)
		}
	})
}

// Waiting waits until somebody listens on a channel of the server, or, of a kind that polls,
// until attempts were made.
func Waiting(t testing.TB, k Kind, srv *redistest.Server) {
	t.Helper()
	if k.Polls {
		before := srv.CommandStats(t)["evalsha"]
		Await(t, "attempts", func() bool { return srv.CommandStats(t)["evalsha"] > before+1 })
		return
	}
	Await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
}

// Title is the kind of a subject.
func (k Kind) Title() string {
	switch {
	case k.Permits:
		return "semaphore.Expirable"
	case strings.HasPrefix(k.Name, "rwlock write"):
		return "rwlock.Write"
	case strings.HasPrefix(k.Name, "rwlock read"):
		return "rwlock.Read"
	}
	title, _, _ := strings.Cut(k.Name, " ")
	return title
}

// Asks reports whether attempts are made by the kind, and not by its members.
func (k Kind) Asks() bool { return !k.Several || k.Together || k.Most != nil }
