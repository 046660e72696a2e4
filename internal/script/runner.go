package script

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// A Runner runs the scripts of a session on its client.
type Runner struct {
	client  rueidis.Client
	nodes   nodes
	clocks  *Clocks
	now     func() time.Duration // the session's clock
	changes atomic.Int64         // how often a connection has ended or was made
	calls   atomic.Int64         // how many are under way
	left    atomic.Int64         // when the client was last made to connect anew, as a time.Duration since nodes.base
	dials   singleflight.Group
	wg      sync.WaitGroup // of all goroutines

	// Leaving is called when the client is made to connect anew; nil: nobody is. It is set before the first call.
	Leaving func()

	// Ended reports whether the server has ended a connection that nobody reads between calls; nil: that is not known. It
	// is set before the first call.
	Ended func() bool

	// Renews reports whether connections may log in again while they last; nil: none does. It is set before the first
	// call.
	Renews func() bool
}

// NewRunner returns a runner on client, for a session with that clock and that lease.
func NewRunner(client rueidis.Client, now func() time.Duration, lease time.Duration) *Runner {
	cluster := client.Mode() == rueidis.ClientModeCluster
	r := &Runner{client: client, now: now, clocks: NewClocks(cluster, lease)}
	r.nodes.init(client, &r.wg)
	return r
}

// Changing tells the runner that a connection has ended, or is about to be made. What is known about the server's clock
// may not hold for the next server. Both events are reported, because the call for which a connection is made was made
// before.
func (r *Runner) Changing() {
	r.clocks.Forget()
	r.changes.Add(1)
}

// Changes returns how often that was.
func (r *Runner) Changes() int64 { return r.changes.Load() }

// UnderWay returns how many calls are under way.
func (r *Runner) UnderWay() int64 { return r.calls.Load() }

// Wait returns when no goroutine of the runner is left.
func (r *Runner) Wait() { r.wg.Wait() }

// Run runs c, which then has the reply, or returns a *[Failure]. It blocks until the reply is
// there, ctx ends, or the client gives the connection up. If ctx has ended already, nothing is
// sent.
func (r *Runner) Run(ctx context.Context, lane Lane, c *Call) error {
	p, err := r.place(ctx, lane, c.keys[0])
	if err != nil {
		return err
	}
	return r.done(ctx, p, c, r.do(ctx, p.gate, c))
}

// done gives back the place of a call that has been sent, and makes the best of an error. (It does not send the call,
// because the stack of a waiter has little room for frames that are there meanwhile.)
func (r *Runner) done(ctx context.Context, p place, c *Call, err error) error {
	if err != nil {
		err = r.again(ctx, p.gate, c, err)
	}
	if err == nil {
		p.leave()
		return nil
	}
	ctx = Limited(ctx)
	r.heard(ctx, c.keys[0], err)
	err = r.rescue(ctx, p.gate, c, err)
	if class := ClassOf(err); class == Unknown || class == Refused && IsTemporary(err) {
		p.gate.silent.Store(true)
	}
	if err != nil && ended(ctx) != nil && !Answered(c.result.Error()) {
		p.share()
		r.abandon(p.gate, p.lane, c.keys[0])
	} else {
		p.leave()
	}
	return err
}

// Server is the same for all keys that one server has, as far as is known.
func (r *Runner) Server(key string) any { return r.nodes.server(key) }

// Silent reports whether the last call to the server of key had no answer, or none that helps.
func (r *Runner) Silent(key string) bool { return r.nodes.gate(key).silent.Load() }

// run runs c once. A script that the server does not know yet is sent in full.
func (r *Runner) run(ctx context.Context, g *gate, c *Call) (err error) {
	if err = r.do(ctx, g, c); err != nil {
		err = r.again(ctx, g, c, err)
	}
	return err
}

// again sends a call again that has failed for want of the script, in full, or because of keys that it can do without;
// but not for a caller that has left: nothing of it is under way.
func (r *Runner) again(ctx context.Context, g *gate, c *Call, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if forgotten(err) {
		c.inFull = true
		err = r.do(ctx, g, c)
	}
	if err != nil && c.leaveOut(err) {
		c.inFull = false
		return r.run(ctx, g, c)
	}
	return err
}

func forgotten(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && answer.IsNoScript()
}

// RunAll runs calls in one batch per server and returns for each, in order, nil or a *[Failure]. A server that is
// silent keeps no other from being sent a call again.
func (r *Runner) RunAll(ctx context.Context, calls []*Call, done func(i int, err error)) {
	errs := make([]error, len(calls))
	servers := make(map[*gate][]int) // which calls each is to run
	for i, c := range calls {
		g := r.nodes.gate(c.keys[0])
		servers[g] = append(servers[g], i)
	}
	var running sync.WaitGroup
	for _, some := range servers {
		running.Go(func() { r.runSome(ctx, calls, some, errs) })
	}
	running.Wait()
	lives := sync.OnceValue(func() bool { return r.lives(ctx, calls[0].keys[0]) })
	for i, err := range errs {
		if err == nil {
			done(i, nil)
			continue
		}
		r.heard(ctx, calls[i].keys[0], err)
		failure := r.failure(ctx, calls[i], err)
		switch {
		case errors.Is(failure.Err, rueidis.ErrClosing):
			failure.Temporary = lives()
		case r.ofDial(ctx, calls[i], err): // whose words are not the caller's
			failure.Err = errNoConnection
		}
		done(i, failure)
	}
}

// runSome runs those of the calls that are left to be run, and records their errors. It sends none again for a caller
// that has left.
func (r *Runner) runSome(ctx context.Context, calls []*Call, left []int, errs []error) {
	for round := 0; len(left) > 0 && (round == 0 || ctx.Err() == nil); round++ {
		results, err := r.doAll(ctx, calls, left, round)
		var again []int
		for n, i := range left {
			if err == nil {
				calls[i].result = results[n]
				calls[i].reply, errs[i] = results[n].ToMessage()
			} else {
				errs[i] = err
			}
			if forgotten(errs[i]) && round < allInFull || errs[i] != nil && calls[i].leaveOut(errs[i]) {
				again = append(again, i)
			}
		}
		left = again
	}
}

// The rounds of a batch: by their names alone, scripts are sent in the first. In the second, for those that a server
// does not know, each is sent in full once to each server, ahead of the other calls of it. In the last, since servers
// may have changed places meanwhile, all are.
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
	for _, i := range some {
		r.nodes.gate(calls[i].keys[0]).settled(ctx)
	}
	commands := make(rueidis.Commands, len(some))
	sent := make(map[known]bool)
	changes, stand := r.changes.Load(), true
	for n, i := range some {
		c := calls[i]
		g := r.nodes.gate(c.keys[0])
		k := known{c.script, g}
		if round == allInFull || round == firstInFull && !sent[k] {
			commands[n] = c.InFull(r.client.B())
		} else {
			commands[n] = c.evalsha(r.client.B())
		}
		sent[k] = true
		stand = stand && g.stands(changes)
	}
	if stand || ctx.Done() == nil {
		return r.batch(ctx, commands), nil
	}
	return aside(ctx, r, func(ctx context.Context) []rueidis.RedisResult { return r.batch(ctx, commands) })
}

// slotsAtOnce is of how many slots commands are sent at a time: a fraction of the client's ring, which others need.
const slotsAtOnce = 64

// batch sends commands. If a cluster's client knows no owner of one slot, it sends none of the others' commands either:
// then those of each slot go for themselves.
func (r *Runner) batch(ctx context.Context, commands rueidis.Commands) []rueidis.RedisResult {
	results := r.client.DoMulti(ctx, commands...)
	if !errors.Is(results[0].NonRedisError(), rueidis.ErrNoSlot) {
		return results
	}
	slots := make(map[uint16][]int)
	for n, command := range commands {
		slots[command.Slot()] = append(slots[command.Slot()], n)
	}
	if len(slots) == 1 {
		return results
	}
	var sending errgroup.Group
	sending.SetLimit(slotsAtOnce)
	for _, some := range slots {
		sending.Go(func() error {
			theirs := make(rueidis.Commands, len(some))
			for i, n := range some {
				theirs[i] = commands[n]
			}
			for i, result := range r.client.DoMulti(ctx, theirs...) {
				results[some[i]] = result
			}
			return nil
		})
	}
	_ = sending.Wait()
	return results
}
