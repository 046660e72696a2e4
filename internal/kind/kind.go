// Package kind defines what a lock package supplies so that package core can make locks of its kind: settings, and how
// its scripts are called.
package kind

import (
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Protocol is the interface that a lock package supplies: how its scripts are called. All kinds reply like
// rlock_acquire, rlock_release and lock_renew.
type Protocol interface {
	// Acquire is the call that raises the hold count of a wire owner.
	Acquire(w Want) *script.Call
	// Release is the call that lowers the hold count of a wire owner.
	Release(r Remaining) *script.Call
	// Renewal is the script that extends leases. Its first argument is the lease in ms.
	Renewal() *script.Script
	// Renew appends the keys and arguments of one wire owner to a call of it.
	Renew(c *script.Call, owner string)
}

// The scripts of locks that are one hash: who holds one, and what extends leases and trims them.
var (
	HoldersScript = script.LoadLook("lock_holders")
	RenewScript   = script.Load("lock_renew")
	TrimScript    = script.Load("lock_trim")
)

// An Inspector is the additional interface of a package whose holders can be listed.
type Inspector interface {
	// Holders is the call that asks who holds the lock, or whether one wire owner does, with the reply of lock_holders.
	Holders(owner string) *script.Call
	// InTheWay is that call for all who are in the way of an acquisition.
	InTheWay() *script.Call
	// Force is the call that frees the lock whoever holds it, with the replies of rlock_force.
	Force(w script.Window) *script.Call
}

// A Trimmer is the additional interface of a package whose leases may be trimmed. In others, another session may have
// taken over what was detached, for longer.
type Trimmer interface {
	// Trim is the call that trims a lease, with the replies of lock_trim.
	Trim(t Trim) *script.Call
}

// A Trim says for how long at most a wire owner may have the lock, and when the server may enforce that.
type Trim struct {
	Owner  string
	Most   string // ms
	Window script.Window
}

// Closing are the calls that give back what a wire owner has but for what is detached, as r says. Nothing is asked for
// under the wire owner any more, so they may be executed at any time.
func Closing(p Protocol, r Remaining) (calls []*script.Call) {
	if r.Count == 0 {
		return []*script.Call{p.Release(Remaining{Owner: r.Owner})}
	}
	if t, ok := p.(Trimmer); ok && r.Detached > 0 {
		most := lease.Millis(max(r.Detached, lease.Min))
		calls = append(calls, t.Trim(Trim{Owner: r.Owner, Most: most, Window: script.Window{NotAfter: math.MaxInt64}}))
	}
	return append(calls, p.Release(r))
}

// Call is the call of a script with the arguments of lock_trim.
func (t Trim) Call(s *script.Script, key, owner string) *script.Call {
	return script.NewCall(s).Key(key).Arg(owner, t.Most).Within(t.Window)
}

// A Guarder is the additional interface of a package whose holds can guard writes.
type Guarder interface {
	// Proof says how the server sees that a wire owner has the lock.
	Proof(owner string) Proof
}

// A Proof says which key has a wire owner, and how, as guard_commands takes it.
type Proof struct{ Key, As, Owner string }

// How keys have wire owners.
const (
	Field  = "field"
	String = "string"
	Permit = "permit"
)

// A Queue is the additional interface of a package whose waiters the server knows. A waiter calls Acquire repeatedly,
// when it is told to and when the reply says so, and thereby shows the server that it is alive. If the queue is also a
// [wait.Told], a release hands the lock to the next one; if it is a [wait.Standing], a session stands in it as that
// says.
type Queue interface {
	// Leave is the call that undoes an acquisition, whatever became of it.
	Leave(owner string) *script.Call
	// WaiterLease is how long the server knows a waiter that does not call again.
	WaiterLease() time.Duration
}

// An Apart is the additional interface of a package whose calls do not wait in their session's line.
type Apart interface {
	// Wait says to a call's place, before each of its sleeps, which messages wake it. The owner is the one for which the
	// call has asked last; other libraries, which do not know how the session is told, may release the lock to it.
	Wait(p *wait.Place, owner string, others bool)
	// Moved gets what a reply says of the place of a waiter in a queue, if that is not 0, and whether it stood there
	// before.
	Moved(place int64, stood bool)
}

// A Want is what an acquisition asks for.
type Want struct {
	Owner    string
	Target   int      // hold count
	Lease    string   // ms
	NotAfter int64    // server ms; 0 makes the server refuse and say its time
	Nested   bool     // the wire owner has the lock already; if the server does not think so, it is gone
	Tokened  bool     // the grant has a fencing token already
	Stand    bool     // be known as a waiter, if the lock is taken
	Waits    bool     // the call waits if need be, so it does not pass over those who do, unless it cannot be one of them
	Hears    bool     // a waiter that hears when a release hands it the lock
	Others   []string // besides Owner, of a call that wants several holds or none
	Again    bool     // an earlier call under this wire owner may have been executed
	Age      string   // asks how long the server has been up, of a kind that can be asked: see rlock_acquire; "": does not
}

// Copy is Again as an argument of a script.
func (w *Want) Copy() string {
	if w.Again {
		return "1"
	}
	return "0"
}

// Remaining says which holds of a wire owner a release leaves.
type Remaining = owner.Remaining

// Settings are the settings with which a lock package makes a lock. Locks may share them: they do not change.
type Settings struct {
	Backoff      func(attempt int) time.Duration // poll instead of subscribing
	Poll         func(attempt int) time.Duration // bounds the wait for a message: others may not publish
	Together     *Together                       // nil: several such locks cannot be taken by one call
	Wires        Wires                           // whose the holds are
	FixedLease   time.Duration                   // of holds that are not renewed; 0: they are
	FixedMillis  string                          // that lease as scripts take it; "": there is none
	TokenTTL     time.Duration                   // of the key of an rlock's fencing token; 0: it has none
	NonReentrant bool
	Shared       bool // by many owners; such a half is the other's owner's to take, too
	Confirms     bool // what a release by another session has granted begins with a call
	HandsOver    bool // a release may hand the lock over to a call of the same session, unless its lease is fixed
	Ages         bool // an acquisition can ask how long the server has been up
}

// minTokenTTL is longer than a repeated call can be under way, which must still find the token of the first.
const minTokenTTL = time.Minute

// CheckTokens returns what is wrong with the options of a lock that say whether it issues fencing tokens, and for how
// long the server keeps the last one; or nil.
func CheckTokens(fenced bool, ttl time.Duration) error {
	switch {
	case ttl != 0 && !fenced:
		return fmt.Errorf("Options.TokenTTL is %v, which needs Options.Fenced", ttl)
	case ttl != 0 && ttl < minTokenTTL:
		return fmt.Errorf("Options.TokenTTL is %v, must be 0 or at least %v", ttl, minTokenTTL)
	}
	return nil
}

// Wires make wire owners, by which the server knows holds. The zero value makes fresh ones of the session.
type Wires struct {
	Draw      func() string            // makes one for an acquisition
	ID        func(wire string) string // is how users know it; nil: as it is
	Ownerless bool                     // holds have no owners besides: each is known by its wire owner alone, to anybody
	Reused    bool                     // others may have the same: so nothing is repeated, or given back later on
}

// Together are the scripts that take several locks of a kind and give them back, with the arguments and
// replies of rlock_acquire_all and rlock_release_all.
type Together struct {
	Acquire, Release *script.Script
	Keys             func(key string) []string // of one lock, as Release takes them
}
