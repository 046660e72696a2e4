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

// A Mutex is a lock of one name, with the methods of all locks and two of its own. A waiter is woken when a
// program that uses this package releases the lock. Others tell nobody, so it also looks by itself: after 10 ms
// at first, then after at most a quarter of a second, and when the lease in its way is over. With
// [Options.Token] a failed call may leave the lock taken.
type Mutex struct {
	holdfast.Mutex
}

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
	core.InitLock(m.lock(), (*core.Session)(s), (*protocol)(m), core.Label{Kind: "setlock", Name: name}, set, wire.SetChannel)
	return m
}

func (m *Mutex) lock() *core.Lock { return (*core.Lock)(&m.Mutex) }

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
		return nil, m.lock().Fail(operation, errors.New("token is empty"))
	}
	h, err := m.lock().Adopt(ctx, operation, token)
	return (*holdfast.Hold)(h), err
}

// Query returns the token that holds the lock, "" if nobody does. It asks the master.
// It is LockQuery in StackExchange.Redis.
func (m *Mutex) Query(ctx context.Context) (token string, err error) {
	holders, _, err := m.lock().Inspect(ctx, "", "query")
	if len(holders) == 0 {
		return "", err
	}
	return holders[0].ID, err
}
