// Package semaphore limits how many may hold a name at once. There are two kinds of permits.
//
// Permits of an [Expirable], Redisson's RPermitExpirableSemaphore, are holds. Each has an id and a
// lease, is renewed while its holder lives, and comes back by itself when the holder dies.
//
//	pool := semaphore.NewExpirable(session, "pool", nil)
//	if _, err := pool.TrySetPermits(ctx, 8); err != nil { // false: somebody was first
//		return err
//	}
//	hold, err := pool.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//	ctx = hold.Context(ctx) // ends if the permit is lost
//
// Permits of a [Semaphore], the counting one, Redisson's RSemaphore, are just a number. Any process may
// take some, and any may give some back.
//
//	pool := semaphore.New(session, "pool")
//	if _, err := pool.TrySetPermits(ctx, 8); err != nil { // false: somebody was first
//		return err
//	}
//	if err := pool.Acquire(ctx, 1); err != nil {
//		return err
//	}
//	defer pool.Release(ctx, 1) // sent even if ctx has ended
//
// Nobody owns such a permit. If a process dies, its permits do not come back, and nothing keeps a program from giving
// back more than it took. The count on the server cannot tell a repeated call from another one, so a call whose reply
// is lost is not repeated. It returns [holdfast.ErrUnknown], and the permits may or may not be taken, or given back.
//
// Both kinds are a number on the server, as a latch is: under one name they take each other's permits, and no call
// reports it. If the name belongs to a lock that is held, all calls fail with [holdfast.ErrWrongKind].
package semaphore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireScript = script.Load("semaphore_acquire")
	leaveScript   = script.Load("semaphore_leave")
	addScript     = script.Load("semaphore_add")
	setScript     = script.Load("semaphore_set")
	drainScript   = script.Load("semaphore_drain")
	freeScript    = script.LoadLook("count_value")
	deleteScript  = script.Load("semaphore_delete")
)

// A Semaphore is a counting semaphore of one name. It is immutable and safe for concurrent use;
// make it once or at every use, as you like.
type Semaphore struct {
	object session.Object
	line   line
}

// New returns the semaphore of that name. It sends nothing and cannot fail: a mistake in the name
// comes back from the first call.
func New(s *holdfast.Session, name string) *Semaphore {
	p := &Semaphore{}
	session.InitObject(&p.object, (*session.Session)(s), session.Label{Kind: "semaphore", Name: name},
		wire.SemaphoreChannel)
	p.line = lineOf(&p.object, "counting")
	return p
}

// Name is the semaphore's name as it was given to [New].
func (p *Semaphore) Name() string { return p.object.Name }

// TrySetPermits creates the semaphore with n free permits, n from 0 to 2^53 - 1. It reports whether
// it did: false says that there is one already, whatever its permits. It blocks for a round trip. After
// [holdfast.ErrUnknown] it may have been done, or may still be. It corresponds to trySetPermits().
func (p *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return p.set(ctx, "try set permits", n, "0")
}

// TrySetPermitsFor is [Semaphore.TrySetPermits] for a semaphore that disappears after ttl, with every permit that was
// taken from it. ttl must be above 0; fractions of a millisecond round up. It corresponds to trySetPermits(permits,
// ttl).
func (p *Semaphore) TrySetPermitsFor(ctx context.Context, n int, ttl time.Duration) (bool, error) {
	const operation = "try set permits for"
	if ttl <= 0 {
		return false, p.object.Fail(operation, fmt.Errorf("ttl is %v, must be above 0", ttl))
	}
	return p.set(ctx, operation, n, lease.Millis(ttl))
}

func (p *Semaphore) set(ctx context.Context, operation string, n int, ttl string) (bool, error) {
	if n < 0 || n > wire.MaxCount {
		return false, p.object.Fail(operation, fmt.Errorf("permits are %d, must be from 0 to 2^53 - 1", n))
	}
	made, err := p.ask(ctx, operation, p.line.publishing(p.call(setScript).Int(int64(n)).Arg(ttl)))
	return made == 1, err
}

// AddPermits makes the semaphore larger by n, or smaller if n is below 0, and creates it if there is none. Permits that
// are taken stay taken, so the number of free ones may be negative for a while. An expiry stays as it is. After
// [holdfast.ErrUnknown] it may have been done, or may still be. It corresponds to addPermits().
func (p *Semaphore) AddPermits(ctx context.Context, n int) error {
	const operation = "add permits"
	if n < -wire.MaxCount || n > wire.MaxCount {
		return p.object.Fail(operation, fmt.Errorf("permits are %d, must be from -(2^53 - 1) to 2^53 - 1", n))
	}
	c := p.add(n, create)
	return p.object.Run(ctx, operation, c, func() error { return p.object.Given(c) })
}

// Acquire takes n permits. It waits until n are free or ctx ends, and waits out an outage of the server. Waiters are
// served in the order of their calls, however many permits they want: a caller that wants few does not pass one that
// wants many. A session has one place in the line of all sessions, for the first of its callers. If Redisson's
// processes wait for permits as well, only the callers of one session keep their order. It corresponds to acquire(). An
// error that matches ctx.Err() and its cause says that ctx ended first. Nothing is taken then: permits that an attempt
// under way takes are given back in the background. If the reply of that attempt is lost, too, they may stay taken, and
// the session's Logger gets a warning. [holdfast.ErrUnknown] says that a reply was lost and n permits may be taken. If
// n is 0, the call succeeds at once and sends nothing.
//
// A semaphore whose permits nobody has set has none, so Acquire waits until somebody sets them. A call for more permits
// than there are waits as well, and everybody behind it.
func (p *Semaphore) Acquire(ctx context.Context, n int) error {
	return p.take(ctx, "acquire", n, session.Forever)
}

// TryAcquire takes n permits if n are free; otherwise it fails with [holdfast.ErrBusy]. It blocks for a round trip. If
// there is no reply within a third of the session's lease, or a minute if that is less, it fails with
// [holdfast.ErrNoReply], and whatever the attempt takes is given back in the background when its reply comes. Where
// nobody takes connections, it fails at once with the network's error, and within 2 s where they do not come up. It
// overtakes waiters. It corresponds to tryAcquire(). Otherwise it is like [Semaphore.Acquire].
func (p *Semaphore) TryAcquire(ctx context.Context, n int) error {
	return p.take(ctx, "try acquire", n, 0)
}

// TryAcquireFor waits as [Semaphore.Acquire] does, but at most for the time given, and then fails with
// [holdfast.ErrBusy]. If an attempt has no reply by then, the call fails with [holdfast.ErrNoReply] after up to 0.1 s
// more, and whatever the attempt takes is given back. Whichever of ctx and wait ends first decides; ctx wins a tie. It
// corresponds to tryAcquire(permits, waitTime). A wait of zero or less is one attempt.
func (p *Semaphore) TryAcquireFor(ctx context.Context, n int, wait time.Duration) error {
	return p.take(ctx, "try acquire for", n, wait)
}

// take takes n permits and waits for them for at most limit.
func (p *Semaphore) take(ctx context.Context, operation string, n int, limit time.Duration) error {
	switch {
	case n == 0:
		return p.object.Mistake(operation)
	case n < 0 || n > wire.MaxCount:
		return p.object.Fail(operation, fmt.Errorf("permits are %d, must be from 0 to 2^53 - 1", n))
	}
	t := taking{semaphore: p, n: n}
	return t.run(ctx, operation, limit)
}

// Release gives n permits back, n of at least 1, and creates the semaphore if there is none. It is sent even if ctx has
// ended, because the permits would be missing otherwise. It returns within a third of the session's lease and within 5
// s. It corresponds to release(). [holdfast.ErrUnknown] has two meanings. Either the reply was lost: the permits may be
// back, or come back later, or not, and the call is not repeated. Or the server could not be reached, or refused, for
// example because it cannot write to its disk: it has changed nothing, and the session asks again in the background as
// long as it lives. In neither case give the permits back once more. Any other error says that they are not back.
func (p *Semaphore) Release(_ context.Context, n int) error {
	const operation = "release"
	if err := p.atLeastOne(operation, n); err != nil {
		return err
	}
	return p.object.Give(operation,
		session.Gift{Call: func() *script.Call { return p.add(n, create) }, Read: p.object.Given})
}

// ReleaseIfExists is [Semaphore.Release] for a semaphore that exists; it reports whether it does. It corresponds to
// releaseIfExists().
func (p *Semaphore) ReleaseIfExists(_ context.Context, n int) (exists bool, err error) {
	const operation = "release if exists"
	if err := p.atLeastOne(operation, n); err != nil {
		return false, err
	}
	there := false // after an error it may be the session's, which asks again in the background
	err = p.object.Give(operation, session.Gift{
		Call: func() *script.Call { return p.add(n, keep) },
		Read: func(c *script.Call) error {
			n, err := c.ReadInts(nil)
			if err == nil && len(n) == 1 && n[0] == -1 {
				return nil
			}
			there = true
			return p.object.Given(c)
		},
	})
	return err == nil && there, err
}

func (p *Semaphore) atLeastOne(operation string, n int) error {
	if n < 1 || n > wire.MaxCount {
		return p.object.Fail(operation, fmt.Errorf("permits are %d, must be from 1 to 2^53 - 1", n))
	}
	return nil
}

// DrainPermits takes all free permits and returns how many there were. A negative result is the size of the deficit,
// which the call has cleared. It corresponds to drainPermits(). After [holdfast.ErrUnknown] they may be taken, or may
// still be, for a third of the session's lease, at most a minute, and their number is not known.
func (p *Semaphore) DrainPermits(ctx context.Context) (int, error) {
	reply, err := p.object.Change(ctx, "drain permits", p.object.Session().NotAfter(), func(w script.Window) *script.Call {
		return p.call(drainScript).Int(w.NotAfter)
	})
	return int(reply.Rest[0]), err
}

// AvailablePermits returns how many permits are free: 0 if there is no semaphore, and a negative number if it was made
// smaller than the number of permits taken. It asks the master. It corresponds to availablePermits().
func (p *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	return p.ask(ctx, "available permits", p.call(freeScript))
}

// Delete removes the semaphore and reports whether there was one. Waiters keep waiting until there is one again. After
// [holdfast.ErrUnknown] it may be removed, or may still be, for a third of the session's lease, at most a minute. It
// corresponds to delete().
func (p *Semaphore) Delete(ctx context.Context) (bool, error) {
	return p.object.InTime(ctx, "delete", p.object.Session().NotAfter(), func(w script.Window) *script.Call {
		return p.call(deleteScript).Int(w.NotAfter)
	})
}

func (p *Semaphore) call(s *script.Script) *script.Call { return script.NewCall(s).Key(p.object.Key()) }

// What adding does if there is no semaphore.
const (
	create = "1"
	keep   = "0"
)

func (p *Semaphore) add(n int, missing string) *script.Call {
	return p.line.publishing(p.call(addScript).Int(int64(n)).Arg(missing))
}

// ask runs a call whose reply is a number.
func (p *Semaphore) ask(ctx context.Context, operation string, c *script.Call) (n int, err error) {
	reply, err := p.object.RunInt(ctx, operation, c)
	return int(reply), err
}
