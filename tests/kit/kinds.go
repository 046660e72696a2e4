package kit

import (
	"context"
	"iter"
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

// A Watchable is a lock that can be watched, as those of several cannot.
type Watchable interface {
	Watch(ctx context.Context) iter.Seq2[holdfast.State, error]
}

// A Kind is one row of the conformance suite: how to make a lock of it, and what sets it apart.
type Kind struct {
	Name      string
	Reentrant bool
	Fenced    bool
	Polls     bool   // nobody wakes a waiter; it polls
	Embedded  bool   // its server runs in this process, which costs some thirty times as much
	Twin      bool   // another row does for everything that depends on scripts alone
	Borrows   bool   // all its scripts are those of another row
	OneString bool   // it is one string on the server
	Several   bool   // it is several locks as one: it cannot tell who has it
	Together  bool   // one call takes and releases all of them
	Permits   bool   // it is a semaphore of one permit: there are no owners
	Queues    bool   // waiters stand in a queue on the server, and a free lock is promised to the first
	scripts   string // the name that scripts have, if it is not the kind's
	Make      func(s *holdfast.Session, name string, fixed time.Duration) Locker
	// Most makes locks that also have other servers, so that the fate of one server goes unnoticed.
	Most func(t *testing.T) func(s *holdfast.Session, name string, fixed time.Duration) Locker
	// Other makes the lock that excludes this one; nil: it excludes itself.
	Other func(s *holdfast.Session, name string, fixed time.Duration) Locker
}

// Rival makes a lock that excludes those of the kind.
func (k Kind) Rival(s *holdfast.Session, name string, fixed time.Duration) Locker {
	if k.Other != nil {
		return k.Other(s, name, fixed)
	}
	return k.Make(s, name, fixed)
}

// Kinds are all rows.
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
		Name: "rlock non-reentrant", Borrows: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return rlock.New(s, name, &rlock.Options{FixedLease: fixed, NonReentrant: true})
		},
	},
	{
		Name: "rlock back-off", Reentrant: true, Polls: true, Borrows: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return rlock.New(s, name, &rlock.Options{
				FixedLease: fixed, Backoff: rlock.Exponential(time.Millisecond, 20*time.Millisecond),
			})
		},
	},
	{
		Name: "fairlock", Reentrant: true, Queues: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return fairlock.New(s, name, &fairlock.Options{
				FixedLease: fixed, WaiterLease: time.Second, JavaWait: time.Second, // of the histories
			})
		},
	},
	{
		Name: "fairlock non-reentrant", Queues: true, Borrows: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return fairlock.New(s, name, &fairlock.Options{
				FixedLease: fixed, WaiterLease: time.Second,
				NonReentrant: true,
			})
		},
	},
	{
		Name: "fairlock fenced", Reentrant: true, Queues: true, Fenced: true,
		Make: func(s *holdfast.Session, name string, fixed time.Duration) Locker {
			return fairlock.New(s, name, &fairlock.Options{FixedLease: fixed, WaiterLease: time.Second, Fenced: true})
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
	{
		Name: "multilock", Reentrant: true, Several: true, Borrows: true, scripts: "rlock",
		Make: newSeveralLocks(fair),
	},
	{
		Name: "multilock together", Reentrant: true, Several: true, Together: true, scripts: "rlock all",
		Make: newSeveralLocks(alike),
	},
	{Name: "redlock", Reentrant: true, Several: true, Borrows: true, Most: newRedLocks},
}

// Own turns names into names of this kind, because a name belongs to one kind.
func (k Kind) Own(names ...string) (own []string) {
	for _, name := range names {
		own = append(own, name+" "+k.Name)
	}
	return own
}

// KindOf returns the kind with that name.
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

// OnOneServer returns the kinds whose locks are on one server.
func OnOneServer() []Kind {
	return slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k.Most != nil })
}

// Waiting waits until somebody listens on a channel of the server or, for a kind that polls, until attempts were
// made.
func Waiting(t testing.TB, k Kind, srv *redistest.Server) {
	t.Helper()
	WaitingFor(t, k, srv, "")
}

// WaitingFor is Waiting for a name for which nobody waited before: a channel stays subscribed for a while.
func WaitingFor(t testing.TB, k Kind, srv *redistest.Server, name string) {
	t.Helper()
	if k.Polls {
		before := srv.CommandStats(t)["evalsha"]
		Await(t, "attempts", func() bool { return srv.CommandStats(t)["evalsha"] > before+1 })
		return
	}
	Await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS", "*"+name+"*")) > 0 })
}

// Title names the kind as messages do.
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

// Asks reports whether the lock itself makes attempts, rather than its members.
func (k Kind) Asks() bool { return !k.Several || k.Together || k.Most != nil }
