package script

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// redialTimeout bounds one attempt to get a new connection.
const redialTimeout = 2 * time.Second

// leaveAgain is how long a connection is kept at the least that leads to a replica.
const leaveAgain = time.Second

// A Runner runs the scripts of a session on its client.
type Runner struct {
	client  rueidis.Client
	nodes   nodes
	clocks  *Clocks
	now     func() time.Duration // the session's clock
	changes atomic.Int64         // how often a connection has ended or was made
	left    atomic.Int64         // when the client was last made to connect anew, as a time.Duration since nodes.base
	dials   singleflight.Group
	wg      sync.WaitGroup // of all goroutines

	// Leaving is told that the client is made to connect anew; nil: nobody is. It is set before the first call.
	Leaving func()
}

// NewRunner returns a runner on client, for a session with that clock and that lease.
func NewRunner(client rueidis.Client, now func() time.Duration, lease time.Duration) *Runner {
	cluster := client.Mode() == rueidis.ClientModeCluster
	r := &Runner{client: client, now: now, clocks: NewClocks(cluster, lease)}
	r.nodes.init(client, &r.wg)
	return r
}

// Changing tells the runner that a connection has ended, or is about to be made. What was known of the server's clock
// may not be true of the next server. Both are told, because the call for which a connection is made has been made before.
func (r *Runner) Changing() {
	r.clocks.Forget()
	r.changes.Add(1)
}

// Wait returns when no goroutine of the runner is left.
func (r *Runner) Wait() { r.wg.Wait() }

// A Place is one in front of a connection, for one call.
type Place struct {
	gate *gate
	lane Lane
}

// Place waits for a place in front of the connection to the server of key, or until ctx ends. What a
// call says about the time is to be determined when it has its place: it may have had to wait for long.
func (r *Runner) Place(ctx context.Context, lane Lane, key string) (Place, error) {
	if ctx.Err() == nil {
		p := Place{r.nodes.gate(key), lane}
		if p.gate.places[lane].TryAcquire(1) || p.gate.places[lane].Acquire(ctx, 1) == nil {
			return p, nil
		}
	}
	return Place{}, &Failure{Class: Refused, Err: context.Cause(ctx)}
}

// stands reports whether the connection behind a place is known to stand: else it may take long until a call is
// sent, or it may never be.
func (r *Runner) stands(p Place) bool { return p.gate.stands(r.changes.Load()) }

// Run runs c, which then has the reply, or returns a *[Failure]. It blocks until the reply is
// there, ctx ends, or the client gives the connection up. If ctx has ended already, nothing is
// sent.
func (r *Runner) Run(ctx context.Context, lane Lane, c *Call) error {
	p, err := r.Place(ctx, lane, c.keys[0])
	if err != nil {
		return err
	}
	return r.RunIn(ctx, p, c)
}

// RunIn is Run of a call that has its place, which it gives back.
func (r *Runner) RunIn(ctx context.Context, p Place, c *Call) error {
	err := r.run(ctx, p.gate, c)
	if err == nil {
		p.gate.places[p.lane].Release(1)
		return nil
	}
	r.heard(ctx, c.keys[0], err)
	err = r.rescue(ctx, p.gate, c, err)
	if class := ClassOf(err); class == Unknown || class == Refused && IsTemporary(err) {
		p.gate.silent.Store(true)
	}
	if err != nil && ended(ctx) != nil {
		r.abandon(p.gate, p.lane, c.keys[0])
	} else {
		p.gate.places[p.lane].Release(1)
	}
	return err
}

// Heard takes in what the server of key refused a call with. If it is a replica, the client connects
// anew before Heard returns, or ctx ends: the address behind which it was a master may lead to
// another server by now, and to this one only those who are connected already.
func (r *Runner) Heard(ctx context.Context, key, text string) {
	if !ofReplica(text) {
		return
	}
	now, last := int64(time.Since(r.nodes.base)), r.left.Load()
	if last > 0 && now-last < int64(leaveAgain) || !r.left.CompareAndSwap(last, now) {
		return
	}
	if r.Leaving != nil {
		r.Leaving()
	}
	_, _ = aside(ctx, r, func() error {
		// The server closes the connection behind its reply, and executes nothing that follows.
		r.client.Do(context.Background(), r.client.B().Arbitrary("QUIT").Keys(key).Build())
		return r.redial(ctx, key)
	})
}

// heard is Heard of the error of a call.
func (r *Runner) heard(ctx context.Context, key string, err error) {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		r.Heard(ctx, key, answer.Error())
	}
}

// Server is the same for all keys that one server has, as far as is known.
func (r *Runner) Server(key string) any { return r.nodes.server(key) }

// Silent reports whether the last call to the server of key had no answer, or none that helps.
func (r *Runner) Silent(key string) bool { return r.nodes.gate(key).silent.Load() }

// rescue makes a Failure of the error of a call, or runs it a second time if there was no
// connection to send it on because of somebody else: whoever comes first dials, under its own
// deadline, and the others get its error.
func (r *Runner) rescue(ctx context.Context, g *gate, c *Call, err error) error {
	failure := sortFailure(ctx, err)
	if errors.Is(failure.Err, rueidis.ErrClosing) {
		failure.Temporary = r.lives(ctx, c.keys[0])
		return failure
	}
	if !foreign(err) || ended(ctx) != nil {
		return failure
	}
	// Now under a deadline that is nobody's.
	if err := r.redial(ctx, c.keys[0]); err != nil {
		failure.Err, failure.Temporary = err, ended(ctx) == nil && !errors.Is(err, rueidis.ErrClosing)
		return failure
	}
	if err := r.run(ctx, g, c); err != nil {
		return sortFailure(ctx, err)
	}
	return nil
}

// run runs c once. A script that the server does not know yet is sent in full.
func (r *Runner) run(ctx context.Context, g *gate, c *Call) (err error) {
	if c.reply, err = r.do(ctx, g, c.evalsha(r.client.B())); forgotten(err) {
		c.reply, err = r.do(ctx, g, c.eval(r.client.B()))
	}
	return err
}

// do sends a command and waits for the reply. If there may be no connection, it does so in a goroutine of its own: who
// comes first makes the connection, and the others wait for that, all in the client, which heeds no ctx meanwhile.
func (r *Runner) do(ctx context.Context, g *gate, command rueidis.Completed) (reply rueidis.RedisMessage, err error) {
	changes := r.changes.Load()
	var result rueidis.RedisResult
	if g.stands(changes) || ctx.Done() == nil {
		result = r.client.Do(ctx, command)
	} else if result, err = aside(ctx, r, func() rueidis.RedisResult { return r.client.Do(ctx, command) }); err != nil {
		return reply, err
	}
	if reply, err = result.ToMessage(); err == nil {
		g.answers(changes)
	}
	return reply, err
}

// aside returns what f does, or ctx's error as soon as it ends.
func aside[T any](ctx context.Context, r *Runner, f func() T) (result T, err error) {
	returned := make(chan T, 1)
	r.wg.Go(func() { returned <- f() })
	select {
	case result = <-returned:
		return result, nil
	case <-ctx.Done():
		return result, ctx.Err()
	}
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
	errs := make([]error, len(calls))
	left := make([]int, len(calls)) // which are to be run
	for i := range left {
		left[i] = i
	}
	for round := 0; len(left) > 0; round++ {
		results, err := r.doAll(ctx, calls, left, round)
		var again []int
		for n, i := range left {
			if err == nil {
				calls[i].reply, errs[i] = results[n].ToMessage()
			} else {
				errs[i] = err
			}
			if forgotten(errs[i]) && round < allInFull {
				again = append(again, i)
			}
		}
		left = again
	}
	lives := sync.OnceValue(func() bool { return r.lives(ctx, calls[0].keys[0]) })
	for i, err := range errs {
		if err == nil {
			done(i, nil)
			continue
		}
		r.heard(ctx, calls[i].keys[0], err)
		failure := sortFailure(ctx, err)
		if errors.Is(failure.Err, rueidis.ErrClosing) {
			failure.Temporary = lives()
		}
		done(i, failure)
	}
}

// The rounds of a batch: by their names alone, scripts are sent in the first. In the second, for those that a server does
// not know, each is sent in full once to each server, ahead of the other calls of it. In the last, since servers may
// have changed places meanwhile, all are.
const (
	firstInFull = 1
	allInFull   = 2
)

// doAll is do for a batch: some of the calls.
func (r *Runner) doAll(ctx context.Context, calls []*Call, some []int, round int) ([]rueidis.RedisResult, error) {
	type known struct {
		script *Script
		server *gate
	}
	commands := make(rueidis.Commands, len(some))
	sent := make(map[known]bool)
	changes, stand := r.changes.Load(), true
	for n, i := range some {
		c := calls[i]
		g := r.nodes.gate(c.keys[0])
		k := known{c.script, g}
		if round == allInFull || round == firstInFull && !sent[k] {
			commands[n] = c.eval(r.client.B())
		} else {
			commands[n] = c.evalsha(r.client.B())
		}
		sent[k] = true
		stand = stand && g.stands(changes)
	}
	if stand || ctx.Done() == nil {
		return r.client.DoMulti(ctx, commands...), nil
	}
	return aside(ctx, r, func() []rueidis.RedisResult { return r.client.DoMulti(ctx, commands...) })
}

// lives reports whether the client is not closed. It says ErrClosing also of a connection that it
// closed itself, because another server is the master now, or has the slot.
func (r *Runner) lives(ctx context.Context, key string) bool {
	return !errors.Is(r.redial(ctx, key), rueidis.ErrClosing)
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
