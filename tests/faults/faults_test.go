package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// A fault is what happens to a command.
type fault int

const (
	lost    fault = iota // the server executes it, the reply is lost and the connection reset
	reset                // the connection is reset, and the server never sees it
	stalled              // the connection is silent beyond the deadline; the server executes it late
)

var faults = []struct {
	fault  fault
	name   string
	action proxy.Action
}{
	{lost, "reply lost", proxy.DropReply},
	{reset, "connection reset", proxy.ResetBefore},
	{stalled, "stalled", proxy.Stall},
}

var times = []struct {
	times proxy.Times
	name  string
}{
	{proxy.First, "first"},
	{proxy.Second, "second"},
	{proxy.EveryTime, "every time"},
}

// cellLease is the lease of the victim. It is long enough for a cell on a busy machine.
const cellLease = 6 * time.Second

// deadline is the deadline of a call whose command is stalled: too short to notice that the connection is silent.
const deadline = 450 * time.Millisecond

// An operation is one row of the matrix. A cell runs it twice, and the fault hits the first command that it sends,
// the first command of the second run, or every command.
type operation struct {
	name     string
	verb     string        // of the script that the fault hits
	fixed    time.Duration // the lease of the holds; 0: they are renewed
	patience time.Duration // of the ctx when nothing is stalled; 0: it does not end
	highest  int           // the highest hold count that the server may ever have
	free     time.Duration // after which others can take the lock when the victim holds nothing; 0: half the lease
	single   bool          // it runs once, and sends two commands
	owners   bool          // only for locks that have owners
	apart    bool          // it works on one lock at a time, even where one call takes several
	brief    bool          // it is short of time where it is hit on every attempt
	// It reports or changes what a lock says of its holders, or sends one command for each of several locks.
	told    bool
	skip    func(k kit.Kind) bool
	prepare func(c *cell)
	do      []act
	// What it returns when it is hit, as ClassOf names it; alternatives are separated by a bar.
	lost, reset, stalled outcomes
	// What it returns in any case, if that depends on the kind.
	always func(k kit.Kind) string
}

// An act runs an operation; hit is the fault that hits it.
type act func(c *cell, ctx context.Context, hit fault) error

// outcomes has the outcome of an operation that is hit once, and of one that is hit on every attempt.
type outcomes struct{ once, every string }

// unhit is the fault of a round in which nothing happens.
const unhit fault = -1

func (o *operation) want(k kit.Kind, hit fault, n proxy.Times) string {
	if o.always != nil && o.always(k) != "" {
		return o.always(k)
	}
	if hit == unhit {
		return "done"
	}
	w := [...]outcomes{o.lost, o.reset, o.stalled}[hit]
	if n == proxy.EveryTime {
		return w.every
	}
	return w.once
}

// A place is one in the matrix: the cell that is there.
type place struct {
	op           operation
	kind         kit.Kind
	fault, times int
}

// repeats reports whether another cell does for the one at this place: it sends the same in the same state.
func (p place) repeats() bool {
	again := times[p.times].times == proxy.Second
	switch {
	case p.op.always != nil && p.op.always(p.kind) != "": // nothing is sent that a fault could hit
		return p.fault > 0 || p.times > 0
	case p.kind.Polls, strings.HasSuffix(p.kind.Name, "non-reentrant"): // they differ from others in how they are taken
		return p.op.verb != "acquire" || again
	}
	return again && p.op.highest == 1 && !p.op.single // unless holds are nested, the second time is like the first
}

// With HOLDFAST_STRESS the cells that repeat others are played as well.
func TestEveryOperationUnderEveryFault(t *testing.T) {
	var places []place
	for _, op := range operations {
		for _, k := range kit.OnOneServer() {
			if k.Twin || k.Permits && op.owners || k.Several && op.told || k.Together && op.apart || op.skip != nil &&
				op.skip(k) {
				continue
			}
			for f := range faults {
				for n := range times {
					if p := (place{op, k, f, n}); !p.repeats() || kit.Stressed(0, 1) > 0 {
						places = append(places, p)
					}
				}
			}
		}
	}
	const atOnce = 16
	servers := kit.NewStock(t, atOnce)
	kit.InParallel(t, atOnce, places, func(p place) string {
		return fmt.Sprintf("%s/%s/%s/%s", p.op.name, p.kind.Name, faults[p.fault].name, times[p.times].name)
	}, func(t *testing.T, p place) {
		f := faults[p.fault]
		p.op.run(t, servers, p.kind, f.fault, f.action, times[p.times].times)
	})
}

func (o *operation) run(t *testing.T, servers *kit.Stock, k kit.Kind, f fault, a proxy.Action, n proxy.Times) {
	c := newCellOn(t, servers.Borrow, k, f, cellLease, o.fixed)
	if o.prepare != nil {
		o.prepare(c)
	}
	for _, do := range o.do {
		c.rule = c.proxy.On(kit.ScriptOf(k, o.verb), a, n)
		for round := range 2 {
			hit := unhit
			if n == proxy.EveryTime || int(n) == round+1 || o.single {
				hit = f
			}
			still := kit.Stillness()
			err := o.play(c, do, hit, n)
			want := o.want(k, hit, n)
			require.True(t, slices.Contains(strings.Split(want, "|"), kit.ClassOf(err)) || outOfTime(err, still),
				"round %d: %v, not %s", round+1, err, want)
			c.deliver()
			if o.verb != "release" { // for a release the fault goes on
				c.agrees()
			}
			c.believes()
			if o.over(c, n) {
				break
			}
		}
		c.rule.Remove()
	}
	o.finish(c)
}

// play runs the operation once.
func (o *operation) play(c *cell, do act, hit fault, n proxy.Times) error {
	once := func() error {
		ctx, cancel := o.context(hit, n)
		defer cancel()
		return do(c, ctx, hit)
	}
	if hit != stalled {
		return once()
	}
	return untilSent(c.rule, once)
}

// untilSent makes a call that a rule stalls, and again where its deadline came before the command was sent: the machine
// may stand still, or a connection be made anew, or what the last fault has left may have the owner's turn.
func untilSent(stalls *proxy.Rule, call func() error) (err error) {
	before := stalls.Matched()
	for end := time.Now().Add(kit.LongestWait); time.Now().Before(end); {
		if err = call(); kit.ClassOf(err) != "deadline" || stalls.Matched() > before {
			break
		}
	}
	return err
}

// outOfTime reports whether a call ended as it did because this process stood still meanwhile. Where it did for longer
// than a stalled call has, what was under way could not be repeated any more, or was not even sent; and where it did
// for a third of the lease, a fault beside it costs a hold.
func outOfTime(err error, still func() time.Duration) bool {
	unknown := errors.Is(err, holdfast.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
	return unknown && still() > deadline || errors.Is(err, holdfast.ErrLost) && still() > cellLease/3
}

func (o *operation) context(hit fault, n proxy.Times) (context.Context, context.CancelFunc) {
	switch {
	case hit == unhit: // it takes as long as it takes
	case hit == stalled || o.brief && n == proxy.EveryTime:
		return context.WithTimeout(context.Background(), deadline)
	case o.patience > 0:
		return context.WithTimeout(context.Background(), o.patience)
	}
	return context.WithCancel(context.Background())
}

// over reports that there is no second run, because the prepared hold is lost or because a release that never gets
// through takes too much of the lease.
func (o *operation) over(c *cell, n proxy.Times) bool {
	return o.single || o.verb == "renew" && len(c.holds) == 0 || o.verb == "release" && n == proxy.EveryTime
}

// finish checks what is left when the fault is over: exactly the holds that the victim believes in, and after their
// release nothing.
func (o *operation) finish(c *cell) {
	c.agrees()
	c.believes()
	for len(c.holds) > 0 {
		c.returned()
	}
	free := o.free
	if free == 0 {
		free = c.lease / 2
	}
	c.theyTakeIt(free)
	if c.fault == stalled {
		c.rule.WaitAnswered(c, c.rule.Count()) // late, but delivered
	}
	c.settled()
	require.LessOrEqual(c, c.monitor.Highest(c, kit.Orders), o.highest)
	c.tokensIncrease()
	if !c.closed {
		require.NoError(c, c.victim.Close())
	}
	c.settled()
}
