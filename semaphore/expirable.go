package semaphore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireExpirableScript = script.Load("semaphore_acquire_expirable")
	releaseExpirableScript = script.Load("semaphore_release_expirable")
	renewExpirableScript   = script.Load("semaphore_renew_expirable")
	updateExpirableScript  = script.Load("semaphore_update_expirable")
	leaseExpirableScript   = script.LoadLook("semaphore_lease_expirable")
	countExpirableScript   = script.LoadLook("semaphore_count_expirable")
	addExpirableScript     = script.Load("semaphore_add_expirable")
	resizeExpirableScript  = script.Load("semaphore_resize_expirable")
)

// Forever is the lease of a permit that never expires: it is taken until somebody gives it back.
const Forever time.Duration = math.MaxInt64

// maxAtOnce is how many permits one call may take or give back, because the server does nothing else
// meanwhile.
const maxAtOnce = 10_000

// An Expirable is a semaphore whose permits have ids and leases, Redisson's
// RPermitExpirableSemaphore. A permit that is taken is a [holdfast.Hold]: it is renewed while its
// holder lives, and comes back by itself when the holder dies. The holder is told if it is lost. An
// Expirable is immutable and safe for concurrent use; make it once or at every use, as you like.
//
// Whoever knows the id of a permit may give it back, in any process, once. So no more permits come
// back than were taken.
type Expirable struct {
	lock core.Lock
	opts ExpirableOptions
}

// ExpirableOptions tune an Expirable. The zero value of a field means its default.
type ExpirableOptions struct {
	// FixedLease makes permits come back by themselves after this time, at least 10 ms; they are never
	// renewed. With [Forever] they never come back. The default, 0, renews them with the lease of the
	// session until they are released, which Redisson cannot do. It is the leaseTime of Redisson's
	// acquire methods, whose default is [Forever].
	FixedLease time.Duration
}

// NewExpirable returns the semaphore of that name, whose permits have leases. It sends nothing and
// cannot fail: a mistake in the name or the options comes back from the first call.
//
// Leases end by the server's clock, and a holder trusts its own for a little less. Redisson takes back
// permits by the clock of its own machine. If that is ahead of the server's by more than 1 % of the
// lease and 50 ms, a Java process may get a permit before its holder here is told.
func NewExpirable(s *holdfast.Session, name string, opts *ExpirableOptions) *Expirable {
	e := &Expirable{}
	if opts != nil {
		e.opts = *opts
	}
	label := session.Label{Kind: "semaphore", Half: "Expirable", Name: name}
	set := core.Settings{
		FixedLease: e.opts.FixedLease, Left: noneFor,
		Wires: core.Wires{Draw: wire.NewPermit, ID: wire.PermitID, Ownerless: true},
	}
	core.InitLock(&e.lock, (*session.Session)(s), (*permits)(e), label, set, wire.SemaphoreChannel)
	return e
}

// Name is the semaphore's name as it was given to [NewExpirable].
func (e *Expirable) Name() string { return e.lock.Name }

// TrySetPermits makes the semaphore, with n permits, n from 0 to 2^53 - 1. It reports whether it
// has: false says that there is one already, whatever its permits. It blocks for a round trip, as
// all do that take or wait for no permit. It corresponds to trySetPermits().
func (e *Expirable) TrySetPermits(ctx context.Context, n int) (bool, error) {
	const operation = "try set permits"
	if n < 0 || n > maxPermits {
		return false, e.lock.Fail(operation, fmt.Errorf("permits are %d, must be from 0 to 2^53 - 1", n))
	}
	made, err := e.ask(ctx, operation, e.publishing(script.NewCall(setScript).Key(e.lock.Key()).Int(int64(n)).Arg("0")))
	return made == 1, err
}

// SetPermits makes the semaphore have n permits in all, free and taken ones, n from 0 to 2^53 - 1,
// and makes it if there is none. Permits that are taken stay taken, so fewer than none may be free
// for a while. It corresponds to setPermits(). After [holdfast.ErrUnknown] it may have been done, or
// may be yet, for a third of the lease, a minute at the most.
func (e *Expirable) SetPermits(ctx context.Context, n int) error {
	const operation = "set permits"
	if n < 0 || n > maxPermits {
		return e.lock.Fail(operation, fmt.Errorf("permits are %d, must be from 0 to 2^53 - 1", n))
	}
	changed, err := e.lock.InTime(ctx, operation, func(w script.Window) *script.Call {
		return e.publishing(e.call(resizeExpirableScript).Int(int64(n))).Int(w.NotAfter)
	})
	if changed {
		e.lock.Wake()
	}
	return err
}

// AddPermits makes the semaphore larger by n, or smaller if n is below 0, and makes it if there is
// none. Permits that are taken stay taken, so fewer than none may be free for a while. An expiry
// stays. It corresponds to addPermits(). After [holdfast.ErrUnknown] it may have been done.
func (e *Expirable) AddPermits(ctx context.Context, n int) error {
	const operation = "add permits"
	if n < -maxPermits || n > maxPermits {
		return e.lock.Fail(operation, fmt.Errorf("permits are %d, must be from -(2^53 - 1) to 2^53 - 1", n))
	}
	c := e.publishing(script.NewCall(addExpirableScript).Key(e.lock.Key()).Int(int64(n)))
	return e.lock.Run(ctx, operation, c, func() error { return e.lock.Given(c) })
}

// Acquire takes a permit. It waits until one is free or ctx ends, and waits out an outage of the
// server. The waiters of a session wait in order, whatever they want. It corresponds to acquire()
// and acquire(leaseTime). An error that matches ctx.Err() and its cause says that ctx
// ended first, [holdfast.ErrClosed] that the session did; anything else is the server's refusal, in
// its own words. After an error nothing is held: what a lost reply may have left is given back in
// the background.
//
// A hold of a permit has no owner: its Context has the owner that ctx has, and calls under it take
// further permits. A semaphore whose permits nobody has set has none, so Acquire waits until
// somebody sets them.
func (e *Expirable) Acquire(ctx context.Context) (*holdfast.Hold, error) {
	return one(e.lock.Acquire(ctx, "acquire", 1, session.Forever))
}

// TryAcquire takes a permit if one is free; else it fails with [holdfast.ErrBusy]. It corresponds to
// tryAcquire(). It blocks for a round trip, and passes over whoever waits. If the reply is lost the
// attempt is repeated for up to a third of the lease, a minute at the most, then given up and
// undone: that is [holdfast.ErrUnknown]. After an error nothing is held.
func (e *Expirable) TryAcquire(ctx context.Context) (*holdfast.Hold, error) {
	return one(e.lock.Acquire(ctx, "try acquire", 1, 0))
}

// TryAcquireFor waits as [Expirable.Acquire] does, but at most for the time given, and then fails
// with [holdfast.ErrBusy]. Of ctx and wait the first to end decides, ctx if they end together. It
// corresponds to tryAcquire(waitTime, leaseTime). A wait of zero or less is one attempt.
func (e *Expirable) TryAcquireFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return one(e.lock.Acquire(ctx, "try acquire for", 1, wait))
}

// AcquireN takes n permits, n from 0 to 10,000: all of them, or none, each a hold of its own. It is
// otherwise as [Expirable.Acquire], and corresponds to acquire(permits) and acquire(permits,
// leaseTime). A later caller of the session that wants few does not pass one that wants many. n of 0
// succeeds at once, and nothing is sent.
func (e *Expirable) AcquireN(ctx context.Context, n int) ([]*holdfast.Hold, error) {
	return e.take(ctx, "acquire n", n, session.Forever)
}

// TryAcquireN takes n permits as [Expirable.AcquireN] does if n are free; otherwise it fails with
// [holdfast.ErrBusy]. It is otherwise as [Expirable.TryAcquire], and corresponds to
// tryAcquire(permits).
func (e *Expirable) TryAcquireN(ctx context.Context, n int) ([]*holdfast.Hold, error) {
	return e.take(ctx, "try acquire n", n, 0)
}

// TryAcquireNFor waits as [Expirable.AcquireN] does, but at most for the time given, and then fails
// with [holdfast.ErrBusy]. It is otherwise as [Expirable.TryAcquireFor], and corresponds to
// tryAcquire(permits, waitTime, leaseTime).
func (e *Expirable) TryAcquireNFor(ctx context.Context, n int, wait time.Duration) ([]*holdfast.Hold, error) {
	return e.take(ctx, "try acquire n for", n, wait)
}

// take takes n permits and waits for them for at most limit.
func (e *Expirable) take(ctx context.Context, operation string, n int, limit time.Duration) (holds []*holdfast.Hold, err error) {
	switch {
	case n == 0:
		return nil, e.lock.Mistake(operation)
	case n < 0 || n > maxAtOnce:
		return nil, e.lock.Fail(operation, fmt.Errorf("permits are %d, must be from 0 to %d", n, maxAtOnce))
	}
	taken, err := e.lock.Acquire(ctx, operation, n, limit)
	for _, h := range taken {
		holds = append(holds, (*holdfast.Hold)(h))
	}
	return holds, err
}

func one(holds []*core.Hold, err error) (*holdfast.Hold, error) {
	if err != nil {
		return nil, err
	}
	return (*holdfast.Hold)(holds[0]), nil
}

// Release gives permits back by their ids, as [holdfast.Hold.ID] has them and Java's acquire returns
// them: all of them, or none. It is [holdfast.ErrNotHeld] if one of them is not taken, because it
// was given back before, or its lease is over, or it is no permit's id at all. Whoever holds one of
// them has lost it: in this
// session it is told at once, elsewhere by the next renewal, or when it releases if there is none; a
// hold is best given back by its own Release. It corresponds to release(permitId) and
// release(permitsIds); tryRelease is the same.
//
// It is sent even if ctx has ended, or the permits would stay taken, and returns within a third of
// the session's lease and within 5 s. As a permit can come back only once, it is repeated if the
// reply is lost; if the permits are found to have come back by then, whoever gave them back, it is
// [holdfast.ErrUnknown], and so it is if the server refuses, as when it cannot write to its disk.
// Holds of this session are then lost in any case, and all go back one by one in the background.
func (e *Expirable) Release(_ context.Context, ids ...string) error {
	const operation = "release"
	if len(ids) > maxAtOnce {
		return e.lock.Fail(operation, fmt.Errorf("ids are %d, must be %d at the most", len(ids), maxAtOnce))
	}
	permits := make([]string, len(ids))
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		permit, err := permitOf(id)
		switch {
		case err != nil:
			return e.lock.Fail(operation, err)
		case seen[permit]:
			return e.lock.Fail(operation, fmt.Errorf("permit id %q is given twice", id))
		}
		permits[i], seen[permit] = permit, true
	}
	if len(ids) == 0 {
		return e.lock.Mistake(operation)
	}
	return e.giveBack(operation, permits)
}

// UpdateLease gives a permit a lease of d from now, longer or shorter, of at least 10 ms or
// [Forever]. It is [holdfast.ErrNotHeld] if it is not taken any more, or the id is none. It corresponds to
// updateLeaseTime(). A hold of this session trusts the new lease; one that is renewed goes on being
// renewed, with the session's lease, if the new one lasts until then. Who holds it elsewhere does
// not know of it: with a longer lease it stops to trust the permit when its own is over, and the
// permit stays taken; with a shorter one it trusts the permit for too long. While the call is under
// way a hold of this session trusts the shorter lease: if no reply comes within it, the hold is lost.
// After [holdfast.ErrUnknown] it may have been done, or may be yet, for a third of the permit's lease,
// a minute at the most; so long a hold of this session trusts no longer lease. After any other error
// but [holdfast.ErrLost] nothing was changed.
func (e *Expirable) UpdateLease(ctx context.Context, id string, d time.Duration) error {
	const operation = "update lease"
	permit, err := permitOf(id)
	if err == nil && d < lease.Min {
		err = fmt.Errorf("lease is %v, must be at least %v", d, lease.Min)
	}
	if err != nil {
		return e.lock.Fail(operation, err)
	}
	return e.updateLease(ctx, operation, permit, d)
}

// RemainingLease returns how long a permit stays taken if nobody renews or releases it, [Forever] if
// it has no end, or none within the 292 years of a Duration. It is [holdfast.ErrNotHeld] if it is
// not taken any more, or the id is none. It asks the master. It corresponds to getLeaseTime().
func (e *Expirable) RemainingLease(ctx context.Context, id string) (time.Duration, error) {
	const operation = "remaining lease"
	permit, err := permitOf(id)
	if err != nil {
		return 0, e.lock.Fail(operation, err)
	}
	left, err := e.ask(ctx, operation, script.NewCall(leaseExpirableScript).Key(wire.PermitsKey(e.lock.Key())).Arg(permit))
	switch {
	case err != nil:
		return 0, err
	case left < 0 || left > int64(Forever/time.Millisecond):
		return Forever, nil
	case left == 0:
		return 0, e.lock.Fail(operation, holdfast.ErrNotHeld)
	}
	return time.Duration(left) * time.Millisecond, nil
}

// Permits returns how many permits the semaphore has, free and taken ones; 0 if there is none. It
// asks the master, as all these do, and first has the permits come back whose leases are over. It
// corresponds to getPermits().
func (e *Expirable) Permits(ctx context.Context) (int, error) {
	free, taken, err := e.count(ctx, "permits")
	return free + taken, err
}

// AvailablePermits returns how many permits are free: 0 if there is no semaphore, below 0 if it was
// made smaller than what is taken. It corresponds to availablePermits().
func (e *Expirable) AvailablePermits(ctx context.Context) (int, error) {
	free, _, err := e.count(ctx, "available permits")
	return free, err
}

// AcquiredPermits returns how many permits are taken. It corresponds to acquiredPermits().
func (e *Expirable) AcquiredPermits(ctx context.Context) (int, error) {
	_, taken, err := e.count(ctx, "acquired permits")
	return taken, err
}

// count counts the permits, in several calls if many leases are over.
func (e *Expirable) count(ctx context.Context, operation string) (free, taken int, err error) {
	for more := true; more && err == nil; {
		c := e.publishing(e.call(countExpirableScript))
		err = e.lock.Run(ctx, operation, c, func() error {
			n, err := c.ReadInts(nil)
			switch more = len(n) == 1; {
			case err != nil:
				return err
			case more && n[0] == -3:
			case len(n) == 2:
				free, taken = int(n[0]), int(n[1])
			default:
				return c.Unexpected()
			}
			return nil
		})
	}
	return free, taken, err
}

// Delete removes the semaphore with all permits that are taken, and reports whether there was one.
// Holds of this session are lost at once, also if the outcome is unknown; others by their next
// renewal, or when they are released if there is none. Whoever waits goes on waiting, until a
// semaphore is made. It corresponds to delete().
func (e *Expirable) Delete(ctx context.Context) (bool, error) {
	ours := e.lock.Granted() // not what is granted while the reply is on its way
	was, err := e.ask(ctx, "delete", e.call(deleteScript))
	switch {
	case was == 1:
		ours.Lose()
	case errors.Is(err, holdfast.ErrUnknown):
		ours.Forsake()
	}
	return was == 1, err
}

// ask runs a call whose reply is a number.
func (e *Expirable) ask(ctx context.Context, operation string, c *script.Call) (n int64, err error) {
	err = e.lock.Run(ctx, operation, c, func() error {
		n, err = c.ReadInt()
		return err
	})
	return n, err
}

func (e *Expirable) call(s *script.Script) *script.Call {
	return script.NewCall(s).Key(e.lock.Key(), wire.PermitsKey(e.lock.Key()))
}

// publishing appends how to tell those who wait.
func (e *Expirable) publishing(c *script.Call) *script.Call {
	return c.Arg(e.lock.Publish(), e.lock.Channel)
}

func (e *Expirable) release(ids ...string) *script.Call {
	return e.publishing(e.call(releaseExpirableScript)).Arg(ids...)
}

// permitOf is the permit of an id; what is no id is nobody's.
func permitOf(id string) (permit string, err error) {
	if permit, err = wire.Permit(id); err != nil {
		err = fmt.Errorf("%w: %w", err, holdfast.ErrNotHeld)
	}
	return permit, err
}

// leaseOf is a lease as scripts take it.
func leaseOf(d time.Duration) string {
	if d == Forever {
		return "0"
	}
	return lease.Millis(d)
}

// noneFor is for how long there is no permit left, as a grant replies.
func noneFor(ms int64) time.Duration {
	if d := lease.Lasting(ms); d >= 0 {
		return d
	}
	return Forever
}

// permits is how the semaphore's scripts are called for single permits.
type permits Expirable

func (p *permits) Acquire(w core.Want) *script.Call {
	e := (*Expirable)(p)
	if e.opts.FixedLease == Forever {
		w.Lease = leaseOf(Forever)
	}
	return e.publishing(e.call(acquireExpirableScript).Arg(w.Lease).Int(w.NotAfter)).Arg(w.Owner).Arg(w.Others...)
}

func (p *permits) Release(r core.Remaining) *script.Call { return (*Expirable)(p).release(r.Owner) }

func (p *permits) Renewal() *script.Script { return renewExpirableScript }

func (p *permits) Renew(c *script.Call, owner string) {
	c.Key(wire.PermitsKey(p.lock.Key())).Arg(owner)
}
