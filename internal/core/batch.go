package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Batch is several locks that one call takes and one gives back. It is immutable.
type Batch struct {
	Object                 // without a key
	locks    []*Lock       // in an order that is the same for everybody
	shortest time.Duration // of the leases
}

// NewBatch returns nil if one call cannot take the locks: they must be of a kind that allows it, of one
// session, and in a cluster of one slot.
func NewBatch(label Label, locks []*Lock) *Batch {
	if len(locks) < 2 || len(locks) > lease.BatchSize {
		return nil
	}
	first := locks[0]
	for _, l := range locks {
		if l.mistake != nil || l.Together == nil || l.Together != first.Together || l.session != first.session || l.slot != first.slot {
			return nil
		}
	}
	shortest, _ := leases(locks)
	return &Batch{Object: Object{Label: label, session: first.session}, locks: locks, shortest: shortest}
}

// ErrApart is why locks are to be taken one by one: the owner holds some of them already, or others
// take one or another of them all the time, so that they are never free together.
var ErrApart = errors.New("to be taken one by one")

// All are looked for so often and for so long before they are taken one by one.
const (
	looksTogether = 8
	lookTogether  = time.Second
)

// Lock takes all locks under ctx's owner, and waits for them for at most limit.
func (b *Batch) Lock(ctx context.Context, operation string, limit time.Duration) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, b.Fail(operation, stopped(ctx))
	}
	b.session.known.Stir()
	if !b.session.calls.enter() {
		return nil, b.Fail(operation, ErrClosed)
	}
	defer b.session.calls.leave()
	c := batchCall{Batch: b, retries: retries{object: &b.Object}, since: b.session.now()}
	owner := ownerOf(ctx)
	for _, l := range b.locks {
		c.claims = append(c.claims, owner.claim(l))
	}
	defer c.unwind()
	err := c.waitFor(ctx, limit, func() error { return c.once(ctx) }, c.wait)
	c.over = true
	if err == nil {
		members := make([]member, len(c.holds))
		for i, h := range c.holds {
			members[i].hold = h
		}
		return join(ctx, b.Label, members, b), nil // the holds keep the references to the claims
	}
	c.forsake()
	if errors.Is(err, ErrApart) {
		return nil, ErrApart
	}
	return nil, b.Fail(operation, c.explain(ctx, err))
}

// A batchCall is one call that wants all locks of a batch.
type batchCall struct {
	*Batch
	retries
	claims []*claim
	wire   string        // the wire owner of all; drawn at the first attempt
	until  time.Duration // copies whose outcome is not known may be executed until then; 0: none are
	grant  answer
	taken  int // the lock that was in the way of the last attempt
	at     int // the lock in whose line the call waits
	forgo  func()
	looks  int // attempts that found one in the way
	since  time.Duration
	holds  []*Single // when they are granted
	over   bool      // whoever has called has what there is
}

// forsake ends a call that has nothing.
func (c *batchCall) forsake() {
	c.giveUp()
	for _, claim := range c.claims {
		claim.unref()
	}
}

// unwind is that of an acquisition.
func (c *batchCall) unwind() {
	switch {
	case c.over:
	case c.holds == nil:
		c.forsake()
	default:
		c.release(c.holds)
	}
}

// once makes one attempt, as that of a single lock.
func (c *batchCall) once(ctx context.Context) error {
	return c.session.once(ctx, c.locks[0].key, lease.NotAfter(c.shortest), func(ctx context.Context) error {
		_, err := c.try(ctx)
		return err
	})
}

// wait attempts until all are granted: at once if nobody of the session waits for one of them, then when
// it is first in the line of the one that is in the way.
func (c *batchCall) wait(ctx, sleep context.Context) error {
	wanted := c.wanted()
	c.taken = max(wanted, 0)
	defer c.leavePlace()
	return c.retryUntil(sleep, wanted < 0, wait.Caller{
		Attempt: func() (done bool, retry time.Duration, err error) {
			retry, err = c.attempt(ctx)
			return c.holds != nil, retry, err
		},
		Place:     c.takePlace,
		Overtakes: c.reenters,
	})
}

// wanted is one of the locks that somebody of the session waits for, -1 if there is none.
func (c *batchCall) wanted() int {
	return slices.IndexFunc(c.locks, func(l *Lock) bool { return !c.session.lines.Empty(l.line()) })
}

// takePlace is where the call waits: in the line of the lock that is in the way.
func (c *batchCall) takePlace() *wait.Place {
	if c.place == nil || c.at != c.taken {
		c.leavePlace()
		c.at = c.taken
		l := c.locks[c.at]
		place := c.session.lines.Join(l.line(), l.Backoff == nil, false)
		c.forgo = awaitAny(c.claims, place)
		c.stay(place)
	}
	return c.place
}

// leavePlace leaves the place, if there is one.
func (c *batchCall) leavePlace() {
	if c.place == nil {
		return
	}
	c.forgo()
	taken := time.Duration(0)
	if c.holds != nil {
		taken = c.locks[c.at].length()
	}
	c.leaveTo(taken, (*wait.Place).Leave)
}

// reenters reports whether the owner has one of the locks by now, through another call.
func (c *batchCall) reenters() bool {
	return slices.ContainsFunc(c.claims, (*claim).holds)
}

// attempt tries once. Without holds and without an error, it is to be tried again after a wake-up or
// after retry.
func (c *batchCall) attempt(ctx context.Context) (retry time.Duration, err error) {
	inTheWay, err := c.try(ctx)
	if err == nil {
		return 0, nil
	}
	if errors.Is(err, ErrBusy) {
		c.looks++
	}
	if c.looks >= looksTogether && c.session.now()-c.since >= lookTogether {
		return 0, ErrApart
	}
	return c.again(ctx, inTheWay, err, c.locks[c.taken].Backoff)
}

// try makes one attempt, and tells the observer.
func (c *batchCall) try(ctx context.Context) (inTheWay time.Duration, err error) {
	done := c.attempting(ctx)
	c.holds, inTheWay, err = c.tryTo(ctx)
	c.learn(err)
	if c.session.config.Observer != nil {
		for _, h := range c.holds {
			h.observe(ctx)
		}
	}
	if done != nil && !errors.Is(err, ErrApart) { // that was none
		done(err)
	}
	return inTheWay, err
}

// tryTo makes one attempt.
func (c *batchCall) tryTo(ctx context.Context) (holds []*Single, inTheWay time.Duration, err error) {
	if c.session.isClosed() {
		return nil, 0, ErrClosed
	}
	leave, err := enterAll(ctx, c.claims)
	if err != nil {
		return nil, 0, &script.Failure{Class: script.Refused, Err: err}
	}
	defer leave()
	for _, claim := range c.claims {
		if claim.holds() {
			return nil, 0, ErrApart
		}
	}
	if c.wire == "" {
		c.wire = c.session.newOwner()
	}
	if err := c.ask(ctx); err != nil {
		if class := script.ClassOf(err); class == script.Unknown || class == script.Broken {
			c.until = lease.Add(c.grant.sent, lease.NotAfter(c.shortest))
		}
		return nil, 0, err
	}
	if c.grant.outcome == script.Busy {
		if c.until > 0 {
			c.giveUp() // somebody else has one; an earlier attempt may have got the others, or may yet
		}
		return nil, c.grant.pttl, c.locks[c.taken].Fail("try lock", ErrBusy)
	}
	if c.grant.at >= lease.Trust(c.grant.sent, c.shortest) || c.session.isClosed() {
		c.until = max(c.until, c.grant.sent)
		c.giveUp()
		return nil, 0, tooLate(c.session)
	}
	for i, l := range c.locks {
		holds = append(holds, new(outermost).begin(l, c.claims[i], c.wire, &c.grant, c.until))
	}
	return holds, 0, nil
}

// enterAll waits for the turns of operations on all claims. They come in one order for everybody.
func enterAll(ctx context.Context, claims []*claim) (leave func(), err error) {
	leave = func() {
		for _, c := range claims {
			c.leave()
		}
	}
	for i, c := range claims {
		if err := c.enter(ctx); err != nil {
			claims = claims[:i]
			leave()
			return nil, err
		}
	}
	return leave, nil
}

// ask sends the call and reads the reply.
func (c *batchCall) ask(ctx context.Context) error {
	first := c.locks[0]
	reply, err := c.session.runner.Timed(ctx, first.key, lease.NotAfter(c.shortest), func(w script.Window) *script.Call {
		call := script.NewCall(first.Together.Acquire).Arg(c.wire).Int(w.NotAfter)
		for _, l := range c.locks {
			call.Key(l.key).Arg(l.millis)
		}
		return call
	})
	c.grant = answer{sent: reply.Sent, at: reply.At, outcome: reply.Code}
	switch taken := int(reply.Rest[1]); {
	case err != nil:
		return err
	case reply.Code == script.Granted:
	case reply.Code == script.Busy && taken >= 1 && taken <= len(c.locks):
		c.grant.pttl, c.taken = lease.Lasting(reply.Rest[0]), taken-1
	default:
		return reply.Unexpected()
	}
	return nil
}

// giveUp has the wire owner given back if the server may have it, or may get it yet.
func (c *batchCall) giveUp() {
	if c.until > 0 {
		for _, l := range c.locks {
			c.session.debts.owe(l, c.wire, 0, c.until)
		}
	}
	c.wire, c.until = "", 0
}
