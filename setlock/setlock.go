// Package setlock is the lock of the Redis documentation: one string, set if it is not there, with an
// expiry, whose value tells the holder. It is what redis-py's Lock, redsync, node-redlock, redislock
// and StackExchange.Redis' LockTake share, so programs that use those and programs that use this hold
// the very same locks.
//
//	hold, err := setlock.New(session, "cron:nightly", nil).TryLock(ctx)
//	if errors.Is(err, holdfast.ErrBusy) {
//		return nil // another node is at it
//	}
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//	ctx = hold.Context(ctx)
//
// Unlike those, it is renewed while its holder lives, unless told otherwise, and the holder is told
// if it is lost. It cannot be taken twice by one owner. Where nothing else shares the lock, an rlock
// is the better choice: it re-enters, and who waits for it is woken rather than looking now and then.
package setlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// maxToken is the length limit of a token, in bytes.
const maxToken = wire.MaxName

// Who waits looks that often, at least and at most: others do not tell when they release.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// A Mutex is a lock of one name. It is immutable and safe for concurrent use; make it once or at
// every use, as you like.
type Mutex struct {
	lock core.Lock
}

var _ holdfast.Locker = (*Mutex)(nil)

// Options tune a Mutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time; they are never renewed. The
	// least is 10 ms. The default, 0, renews them until they are released, with the lease of
	// the session.
	FixedLease time.Duration

	// Token is the value that tells the holder, of up to 64 KiB. The default, "", is another one
	// for each acquisition.
	//
	// A token that is used again has its price: the server cannot tell one acquisition from
	// another. A call of an earlier one that the network has delayed may free the lock of a later
	// one, and its holder is told only by its next renewal, if it has any. For the same reason a call
	// to take the lock or to release it that has no reply is not repeated, but ends with
	// [holdfast.ErrUnknown] at once, and nothing is given back behind the caller's back: the lock may
	// stay taken until its lease ends. [Mutex.Query] tells by whom, and [Mutex.Adopt] takes it over. And
	// whoever shares the token may do with the lock what its holder may: release it, or make its lease
	// shorter than this hold believes. A redsync mutex that draws the same value releases it whenever it
	// fails to take the lock.
	Token string
}

// New returns the lock of that name. It sends nothing and cannot fail: a mistake in the name or the
// options comes back from the first call.
func New(s *holdfast.Session, name string, opts *Options) *Mutex {
	m := &Mutex{}
	if opts == nil {
		opts = &Options{}
	}
	set := core.Settings{
		FixedLease: opts.FixedLease, NonReentrant: true, Token: opts.Token, Poll: wait.Exponential(firstLook, lastLook), TellsAge: true,
	}
	if len(opts.Token) > maxToken {
		set.Err = fmt.Errorf("Options.Token is %d bytes long, the limit is %d", len(opts.Token), maxToken)
	}
	core.InitLock(&m.lock, (*core.Session)(s), (*protocol)(m), core.Label{Kind: "setlock", Name: name}, set, wire.SetChannel)
	return m
}

// Name is the lock's name as it was given to [New].
func (m *Mutex) Name() string { return m.lock.Name }

// Inside is of no use outside this module, where its result has no name: package multilock asks by it.
func (m *Mutex) Inside() *core.Lock { return &m.lock }

// Lock takes the lock, waiting until it is free or ctx ends; an outage of the server is waited out
// as well. Who waits is woken when a program that uses this package releases it; for the sake of
// others it looks besides, after 10 ms at first and after a quarter of a second at the most, or when
// the lease in the way is over. An error that matches ctx.Err() and its cause says that ctx ended
// first, [holdfast.ErrClosed] that the session did, [holdfast.ErrAlreadyHeld] that the lock is this
// owner's own; anything else is the server's refusal, in its own words. After an error nothing is
// held: what a lost reply may have left is given back in the background, unless [Options.Token] is
// set.
func (m *Mutex) Lock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := m.lock.Lock(ctx)
	return (*holdfast.Hold)(h), err
}

// TryLock makes one attempt and does not wait for the holder; [holdfast.ErrBusy] says that there is
// one. It blocks for a round trip. If the reply is lost the attempt is repeated for up to a third of
// the lease, a minute at the most, then given up and undone: that is [holdfast.ErrUnknown]. Its other
// errors are Lock's. After an error nothing is held, unless [Options.Token] is set.
func (m *Mutex) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := m.lock.TryLock(ctx)
	return (*holdfast.Hold)(h), err
}

// TryLockFor waits as Lock does, but at most for the time given, and then fails with
// [holdfast.ErrBusy]. Of ctx and wait the first to end decides, ctx if they end together. A wait of
// zero or less is one attempt.
//
// If the server did not answer in the end, it fails with that instead, or with [holdfast.ErrUnknown] if
// an attempt was cut off, which takes up to 0.1 s more.
func (m *Mutex) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	h, err := m.lock.TryLockFor(ctx, wait)
	return (*holdfast.Hold)(h), err
}

// Adopt takes over a lock that is held by the token given, which another process has acquired and
// has let go of without releasing it: here by [holdfast.Hold.Detach]. From then on it is held as if
// it had been taken here: its lease is extended to this one's, and it is renewed, unless
// [Options.FixedLease] is set. Whoever else still believes in the same token is not told. As others may
// have the token, its release is sent once, as [Options.Token] says.
// [holdfast.ErrNotHeld] says that the token does not hold the lock any more. It blocks for a round
// trip; after any other error the lock is held by the token still, if it was, and may have the longer
// lease.
func (m *Mutex) Adopt(ctx context.Context, token string) (*holdfast.Hold, error) {
	const operation = "adopt"
	if token == "" {
		return nil, m.lock.Fail(operation, errors.New("token is empty"))
	}
	h, err := m.lock.Adopt(ctx, operation, token)
	return (*holdfast.Hold)(h), err
}

// Query returns the token that holds the lock, "" if nobody does. It asks the master, as all these
// do. It is LockQuery in StackExchange.Redis.
func (m *Mutex) Query(ctx context.Context) (token string, err error) {
	holders, _, err := m.lock.Inspect(ctx, "", "query")
	if len(holders) == 0 {
		return "", err
	}
	return holders[0].ID, err
}

// Locked reports whether anybody holds the lock.
func (m *Mutex) Locked(ctx context.Context) (bool, error) {
	return m.lock.Locked(ctx)
}

// Held reports whether the owner that ctx carries holds the lock; false without an owner.
func (m *Mutex) Held(ctx context.Context) (bool, error) {
	return m.lock.Held(ctx)
}

// HoldCount returns 1 if the owner that ctx carries holds the lock, else 0.
func (m *Mutex) HoldCount(ctx context.Context) (int, error) {
	return m.lock.HoldCount(ctx)
}

// RemainingLease returns how long the lock stays taken at least if nobody renews or releases it: 0 if
// nobody holds it, below zero if it has no end, which only another program can have brought about.
func (m *Mutex) RemainingLease(ctx context.Context) (time.Duration, error) {
	return m.lock.RemainingLease(ctx)
}

// Holders returns who holds the lock, by token: nobody, or one.
func (m *Mutex) Holders(ctx context.Context) ([]holdfast.Holder, error) {
	return core.Holders[holdfast.Holder](ctx, &m.lock)
}

// ForceUnlock frees the lock whoever holds it and wakes those who wait; it reports whether it was
// held. The holder learns it at its next renewal or release; at once if it is of this session.
// [holdfast.ErrUnknown] says that it may have been freed, or may yet be, within a third of the lease, a
// minute at the most: a call that comes later frees nobody's lock.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	return m.lock.Force(ctx, "force unlock", func(notAfter int64) *script.Call {
		return script.NewCall(forceScript).Key(m.lock.Key()).Arg(m.lock.Publish(), m.lock.Channel).Int(notAfter)
	})
}
