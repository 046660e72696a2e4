package script

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// redialTimeout bounds one attempt to get a new connection.
const redialTimeout = 2 * time.Second

// A Runner runs the scripts of a session on its client.
type Runner struct {
	client rueidis.Client
	nodes  nodes
	dials  singleflight.Group
	wg     sync.WaitGroup // of all goroutines
}

// NewRunner returns a runner on client.
func NewRunner(client rueidis.Client) *Runner {
	r := &Runner{client: client}
	r.nodes.init(client, &r.wg)
	return r
}

// Wait returns when no goroutine of the runner is left.
func (r *Runner) Wait() { r.wg.Wait() }

// Run runs c, which then has the reply, or returns a *[Failure]. It blocks until the reply is
// there, ctx ends, or the client gives the connection up. If ctx has ended already, nothing is
// sent.
func (r *Runner) Run(ctx context.Context, lane Lane, c *Call) error {
	if ctx.Err() != nil {
		return &Failure{Class: Refused, Err: context.Cause(ctx)}
	}
	g := r.nodes.gate(c.keys[0])
	if !g.places[lane].TryAcquire(1) && g.places[lane].Acquire(ctx, 1) != nil {
		return &Failure{Class: Refused, Err: context.Cause(ctx)}
	}
	err := r.run(ctx, c)
	if err == nil {
		g.answers()
		g.places[lane].Release(1)
		return nil
	}
	err = r.rescue(ctx, c, err)
	if class := ClassOf(err); class == Unknown || class == Refused && IsTemporary(err) {
		g.silent.Store(true)
	}
	if err != nil && ended(ctx) != nil {
		r.abandon(g, lane, c.keys[0])
	} else {
		g.places[lane].Release(1)
	}
	return err
}

// Silent reports whether the last call to the server of key had no answer, or none that helps.
func (r *Runner) Silent(key string) bool { return r.nodes.gate(key).silent.Load() }

// rescue makes a Failure of the error of a call, or runs it a second time if there was no
// connection to send it on because of somebody else: whoever comes first dials, under its own
// deadline, and the others get its error.
func (r *Runner) rescue(ctx context.Context, c *Call, err error) error {
	failure := sortFailure(ctx, err)
	if !foreign(err) || ended(ctx) != nil {
		return failure
	}
	// Now under a deadline that is nobody's.
	if err := r.redial(ctx, c.keys[0]); err != nil {
		failure.Err, failure.Temporary = err, ended(ctx) == nil && !errors.Is(err, rueidis.ErrClosing)
		return failure
	}
	if err := r.run(ctx, c); err != nil {
		return sortFailure(ctx, err)
	}
	return nil
}

// run runs c once. A script that the server does not know yet is sent in full.
func (r *Runner) run(ctx context.Context, c *Call) (err error) {
	result := r.client.Do(ctx, c.evalsha(r.client.B()))
	if c.reply, err = result.ToMessage(); forgotten(err) {
		err = r.runInFull(ctx, c)
	}
	return err
}

func (r *Runner) runInFull(ctx context.Context, c *Call) (err error) {
	c.reply, err = r.client.Do(ctx, c.eval(r.client.B())).ToMessage()
	return err
}

func forgotten(err error) bool {
	if err == nil {
		return false
	}
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.IsNoScript()
}

// RunAll runs calls in one batch per server and tells of each, in order, whether it has its
// reply or a *[Failure].
func (r *Runner) RunAll(ctx context.Context, calls []*Call, done func(i int, err error)) {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = c.evalsha(r.client.B())
	}
	for i, result := range r.client.DoMulti(ctx, commands...) {
		reply, err := result.ToMessage()
		if calls[i].reply = reply; forgotten(err) {
			err = r.run(ctx, calls[i])
		}
		if err != nil {
			done(i, sortFailure(ctx, err))
			continue
		}
		done(i, nil)
	}
}

// redial makes the client connect to the server of key, in one goroutine however many ask.
// An answer of the server is a success, whatever it says.
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
		return disown(result.Err)
	case <-ctx.Done():
		go func() {
			<-dialled
			r.wg.Done()
		}()
		return context.Cause(ctx)
	}
}
