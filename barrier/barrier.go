// Package barrier lets n parties wait for each other, again and again, although some of them may die: in each
// generation nobody goes on before all have arrived.
//
//	stages := barrier.New(session, "stages", 3, nil)
//	party, err := stages.Join(ctx)
//	if err != nil {
//		return err
//	}
//	defer party.Release()
//	for _, stage := range work {
//		if err := stage(party.Context(ctx)); err != nil {
//			return err
//		}
//		if _, err := party.Await(ctx); err != nil { // until all have done this stage
//			return err
//		}
//	}
//
// A [Party] is a hold: it is renewed while its process lives, and lost when it dies or is cut off. By default the
// others then go on without it, at the latest when its lease is over. With [Options].Breaks the generation is broken
// for all of them, who may begin it anew with another party in that place.
//
// Nobody goes on before all n places have been taken at the same time, once; until then a party that dies leaves its
// place to another one. Generations are counted from 1. A barrier that all have left, or died in, begins anew.
//
// A lease cannot stop a process: one that stands still for longer than its lease is gone for the others, and may do a
// part of its stage after they have gone on. What it writes can be guarded ([holdfast.Hold.Guard]). A server that
// forgets its writes in a failover loses parties, who are told so; the others never wait for ever, and nobody goes
// through a generation twice.
//
// The parties are the permits of a [semaphore.Expirable] of that name, with n permits: an observer sees them as such,
// and "holdfast show" lists them. Use a name of its own for each barrier.
package barrier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/semaphore"
)

// ErrBroken says that a generation was broken, because a party was gone. Only [Options].Breaks makes that happen.
var ErrBroken = errors.New("holdfast: barrier broken")

var arriveScript = script.LoadLook("barrier_arrive") // a copy changes nothing more

// maxParties bounds what the server does in one step.
const maxParties = 10_000

// A Barrier is a barrier of one name. It is immutable and safe for concurrent use; make it once or at every use, as you
// like.
type Barrier struct {
	object  session.Object
	places  *semaphore.Expirable
	parties int
	opts    Options
}

// Options tune a Barrier. All processes must use the same.
type Options struct {
	// Breaks makes a party that dies, or leaves, break the generation for the others: their Await fails with [ErrBroken].
	// The next generation trips when all places are taken again and all have arrived. Without it the others go on.
	Breaks bool
}

// New returns the barrier of that name for that many parties, from 1 to 10,000. It sends nothing and cannot fail: a
// mistake in the name or the number comes back from the first call.
func New(s *holdfast.Session, name string, parties int, opts *Options) *Barrier {
	b := &Barrier{places: semaphore.NewExpirable(s, name, nil), parties: parties}
	if opts != nil {
		b.opts = *opts
	}
	session.InitObject(&b.object, (*session.Session)(s), session.Label{Kind: "barrier", Name: name}, wire.BarrierKey)
	if parties < 1 || parties > maxParties {
		b.object.Refuse(fmt.Errorf("parties are %d, must be from 1 to %d", parties, maxParties))
	}
	return b
}

// Name is the barrier's name as it was given to [New].
func (b *Barrier) Name() string { return b.object.Name }

// Join takes one of the places. It waits while all are taken, until ctx ends, and waits out an outage of the server.
// After an error the place is given back. It fails if the barrier was made for another number of parties, within some
// 10 s if all places are taken: see [Barrier.Delete]. A party that joins later takes part in the generation that is
// waited for. With [Options].Breaks, where all places had been taken before, it takes the place of one that is gone,
// and thereby breaks that generation.
//
// It costs three calls to the server. If the reply to one was lost, it may take a third of the lease longer.
func (b *Barrier) Join(ctx context.Context) (*Party, error) {
	const operation = "join"
	if err := b.object.Mistake(operation); err != nil {
		return nil, err
	}
	hold, err := b.take(ctx)
	if err != nil {
		return nil, b.object.Fail(operation, err)
	}
	p, joined := &Party{Hold: hold, barrier: b, round: new(round)}, false
	defer func() { // also if an observer panics, or ends the goroutine
		if !joined {
			_ = p.Release()
		}
	}()
	// A late copy of an arrival must not be executed behind a late copy of the acquisition.
	if err = guard.Settle(ctx, (*core.Hold)(hold).Inside().(*core.Single)); err != nil {
		return nil, b.object.Fail(operation, err)
	}
	if _, err = p.call(ctx, operation, &arrival{party: p, round: p.round}); err != nil {
		return nil, err
	}
	joined = true
	return p, nil
}

// remake is how often a caller that waits for a place makes sure that there are any: the server may have lost them.
const remake = 10 * time.Second

// take takes a place.
func (b *Barrier) take(ctx context.Context) (*holdfast.Hold, error) {
	for delay := time.Duration(0); ; {
		_, err := b.places.TrySetPermits(ctx, b.parties)
		if err == nil {
			var hold *holdfast.Hold
			if hold, err = b.places.TryAcquireFor(ctx, remake); err == nil {
				return hold, nil
			}
		}
		switch {
		case errors.Is(err, holdfast.ErrBusy) && !errors.Is(err, ctx.Err()): // or it is the cause of ctx's end
			if n, err := b.places.Permits(ctx); err == nil && n > 0 && n != b.parties {
				return nil, b.unlike(int64(n))
			}
			delay = 0
			continue
		case !session.Passes(err):
			return nil, err
		}
		if delay = wait.Retry(delay); session.Pause(ctx, delay) != nil {
			return nil, fmt.Errorf("%w; last attempt: %w", session.Stopped(ctx), err)
		}
	}
}

// Delete removes the barrier with its parties: their holds are lost, and their waits fail. It reports whether there was
// one. The number of parties of a barrier stays until then, also when all have left.
func (b *Barrier) Delete(ctx context.Context) (bool, error) {
	const operation = "delete"
	if err := b.object.Mistake(operation); err != nil {
		return false, err
	}
	was, err := b.places.Delete(ctx)
	if err != nil {
		return false, b.object.Fail(operation, err)
	}
	b.tell(ctx)
	return was, nil
}

// told is how long it may take to tell those who wait that somebody has left. They look by themselves, too.
const told = time.Second

// tell lets the server look whether a party that is gone changes anything for those who wait, and tell them.
func (b *Barrier) tell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), told)
	defer cancel()
	c := b.arrive("", 0, state{})
	_ = b.object.Run(ctx, "leave", c, func() error { return nil })
}

// arrive is the call by which a party arrives at a generation.
func (b *Barrier) arrive(permit string, at int64, known state) *script.Call {
	key := b.object.Key()
	return script.NewCall(arriveScript).Key(key, wire.PermitsKey(key), wire.BarrierKey(key)).
		Arg(permit).Int(at).Int(known.tripped).Arg(flag[known.full && known.gen == at]).
		Int(int64(b.parties)).Arg(flag[b.opts.Breaks], b.object.Publish(), b.object.Channel)
}

// flag is how scripts take yes and no.
var flag = map[bool]string{true: "1", false: "0"}

// A state is how far a barrier is.
type state struct {
	gen     int64 // that is waited for
	tripped int64 // the last one that did; 0: none
	full    bool  // all places were taken
	mark    int64 // the last one at which the party has arrived
}

// read reads the reply, and for how long no party can die without a release.
func (b *Barrier) read(c *script.Call) (s state, left time.Duration, err error) {
	n, err := c.ReadInts(nil)
	switch {
	case err != nil:
		return s, 0, err
	case len(n) == 1:
		return s, 0, holdfast.ErrLost // or there are none, as one knows that does not look for itself
	case len(n) == 2:
		return s, 0, b.unlike(n[1])
	case len(n) != 5:
		return s, 0, c.Unexpected()
	}
	return state{n[0], n[1], n[2] == 1, n[4]}, time.Duration(n[3]) * time.Millisecond, nil
}

// unlike is the error of a call for another number of parties than there are places.
func (b *Barrier) unlike(places int64) error {
	return fmt.Errorf("parties are %d, must be %d, with which the barrier was made", b.parties, places)
}

// A Party is one of those who wait for each other. It is the hold of its place, and lasts until it is released or lost,
// or its session is closed. It is safe for concurrent use.
type Party struct {
	*holdfast.Hold
	barrier *Barrier

	mu    sync.Mutex // guards the rest, and what is in rounds
	round *round     // that the next call waits for
	sent  int64      // the last generation at which it may have arrived
	known state      // as of the last reply
}

// A round is a generation that a party waits for, perhaps by several calls, which are all told the same.
type round struct {
	at   int64 // the generation; 0: the party has not joined yet
	over bool
	err  error // nil: it has tripped
}

// Await arrives at the party's next generation, and waits until that trips: until all parties have arrived, or those
// that have not are gone. It returns which one that was, and waits out an outage of the server.
//
// It fails if ctx ends, with an error that matches ctx.Err() and its cause. If the call was sent, the party has
// arrived all the same, and the next call waits for the same generation. It fails with [ErrBroken] if the generation
// was broken; the next call waits for a later one, that of the others, who are told the same. If the party's hold
// ends, the error is what [holdfast.Hold.Err] says: [holdfast.ErrLost], [holdfast.ErrNotHeld] after Release,
// [holdfast.ErrClosed]. Anything else is the server's refusal.
//
// A call costs one call to the server to arrive, and another one when the generation has tripped, unless this party
// was the last; and a look every 4 to 6 s, or when the lease of a party is about to end. If a message is lost, it
// takes until then. Two calls at the same time wait for the same generation.
func (p *Party) Await(ctx context.Context) (generation int64, err error) {
	p.mu.Lock()
	a := &arrival{party: p, round: p.round, at: p.round.at}
	p.mu.Unlock()
	return p.call(ctx, "await", a)
}

// Release ends the hold and leaves the barrier, and tells those who wait. Otherwise it is as [holdfast.Hold.Release],
// and takes at most a second longer. Parties whose session is closed leave as well; the others notice after 6 s at the
// latest.
func (p *Party) Release() error {
	err := p.Hold.Release()
	if err == nil {
		p.barrier.tell(context.Background())
	}
	return err
}
