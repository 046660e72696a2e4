package several

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/acks"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Batch is several locks that one call takes and one gives back. It is immutable.
type Batch struct {
	session.Object               // without a key
	locks          []*core.Lock  // in an order that is the same for everybody
	shortest       time.Duration // of the leases
}

// NewBatch returns nil if one call cannot take the locks: they must be of a kind that allows it, of one
// session, and in a cluster of one slot.
func NewBatch(label session.Label, locks []*core.Lock) *Batch {
	if len(locks) < 2 || len(locks) > lease.BatchSize {
		return nil
	}
	first := locks[0]
	for _, l := range locks {
		if l.Wrong() != nil || l.Together == nil || l.Together != first.Together ||
			l.Session() != first.Session() || l.Slot() != first.Slot() {
			return nil
		}
	}
	shortest, _ := core.Leases(locks)
	return &Batch{Object: session.NewObject(first.Session(), label, nil), locks: locks, shortest: shortest}
}

// ErrApart is why locks are to be taken one by one: the owner holds some of them already, or others
// take one or another of them all the time, so that they are never free together, or their slot is on
// its way to another node, and none of the two serves them together.
var ErrApart = errors.New("to be taken one by one")

// How often and how long all are looked for before they are taken one by one.
const (
	looksTogether = 8
	lookTogether  = time.Second
)

// Lock takes all locks under ctx's owner, and waits for them for at most limit.
func (b *Batch) Lock(ctx context.Context, operation string, limit time.Duration) (*core.Hold, error) {
	if err := b.Begin(ctx, operation); err != nil {
		return nil, err
	}
	defer b.Session().Leave()
	c := batchCall{
		Batch: b, Retries: session.RetriesOf(&b.Object), since: b.Session().Now(),
		owner: core.OwnerOf(ctx),
	}
	c.claims = c.owner.Claims(b.locks)
	defer c.unwind()
	over := b.Session().Over(limit)
	err := c.WaitFor(ctx, limit, &c)
	if err == nil {
		if err = c.acknowledged(ctx, over); err != nil {
			c.over = true
			back := func() { _ = b.release(c.holds) }
			if !b.Session().Start(back) {
				back()
			}
			return nil, b.Fail(operation, err)
		}
		for _, h := range c.holds {
			h.Observe(ctx)
		}
		c.over = true
		members := make([]member, len(c.holds))
		for i, h := range c.holds {
			members[i].hold = h
		}
		return join(ctx, b.Label, members, b), nil // the holds keep the references to the claims
	}
	c.over = true
	c.forsake()
	if errors.Is(err, ErrApart) {
		return nil, ErrApart
	}
	return nil, b.Fail(operation, b.whose(ctx, over, c.Explain(ctx, err)))
}

// acknowledged waits for replicas, if the session asks them.
func (c *batchCall) acknowledged(ctx context.Context, over time.Duration) error {
	if c.Session().Config().Acks == nil {
		return nil
	}
	return acks.Await(ctx, c.Session(), over, c.holds, c.by)
}

// whose returns a refusal of the call with the lock whose name belongs to another kind, if that is found out in time.
func (b *Batch) whose(ctx context.Context, over time.Duration, err error) error {
	if script.Mismatched(err) {
		ctx, cancel := context.WithTimeout(ctx, min(time.Second, max(over-b.Session().Now(), session.Grace/5)))
		defer cancel()
		for _, l := range b.locks {
			if of := l.FailIn(ctx, "lock", err); errors.Is(of, session.ErrWrongKind) {
				return of
			}
		}
	}
	return err
}

// A batchCall is one call that wants all locks of a batch.
type batchCall struct {
	*Batch
	session.Retries
	owner  *core.Owner
	claims *core.Claims
	wire   string        // the wire owner of all; drawn at the first attempt
	until  time.Duration // copies whose outcome is not known may be executed until then; 0: none are
	taken  int           // the lock that was in the way of the last attempt
	at     int           // the lock in whose line the call waits
	forgo  func()
	looks  int // attempts that found one in the way
	since  time.Duration
	holds  []*core.Single // when they are granted,
	by     acks.Executed  // by that call
	over   bool           // the caller has whatever there is
}

// forsake ends a call that has nothing.
func (c *batchCall) forsake() {
	c.giveUp()
	c.claims.Drop()
}

// unwind is unwind of an acquisition.
func (c *batchCall) unwind() {
	switch {
	case c.over:
	case c.holds == nil:
		c.forsake()
	default:
		_ = c.release(c.holds)
	}
}

// Once makes one attempt, like Once of a single lock.
func (c *batchCall) Once(ctx context.Context) error {
	return c.Session().Once(ctx, c.locks[0].Key(), lease.NotAfter(c.shortest), func(ctx context.Context) error {
		_, err := c.try(ctx)
		if c.until > 0 && errors.Is(err, ErrApart) {
			return errInTheWay
		}
		return err
	})
}

// errInTheWay is why a single attempt ends that is to be made one by one: it would find what the call itself has taken.
var errInTheWay = &script.Failure{
	Class: script.Unknown, Err: errors.New("an attempt without a reply may have taken the locks, and is given back"),
}

// Wait attempts until all are granted: at once if nobody of the session waits for one of them, then when
// it is first in the line of the one that is in the way.
func (c *batchCall) Wait(ctx, sleep context.Context) error {
	wanted := c.wanted()
	c.taken = max(wanted, 0)
	defer c.leavePlace()
	return wait.Until(ctx, sleep, wanted < 0, c)
}

// wanted is one of the locks that somebody of the session waits for, -1 if there is none.
func (c *batchCall) wanted() int {
	return slices.IndexFunc(c.locks, func(l *core.Lock) bool { return !c.Session().Lines().Empty(l.Line()) })
}

// TakePlace is where the call waits: in the line of the lock that is in the way.
func (c *batchCall) TakePlace() *wait.Place {
	if c.Place == nil || c.at != c.taken {
		c.leavePlace()
		c.at = c.taken
		l := c.locks[c.at]
		place := c.Session().Lines().Join(l.Line(), l.Backoff == nil, false)
		c.forgo = c.claims.Await(place)
		c.Stay(place)
		c.owner.Nest(&c.Retries, l)
	}
	return c.Place
}

// leavePlace leaves the place, if there is one.
func (c *batchCall) leavePlace() {
	if c.Place == nil {
		return
	}
	c.forgo()
	taken := time.Duration(0)
	if c.holds != nil {
		taken = c.locks[c.at].Length()
	}
	c.LeaveTo(taken)
}

// Woken tells the observer why a sleep ended, like Woken of a single lock.
func (c *batchCall) Woken(by wait.Cause) {
	c.Retries.Woken(by)
	if c.Place.Noticed() {
		c.locks[c.at].LogStall()
	}
}

// Overtakes reports whether the owner has one of the locks by now, through another call; or the call is to fail.
func (c *batchCall) Overtakes() bool {
	return c.claims.Held() > 0 || c.Doomed() != nil
}

// Attempt tries once. Without holds and without an error, it is to be tried again after a wake-up or
// after retry.
func (c *batchCall) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	if err := c.Doomed(); err != nil {
		return false, 0, err
	}
	inTheWay, err := c.try(ctx)
	if err == nil {
		return true, 0, nil
	}
	if errors.Is(err, session.ErrBusy) {
		c.looks++
	}
	if c.looks >= looksTogether && c.Session().Now()-c.since >= lookTogether {
		return false, 0, ErrApart
	}
	retry, err = c.Again(ctx, inTheWay, err, c.locks[c.taken].Backoff)
	return false, retry, err
}

// try makes one attempt, and tells the observer.
func (c *batchCall) try(ctx context.Context) (inTheWay time.Duration, err error) {
	c.Asked++
	done := c.Attempting(ctx)
	checks := c.locks[0].Checks()
	signs := checks.Signs()
	c.holds, inTheWay, err = c.tryTo(ctx)
	checks.Since(signs)
	c.Learn(err)
	if done != nil && !errors.Is(err, ErrApart) { // that was none
		done(err)
	}
	return inTheWay, err
}

// tryTo makes one attempt.
func (c *batchCall) tryTo(ctx context.Context) (holds []*core.Single, inTheWay time.Duration, err error) {
	if c.Session().Closed() {
		return nil, 0, session.ErrClosed
	}
	leave, err := c.claims.Enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if c.claims.Held() > 0 {
		return nil, 0, ErrApart
	}
	if c.wire == "" {
		c.wire = core.NewWire(c.Session())
	}
	grant, inTheWay, err := c.ask(ctx)
	switch {
	case script.InDoubt(err): // and not busy, which may be the cause of a ctx that has ended
		c.until = lease.Add(grant.Sent, lease.NotAfter(c.shortest))
		return nil, 0, err
	case errors.Is(err, session.ErrBusy):
		if c.until > 0 {
			c.giveUp() // somebody else has one; an earlier attempt may have got the others, or may yet
		}
		return nil, inTheWay, err
	case script.BecauseOfKeys(err):
		return nil, 0, ErrApart
	case err != nil:
		return nil, 0, err
	}
	c.by = acks.Executed{At: grant.Now, Sent: grant.Sent}
	holds, err = c.claims.Begin(c.wire, grant.Sent, grant.At, c.until)
	if err != nil {
		c.until = max(c.until, grant.Sent)
		c.giveUp()
	}
	return holds, 0, err
}

// ask sends the call and reads the reply: for how long at least one of the locks is in the way.
func (c *batchCall) ask(ctx context.Context) (reply script.Reply, inTheWay time.Duration, err error) {
	first := c.locks[0]
	limit := lease.NotAfter(c.shortest)
	err = c.Session().Runner().Timed(ctx, &reply, first.Key(), limit, func(w script.Window) *script.Call {
		call := script.NewCall(first.Together.Acquire).Arg(c.wire).Int(w.NotAfter)
		for _, l := range c.locks {
			call.Key(l.Key()).Arg(lease.Millis(l.Length()))
		}
		return call
	})
	switch taken := int(reply.Rest[1]); {
	case err != nil || reply.Code == script.Granted:
		return reply, 0, err
	case reply.Code == script.Busy && taken >= 1 && taken <= len(c.locks):
		c.taken = taken - 1
		return reply, lease.Lasting(reply.Rest[0]), c.locks[c.taken].Fail("try lock", session.ErrBusy)
	}
	return reply, 0, reply.Unexpected()
}

// giveUp gives the wire owner back if the server may have it, or may get it yet.
func (c *batchCall) giveUp() {
	if c.until > 0 {
		for _, l := range c.locks {
			l.Owe(c.wire, c.until)
		}
	}
	c.wire, c.until = "", 0
}
