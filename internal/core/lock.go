package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// LockOf returns the inside of a lock that the root package exports, nil of anything else. The root supplies it.
var LockOf func(lock any) *Lock

// A Lock is one name of one kind with settings: immutable, and nothing to close.
type Lock struct {
	session.Object
	*kind.Settings
	keeper   *keeper
	protocol kind.Protocol
	lined    bool // of a session, one call stands for all
	part     owner.Half
	slot     uint16
}

// A Mutex is a lock as its users get it: they see nothing of its inside. The root package exports it.
type Mutex struct{ lock Lock }

// Inside is the lock.
func (m *Mutex) Inside() *Lock { return &m.lock }

// InitLock initialises l, which every lock value of a package has, as a lock of s. Mistakes in
// the name and the settings come back from its calls. channel makes the channel's name of the
// mapped one.
func InitLock(
	l *Lock, s *session.Session, p kind.Protocol, label session.Label, set *kind.Settings, fixed time.Duration,
	channel func(key string) string,
) {
	if fixed != 0 { // most locks share what they have
		own := *set
		own.FixedLease, own.FixedMillis = fixed, lease.Millis(fixed)
		own.HandsOver = false // what is handed over is renewed
		set = &own
	}
	*l = Lock{Settings: set, keeper: keeperOf(s), protocol: p}
	session.InitObject(&l.Object, s, label, channel)
	l.lined = l.standing() != nil
	if set.Shared {
		l.part = owner.Shared
	}
	l.slot = s.Slot(l.Key())
	if l.FixedLease < 0 || l.FixedLease > 0 && l.FixedLease < lease.Min {
		l.Refuse(fmt.Errorf("Options.FixedLease is %v, must be 0 or at least %v", l.FixedLease, lease.Min))
	}
}

// Protocol is how the lock's scripts are called.
func (l *Lock) Protocol() kind.Protocol { return l.protocol }

// The further interfaces of the protocol; nil if it is not. Fields for them would be 16 bytes each in every lock.
func (l *Lock) queue() kind.Queue { q, _ := l.protocol.(kind.Queue); return q }
func (l *Lock) apart() kind.Apart { a, _ := l.protocol.(kind.Apart); return a }

// told is nil if a release does not know who is next, standing if calls do not stand for their session.
func (l *Lock) told() wait.Told         { t, _ := l.protocol.(wait.Told); return t }
func (l *Lock) standing() wait.Standing { s, _ := l.protocol.(wait.Standing); return s }

// Length is the lease of the holds taken through the lock.
func (l *Lock) Length() time.Duration {
	if l.FixedLease > 0 {
		return l.FixedLease
	}
	return l.Session().Lease()
}

// Millis is that lease as scripts take it.
func (l *Lock) Millis() string { return cmp.Or(l.FixedMillis, l.keeper.millis) }

// Slot returns the slot of the lock's key; 0 unless the server is a cluster.
func (l *Lock) Slot() uint16 { return l.slot }

// Leases are the shortest and the longest of some locks'.
func Leases(locks []*Lock) (shortest, longest time.Duration) {
	shortest = locks[0].Length()
	for _, l := range locks {
		shortest, longest = min(shortest, l.Length()), max(longest, l.Length())
	}
	return shortest, longest
}

// Undo is the call that gives back whatever became of an acquisition, unless the wire owner has
// more holds than ceiling by then.
func (l *Lock) Undo(owner string, ceiling int) *script.Call {
	if q := l.queue(); q != nil {
		return q.Leave(owner)
	}
	return l.protocol.Release(kind.Remaining{Owner: owner, Ceiling: ceiling})
}

// owe has a debt paid, unless another acquisition may have the wire owner by then.
func (l *Lock) owe(d owner.Debt) {
	if !l.Wires.Reused {
		l.keeper.debts.Add(l, d)
	}
}

// memory is how long after a call the server may have something of it, if nobody calls again.
func (l *Lock) memory() time.Duration {
	if q := l.queue(); q != nil {
		return max(l.Length(), q.WaiterLease()+lease.Grant(l.Length()))
	}
	return l.Length()
}

// draw makes a wire owner.
func (l *Lock) draw() string {
	if l.Wires.Draw != nil {
		return l.Wires.Draw()
	}
	return l.keeper.newOwner()
}

// id is how users know a wire owner.
func (l *Lock) id(wire string) string {
	if l.Wires.ID != nil {
		return l.Wires.ID(wire)
	}
	return wire
}

// atMost is d, or less if one has to look earlier after that attempt.
func (l *Lock) atMost(d time.Duration, attempt int) time.Duration {
	switch {
	case l.Poll != nil:
		return min(d, l.Poll(attempt))
	case l.FixedLease == 0 && l.told() != nil: // so that what it is granted then can be trusted for a while
		return min(d, lease.Grant(l.Length())*3/5)
	}
	return d
}

// Same reports whether nobody can have both locks as an owner has nested ones: because they are one,
// or of kinds that share a key.
func (l *Lock) Same(other *Lock) bool {
	return l.Session() == other.Session() && l.Key() == other.Key() && (l.Kind != other.Kind || l.part == other.part)
}

func (l *Lock) claimKey() claimKey { return claimKey{session: l.Session(), kind: l.Kind, key: l.Key()} }

// NotAfter is how long a call of the lock may take to be executed.
func (l *Lock) NotAfter() time.Duration { return lease.NotAfter(l.Length()) }

// Final is a failure of a call that takes the lock or gives it back, as far as it may be sent again: a copy of an
// executed call would do the same to the next holder with the same token.
func (l *Lock) Final(err error) error {
	if l.Wires.Reused && script.InDoubt(err) {
		return &script.Failure{Class: script.Unknown, Err: err}
	}
	return err
}

// Believed returns the wire owner under which ctx's owner holds the lock, and how often, as far
// as this session knows; "" and 0 if it does not.
func (l *Lock) Believed(ctx context.Context) (owner string, count int) {
	o := OwnerOf(ctx)
	if o == nil {
		return "", 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims.Get(l.claimKey())
	if c == nil {
		return "", 0
	}
	c.Lock()
	defer c.Unlock()
	return c.Believed(l.part, l.Session().Now())
}

// ForceUnlock frees the lock whoever holds it. Then the holds that this session had when the call was sent
// are lost, and waiters may look.
func (l *Lock) ForceUnlock(ctx context.Context) (was bool, err error) {
	ours := l.Granted() // not what is granted while the reply is on its way
	was, err = l.InTime(ctx, "force unlock", l.NotAfter(), l.protocol.(kind.Inspector).Force)
	if was {
		ours.Lose()
		l.Wake()
	}
	l.Session().Freed(was, err, l.NotAfter())
	return was, err
}

// Lock waits for the lock for at most limit, or until ctx ends.
func (l *Lock) Lock(ctx context.Context, operation string, limit time.Duration) (*Hold, error) {
	a := newAcquisition()
	h, err := a.call(ctx, l, operation, limit)
	a.free()
	return h.Public(), err
}

// TryAsking makes one attempt that asks for the server's age; "": that does not. It returns what the reply has behind
// its head, and when the server has answered, whatever it was; zero: it has not. The error does not say which lock it
// is.
func (l *Lock) TryAsking(ctx context.Context, age string) (h *Single, replied time.Time, more [4]int64, err error) {
	a := newAcquisition()
	a.begins() // also if nothing is sent
	a.answer.age = age
	h, err = a.call(ctx, l, "try lock", 0)
	if at := a.answer.replied; at > 0 {
		replied = l.Session().Time(at)
	}
	more = a.answer.Rest
	a.free()
	return h, replied, more, errors.Unwrap(err)
}
