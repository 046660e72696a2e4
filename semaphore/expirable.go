package semaphore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
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

// maxAtOnce is how many permits one call may take or give back. It is bounded because the server does nothing else
// meanwhile.
const maxAtOnce = 10_000

// An Expirable is a semaphore whose permits have ids and leases, Redisson's
// RPermitExpirableSemaphore. A permit that is taken is a [holdfast.Hold]: it is renewed while its
// holder lives, and comes back by itself when the holder dies. The holder is told if it is lost. An
// Expirable is immutable and safe for concurrent use; make it once or at every use, as you like.
//
// Any process that knows the id of a permit may give it back, once. So no more permits come back than were taken.
type Expirable struct {
	lock    core.Lock
	permits permits
	opts    ExpirableOptions
}

// ExpirableOptions tune an Expirable. The zero value of a field means its default.
type ExpirableOptions struct {
	// FixedLease makes permits come back by themselves after this time, at least 10 ms; they are never renewed. With
	// [Forever] they never come back by themselves. The default, 0, renews them with the lease of the session until they
	// are released, which Redisson cannot do. It is the leaseTime of Redisson's acquire methods, whose default is
	// [Forever].
	FixedLease time.Duration
}

var leased = kind.Settings{Wires: kind.Wires{Draw: wire.NewPermit, ID: wire.PermitID, Ownerless: true}}

// NewExpirable returns the semaphore of that name. Its permits have leases. It sends nothing and cannot fail: a mistake
// in the name or the options comes back from the first call.
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
	core.InitLock(
		&e.lock, (*session.Session)(s), &e.permits, label, &leased, e.opts.FixedLease, wire.SemaphoreChannel,
	)
	calls := "leased " + e.opts.FixedLease.String() // what is owed of one lasts as long
	e.permits = permits{lineOf(&e.lock.Object, calls), e}
	return e
}

// Name is the semaphore's name as it was given to [NewExpirable].
func (e *Expirable) Name() string { return e.lock.Name }

// Acquire takes a permit. It waits until one is free or ctx ends, and waits out an outage of the server. Waiters are
// served in order, as [Semaphore.Acquire] describes. It corresponds to acquire() and acquire(leaseTime). An error that
// matches ctx.Err() and its cause says that ctx ended first, [holdfast.ErrClosed] that the session did,
// [holdfast.ErrNotAcknowledged] that too few replicas have the permit ([holdfast.Options].Acks); anything else is a
// mistake, or the server's refusal, in its own words. After an error nothing is held: a permit that a lost reply may
// have left is given back in the background.
//
// A hold of a permit has no owner: its Context has the owner that ctx has, and calls under it take
// further permits. A semaphore whose permits nobody has set has none, so Acquire waits until
// somebody sets them.
func (e *Expirable) Acquire(ctx context.Context) (*holdfast.Hold, error) {
	return one(e.lock.Acquire(ctx, "acquire", 1, session.Forever))
}

// TryAcquire takes a permit if one is free; else it fails with [holdfast.ErrBusy], also if nobody has set the permits.
// It corresponds to tryAcquire(). It blocks for a round trip, and overtakes waiters. If the reply is lost, the attempt
// is repeated for up to a third of the lease, at most a minute; then it is given up and undone, and TryAcquire returns
// [holdfast.ErrUnknown]. After an error nothing is held.
func (e *Expirable) TryAcquire(ctx context.Context) (*holdfast.Hold, error) {
	return one(e.lock.Acquire(ctx, "try acquire", 1, 0))
}

// TryAcquireFor waits as [Expirable.Acquire] does, but at most for the time given, and then fails with
// [holdfast.ErrBusy]. Whichever of ctx and wait ends first decides; ctx wins a tie. It corresponds to
// tryAcquire(waitTime, leaseTime). A wait of zero or less is one attempt.
func (e *Expirable) TryAcquireFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return one(e.lock.Acquire(ctx, "try acquire for", 1, wait))
}

// AcquireN takes n permits, n from 0 to 10,000: all of them, or none, each a hold of its own. Otherwise it is like
// [Expirable.Acquire], and corresponds to acquire(permits) and acquire(permits, leaseTime). A later caller of the
// session that wants few does not pass one that wants many: a call for more permits than there are waits until there
// are, and everybody behind it waits as well. If n is 0, the call succeeds at once and sends nothing.
func (e *Expirable) AcquireN(ctx context.Context, n int) ([]*holdfast.Hold, error) {
	return e.take(ctx, "acquire n", n, session.Forever)
}

// TryAcquireN takes n permits as [Expirable.AcquireN] does if n are free; otherwise it fails with [holdfast.ErrBusy].
// Otherwise it is like [Expirable.TryAcquire], and corresponds to tryAcquire(permits).
func (e *Expirable) TryAcquireN(ctx context.Context, n int) ([]*holdfast.Hold, error) {
	return e.take(ctx, "try acquire n", n, 0)
}

// TryAcquireNFor waits as [Expirable.AcquireN] does, but at most for the time given, and then fails with
// [holdfast.ErrBusy]. Otherwise it is like [Expirable.TryAcquireFor], and corresponds to tryAcquire(permits, waitTime,
// leaseTime).
func (e *Expirable) TryAcquireNFor(ctx context.Context, n int, wait time.Duration) ([]*holdfast.Hold, error) {
	return e.take(ctx, "try acquire n for", n, wait)
}

// take takes n permits and waits for them for at most limit.
func (e *Expirable) take(
	ctx context.Context, operation string, n int, limit time.Duration,
) (holds []*holdfast.Hold, err error) {
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

func (e *Expirable) call(s *script.Script) *script.Call {
	return script.NewCall(s).Key(e.lock.Key(), wire.PermitsKey(e.lock.Key()))
}

// permitOf returns the permit with that id. Nobody holds a permit whose id is invalid.
func permitOf(id string) (permit string, err error) {
	if permit, err = wire.Permit(id); err != nil {
		err = fmt.Errorf("%w: %w", err, holdfast.ErrNotHeld)
	}
	return permit, err
}

// permits calls the semaphore's scripts for single permits, whose calls stand in the line while they wait.
type permits struct {
	line
	of *Expirable
}

func (p *permits) Acquire(w kind.Want) *script.Call {
	e := p.of
	if e.opts.FixedLease == Forever {
		w.Lease = leaseOf(Forever)
	}
	c := p.publishing(e.call(acquireExpirableScript).Arg(w.Lease).Int(w.NotAfter))
	waiter, wait := "", "0"
	if w.Waits {
		wait = waiterMillis
	}
	if w.Stand {
		waiter = e.stands(w.Owner) + " " + strconv.Itoa(1+len(w.Others))
	}
	return c.Arg(waiter, wait, w.Owner).Arg(w.Others...)
}

// stands returns the entry in the line for a call whose first permit that is, without the number of permits that it
// wants.
func (e *Expirable) stands(permit string) string {
	return wire.Owner(e.lock.Session().ID(), int64(binary.BigEndian.Uint64([]byte(permit)))) //nolint:gosec // any number
}

func (p *permits) Release(r kind.Remaining) *script.Call { return p.of.release("", r.Owner) }

// Leave takes a permit's call out of the line, and gives back whatever it may have been granted.
func (p *permits) Leave(permit string) *script.Call {
	return p.of.release(p.of.stands(permit), permit)
}

func (p *permits) WaiterLease() time.Duration { return waiterLease }

func (p *permits) Renewal() *script.Script { return renewExpirableScript }

func (p *permits) Renew(c *script.Call, owner string) {
	c.Key(wire.PermitsKey(p.of.lock.Key())).Arg(owner)
}

// On is the same semaphore of another session.
func (p *permits) On(s *session.Session) *core.Lock {
	return &NewExpirable((*holdfast.Session)(s), p.of.lock.Name, &p.of.opts).lock
}

func (p *permits) Proof(permit string) kind.Proof {
	return kind.Proof{Key: wire.PermitsKey(p.of.lock.Key()), As: kind.Permit, Owner: permit}
}
