package script

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Lane says which places a call may take in front of the connection.
type Lane uint8

const (
	// Take: attempts to take something, and looks.
	Take Lane = iota
	// Keep: renewals and releases. They have places of their own, so that no number of
	// attempts can keep a holder from keeping or giving back what it has.
	Keep
)

// The client's ring has 1,024 places for calls in flight; beyond them a caller is stuck
// whatever its context says. So callers queue here, where ctx is heeded, and some of the
// ring stays free for the client's own PINGs and subscriptions.
const (
	takePlaces = 900
	keepPlaces = 100
)

// redialTimeout bounds one attempt to get a new connection.
const redialTimeout = 2 * time.Second

// A Runner runs the scripts of a session on its client.
type Runner struct {
	client rueidis.Client
	places [2]*semaphore.Weighted
	dials  singleflight.Group
	wg     sync.WaitGroup // of dials
}

// NewRunner returns a runner on client.
func NewRunner(client rueidis.Client) *Runner {
	return &Runner{client: client, places: [2]*semaphore.Weighted{
		Take: semaphore.NewWeighted(takePlaces),
		Keep: semaphore.NewWeighted(keepPlaces),
	}}
}

// Wait returns when no goroutine of the runner is left.
func (r *Runner) Wait() { r.wg.Wait() }

// Run runs c and returns the reply or a *[Failure]. It blocks until the reply is there, ctx
// ends, or the client gives the connection up. If ctx has ended already, nothing is sent.
func (r *Runner) Run(ctx context.Context, lane Lane, c *Call) (rueidis.RedisMessage, error) {
	if ctx.Err() != nil {
		return rueidis.RedisMessage{}, &Failure{Class: Refused, Err: context.Cause(ctx)}
	}
	if err := r.places[lane].Acquire(ctx, 1); err != nil {
		return rueidis.RedisMessage{}, &Failure{Class: Refused, Err: context.Cause(ctx)}
	}
	defer r.places[lane].Release(1)
	for redialled := false; ; redialled = true {
		reply, err := r.run(ctx, c)
		if err == nil {
			return reply, nil
		}
		failure := sortFailure(ctx, err)
		// A dial that failed by a deadline may have failed by somebody else's: whoever
		// comes first dials, the others get its error. Nothing was sent; dial again under
		// a deadline that is nobody's, once.
		if redialled || failure.Class != Refused || !failure.Temporary || !foreign(err) || ctx.Err() != nil {
			return rueidis.RedisMessage{}, failure
		}
		if err := r.redial(ctx, c.keys[0]); err != nil {
			return rueidis.RedisMessage{}, err
		}
	}
}

// run runs c once. A script that the server does not know yet is sent in full.
func (r *Runner) run(ctx context.Context, c *Call) (rueidis.RedisMessage, error) {
	reply, err := r.client.Do(ctx, c.evalsha(r.client.B())).ToMessage()
	if forgotten(err) {
		return r.client.Do(ctx, c.eval(r.client.B())).ToMessage()
	}
	return reply, err
}

func forgotten(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.IsNoScript()
}

// RunAll runs calls in one batch per server and hands each reply or *[Failure] to read, in
// order.
func (r *Runner) RunAll(ctx context.Context, calls []*Call, read func(i int, reply rueidis.RedisMessage, err error)) {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = c.evalsha(r.client.B())
	}
	for i, result := range r.client.DoMulti(ctx, commands...) {
		reply, err := result.ToMessage()
		if forgotten(err) {
			reply, err = r.run(ctx, calls[i])
		}
		if err != nil {
			read(i, reply, sortFailure(ctx, err))
			continue
		}
		read(i, reply, nil)
	}
}

// redial makes the client connect to the server of key, in one goroutine however many ask.
func (r *Runner) redial(ctx context.Context, key string) error {
	slot := ""
	if r.client.Mode() == rueidis.ClientModeCluster {
		slot = string(rune(wire.Slot(key)))
	}
	r.wg.Add(1)
	dialled := r.dials.DoChan(slot, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), redialTimeout)
		defer cancel()
		return nil, r.client.Do(ctx, r.client.B().Exists().Key(key).Build()).NonRedisError()
	})
	select {
	case result := <-dialled:
		r.wg.Done()
		if result.Err == nil {
			return nil
		}
		f := sortFailure(ctx, result.Err)
		f.Class, f.Temporary = Refused, true
		return f
	case <-ctx.Done():
		go func() {
			<-dialled
			r.wg.Done()
		}()
		return &Failure{Class: Refused, Err: context.Cause(ctx)}
	}
}
