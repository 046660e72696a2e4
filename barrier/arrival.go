package barrier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// An arrival is one call of a party, to join or to wait for a generation. Each of its looks arrives once more, in case
// the server has forgotten it.
type arrival struct {
	session.Retries
	party   *Party
	round   *round
	at      int64       // its generation, as of the last look; 0: it joins
	absent  bool        // the party has certainly not arrived there, as of the last reply
	place   *wait.Place // where it waits
	silence func()      // ends that it listens; nil: it does not
	looks   atomic.Bool // what it hears is worth a look
}

// call runs an arrival, as long as the hold lasts.
func (p *Party) call(ctx context.Context, operation string, a *arrival) (generation int64, err error) {
	o := &p.barrier.object
	if err := o.Begin(ctx, operation); err != nil {
		return 0, err
	}
	defer o.Session().Leave()
	a.Retries = session.RetriesOf(o)
	if a.at > 0 {
		a.About(ctx, o)
	}
	a.place = o.Session().Lines().Apart(o.Line())
	defer a.leave()
	if o.Session().Subscribed(o.Channel) { // no message is missed then, so it need not look once more
		a.listen()
	}
	a.looks.Store(true)
	held := p.Context(ctx)
	err = wait.Until(held, held, true, a)
	if err != nil {
		if lost := p.Err(); lost != nil && ctx.Err() == nil {
			err = lost
		}
		a.at, err = 0, o.FailIn(ctx, operation, a.Explain(ctx, err))
	}
	a.Tell(err)
	return a.at, err
}

// listen makes messages wake the call, unless they say that its generation has begun.
func (a *arrival) listen() {
	o, at := &a.party.barrier.object, a.at
	a.silence = o.Session().Hear(o.Channel, func(message string) {
		if begun, _ := strconv.ParseInt(message, 10, 64); a.looks.Load() && (begun == 0 || begun > at) {
			a.place.Wake()
		}
	})
}

func (a *arrival) leave() {
	if a.silence != nil {
		a.silence()
	}
	a.LeaveTo(0)
}

// TakePlace is where the call waits, which from then on hears of changes.
func (a *arrival) TakePlace() *wait.Place {
	if a.Place == nil {
		a.Stay(a.place)
		if a.silence == nil {
			a.listen()
		}
	}
	return a.place
}

// Attempt arrives, and looks whether the generation is over.
func (a *arrival) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	b := a.party.barrier
	a.Asked++
	attempted := b.object.Attempting(ctx)
	left, err := a.arrive(ctx)
	if attempted != nil {
		attempted(err)
	}
	switch {
	case err == nil || errors.Is(err, ErrBroken):
		return true, 0, err
	case ctx.Err() != nil: // its cause may be the loss of another hold
		return true, 0, a.Interrupted(ctx, ctx.Err())
	case errors.Is(err, holdfast.ErrLost): // which the session may not know yet
		_ = b.places.Release(ctx, a.party.ID())
		return true, 0, err
	}
	retry, err = a.Again(ctx, left, err, nil)
	return false, retry, err
}

// errAnew is why an arrival is to arrive again.
var errAnew = errors.New("again")

// arrive arrives once. It is [holdfast.ErrBusy] if the generation is not over, and cannot be within left without a
// message.
func (a *arrival) arrive(ctx context.Context) (left time.Duration, err error) {
	p, b := a.party, a.party.barrier
	permit, err := wire.Permit(p.ID())
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	a.at = a.round.at
	known, first := p.known, p.sent < a.at
	p.mu.Unlock()
	c := b.arrive(permit, a.at, known)
	defer c.Free()
	err = b.object.Session().Runner().Run(ctx, script.Take, c)
	if script.ClassOf(err) != script.Refused {
		p.mu.Lock()
		p.sent = max(p.sent, a.at)
		p.mu.Unlock()
	}
	if err != nil {
		return 0, err
	}
	now, left, err := b.read(c)
	if err != nil {
		return 0, err
	}
	a.absent = first && now.mark < a.at
	if err = p.learn(a, now); errors.Is(err, errAnew) {
		return a.arrive(ctx)
	}
	return left, err
}

// learn records what the server says, and returns what that means for an arrival.
func (p *Party) learn(a *arrival, now state) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.gen >= p.known.gen {
		p.known = now
	}
	switch r := a.round; {
	case a.at == 0: // it has joined
		r.at = now.gen
		return nil
	case r.over: // as another call of the party was told
		a.at = r.at
	case r.at != a.at: // another call has moved on, as below
		return errAnew
	case a.at == now.gen:
		return holdfast.ErrBusy
	case a.at == now.tripped && !a.absent:
		r.over, p.round = true, &round{at: a.at + 1}
	case a.at <= now.tripped: // it joined while the server had forgotten how far the barrier was
		r.at = now.gen
		return errAnew
	default:
		r.over, r.err, p.round = true, fmt.Errorf("generation %d: %w", a.at, ErrBroken), &round{at: max(now.gen, a.at)}
	}
	return a.round.err
}
