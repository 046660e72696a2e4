// Package setlock is the lock of the Redis documentation: a string that is set if it is not there, with
// an expiry; its value names the holder. redis-py's Lock, redsync and redislock share it, so programs
// that use those and programs that use this package hold the very same locks. So do node-redlock and
// StackExchange.Redis' LockTake by their key and token, but they are not in the tests of this package.
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
// Unlike theirs, the lock is renewed while its holder lives, unless it has a fixed lease, and the holder is told if it
// is lost. One owner cannot take it twice. If no other library shares the lock, an rlock is the better choice: it
// re-enters, and its waiters are woken instead of polling.
//
// If the name belongs to another kind of lock that is held, or to a semaphore or a latch that does not expire, calls
// fail with [holdfast.ErrWrongKind].
package setlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adopt"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// maxToken is the length limit of a token, in bytes.
const maxToken = wire.MaxName

// Waiters poll after between firstLook and lastLook, because other libraries publish nothing.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// A Mutex is a lock of one name, with the methods of all locks and two of its own. A waiter is woken when a program
// that uses this package releases the lock. Other libraries publish nothing, so it also looks by itself: after 10 ms at
// first, later after at most a quarter of a second, and when the holder's lease ends. With [Options.Token] a failed
// call may leave the lock taken.
type Mutex struct {
	holdfast.Mutex
}

// Options tune a Mutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time, at least 10 ms; they are never
	// renewed. The default, 0, renews them with the lease of the session until they are released.
	FixedLease time.Duration

	// Token is the value that names the holder, up to 64 KiB. The default, "", is a new one for each
	// acquisition.
	//
	// Using a token again has its price: the server cannot tell one acquisition from another. A delayed call of an earlier
	// one may free the lock of a later one, whose holder learns of it only by its next renewal, if it is renewed. For the
	// same reason a call to take or release the lock is not repeated if it has no reply: it returns [holdfast.ErrUnknown]
	// at once. Nor is anything given back in the background, so the lock may stay taken until its lease ends.
	// [Mutex.Query] says which token holds it, and [Mutex.Adopt] takes it over. Everybody who shares the token may do with
	// the lock what its holder may: release it, or make its lease shorter than this hold believes. A redsync mutex with
	// the same value releases the lock whenever it fails to take it.
	Token string
}

var usual = kind.Settings{NonReentrant: true, Poll: wait.Exponential(firstLook, lastLook), Ages: true}

// New returns the lock of that name. It sends nothing and cannot fail: a mistake in the name or the
// options comes back from the first call.
func New(s *holdfast.Session, name string, opts *Options) *Mutex {
	m := &Mutex{}
	if opts == nil {
		opts = &Options{}
	}
	set := &usual
	if token := opts.Token; token != "" {
		own := usual
		own.Wires = kind.Wires{Draw: func() string { return token }, Reused: true}
		set = &own
	}
	label := session.Label{Kind: "setlock", Name: name}
	core.InitLock(m.lock(), (*session.Session)(s), (*protocol)(m), label, set, opts.FixedLease, wire.SetChannel)
	if len(opts.Token) > maxToken {
		m.lock().Refuse(fmt.Errorf("Options.Token is %d bytes long, the limit is %d", len(opts.Token), maxToken))
	}
	return m
}

func (m *Mutex) lock() *core.Lock { return (*core.Mutex)(&m.Mutex).Inside() }

// Adopt takes over a lock that the given token holds: another process has acquired it and has let go of it without a
// release, as [holdfast.Hold.Detach] does. From then on the lock is held as if it had been taken here: its lease is
// extended to this one's, and it is renewed unless [Options.FixedLease] is set. Nobody else who believes in the token
// is told. Others may have the token, so its release is sent once, as [Options.Token] says. Adopt blocks for a round
// trip. [holdfast.ErrNotHeld] says that the token does not hold the lock any more. After any other error the token
// still holds the lock if it did before, and the lease may be the longer one.
func (m *Mutex) Adopt(ctx context.Context, token string) (*holdfast.Hold, error) {
	const operation = "adopt"
	if token == "" {
		return nil, m.lock().Fail(operation, errors.New("token is empty"))
	}
	theirs := *m.lock() // others may have the token
	set := *theirs.Settings
	set.Wires.Reused, theirs.Settings = true, &set
	h, err := adopt.Hold(ctx, &theirs, operation, token)
	return (*holdfast.Hold)(h), err
}

// Query returns the token that holds the lock, or "" if none does. It asks the master. It is LockQuery in
// StackExchange.Redis.
func (m *Mutex) Query(ctx context.Context) (token string, err error) {
	found, _, err := holders.Inspect(ctx, m.lock(), "", "query")
	if len(found) == 0 {
		return "", err
	}
	return found[0].ID, err
}
