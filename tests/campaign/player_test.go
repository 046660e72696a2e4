package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A part is what a process of a round needs to know.
type part struct {
	Round     round
	First     int // of its clients
	Addrs     []string
	MasterSet string
	Red       []string // servers of the RedLock
	Dawn      time.Duration
}

// player is a process whose clients do at random what the toolkit offers, until it is asked to end.
func player(args []string) {
	var p part
	kit.Must(json.Unmarshal([]byte(args[0]), &p))
	var sessions []*holdfast.Session
	open := func(option rueidis.ClientOption, acks holdfast.Acks) *holdfast.Session {
		for {
			s, err := holdfast.Open(option, &holdfast.Options{Lease: p.Round.Lease, Label: "campaign", Acks: acks})
			if err == nil {
				sessions = append(sessions, s)
				return s
			}
			select { // a stroke may be in the way
			case <-worker.Stopped():
				kit.Must(err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	server := rueidis.ClientOption{InitAddress: p.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: p.MasterSet}}
	var acks holdfast.Acks
	if p.Round.Acks {
		acks = holdfast.AcksAll
	}
	own, other := open(server, acks), open(server, acks)
	var red []*holdfast.Session
	for _, addr := range p.Red {
		red = append(red, open(rueidis.ClientOption{InitAddress: []string{addr}}, 0))
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-worker.Stopped()
		cancel()
	}()
	var wg sync.WaitGroup
	for i := range clientsEach {
		c := &client{
			part: &p, number: p.First + i, session: own, other: other, red: red, ctx: ctx,
			random: rand.New(rand.NewPCG(p.Round.Seed, uint64(p.Round.Number*1000+p.First+i))), //nolint:gosec // see plan
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				c.play(p.Round.Objects[c.random.IntN(len(p.Round.Objects))])
				c.pause(20 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	for _, s := range sessions {
		_ = s.Close() // what it cannot give back ends with its lease
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	kit.Say(event{
		At: worker.Now(), Client: p.First, What: left, Text: kit.GoroutinesLeft(5 * time.Second),
		Count: int(memory.HeapAlloc >> 20),
	})
}

// A client does one thing after the other.
type client struct {
	*part
	number         int
	session, other *holdfast.Session
	red            []*holdfast.Session
	ctx            context.Context // of all that it does
	random         *rand.Rand
	grants         atomic.Int64
}

func (c *client) tell(e event) {
	e.Client = c.number
	if e.At == 0 {
		e.At = worker.Now()
	}
	kit.Say(e)
}

// chance is true once in n times.
func (c *client) chance(n int) bool { return c.random.IntN(n) == 0 }

func (c *client) upTo(d time.Duration) time.Duration { return time.Duration(c.random.Int64N(int64(d))) }

func (c *client) pause(most time.Duration) { pause(c.ctx, c.upTo(most)) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// work holds for a while: in most cases shortly, sometimes longer than a lease.
func (c *client) work(ctx context.Context) {
	if c.chance(15) {
		pause(ctx, c.upTo(2*c.Round.unit()))
		return
	}
	pause(ctx, c.upTo(15*time.Millisecond))
}

// play does one thing with an object.
func (c *client) play(o object) {
	switch o.Kind {
	case "semaphore":
		c.count(o)
	case "latch":
		c.latch(o)
	case "leader":
		c.lead(o)
	case "permits":
		e := c.permits(c.session, o)
		c.hold(o, false, e.TryAcquire, e.TryAcquireFor, e.Acquire, nil)
	case "rwlock":
		reads := !c.chance(3)
		l := half(rwlock.New(c.session, o.Name, nil), reads)
		c.hold(o, reads, l.TryLock, l.TryLockFor, l.Lock, l)
	case "several":
		if c.chance(2) {
			o = o.parts()[c.random.IntN(2)]
			l := c.lock(o)
			c.hold(o, false, l.TryLock, l.TryLockFor, l.Lock, l)
			return
		}
		parts := o.parts()
		m := multilock.New(c.lock(parts[0]), c.lock(parts[1]))
		c.hold(o, false, m.TryLock, m.TryLockFor, m.Lock, nil)
	case "redlock":
		var members []holdfast.Locker
		for _, s := range c.red {
			members = append(members, rlock.New(s, o.Name, nil))
		}
		m := multilock.NewRedLock(members, &multilock.RedLockOptions{ServerTimeout: c.Round.Lease / 5})
		c.hold(o, false, m.TryLock, m.TryLockFor, m.Lock, nil)
	default:
		l := c.lock(o)
		c.hold(o, false, l.TryLock, l.TryLockFor, l.Lock, l)
	}
}

func half(m *rwlock.RWMutex, reads bool) kit.Locker {
	if reads {
		return m.Read()
	}
	return m.Write()
}

func (c *client) permits(s *holdfast.Session, o object) *semaphore.Expirable {
	return semaphore.NewExpirable(s, o.Name, nil)
}

// lock makes a lock of the client's session, now and then with a fixed lease.
func (c *client) lock(o object) kit.Locker {
	var fixed time.Duration
	if c.chance(4) {
		fixed = c.Round.Lease/4 + c.upTo(c.Round.Lease/2)
	}
	switch o.Kind {
	case "setlock":
		return setlock.New(c.session, o.Name, &setlock.Options{FixedLease: fixed})
	case "fairlock", "fairlock fenced":
		return fairlock.New(c.session, o.Name, &fairlock.Options{
			FixedLease: fixed, Fenced: o.thing().fenced, JavaWait: time.Second, WaiterLease: c.Round.Lease,
		})
	}
	return rlock.New(c.session, o.Name, &rlock.Options{FixedLease: fixed, Fenced: o.thing().fenced})
}

// hold asks for a lock or a permit in one of the ways that there are. It does this and that while it has it.
func (c *client) hold(o object, shares bool,
	try func(context.Context) (*holdfast.Hold, error),
	tryFor func(context.Context, time.Duration) (*holdfast.Hold, error),
	wait func(context.Context) (*holdfast.Hold, error),
	l kit.Locker,
) {
	ctx, cancel := context.WithTimeout(c.ctx, c.patience())
	defer cancel()
	grant := int(c.grants.Add(1))
	asked := event{What: asks, Asked: worker.Now(), Object: o, Grant: grant, Shares: shares, Count: 1}
	var h *holdfast.Hold
	var err error
	switch c.random.IntN(5) {
	case 0:
		h, err = try(ctx) // it does not wait
	case 1:
		c.tell(asked)
		h, err = tryFor(ctx, c.upTo(300*time.Millisecond))
	default:
		c.tell(asked)
		h, err = wait(ctx)
	}
	if err != nil {
		c.refused(asked, err)
		return
	}
	at := worker.Now()
	if err := h.Err(); err != nil { // the process may have been stopped since the call had it
		c.refused(asked, err)
		c.complain(o, h.Release())
		return
	}
	b := c.believe(asked, h, at)
	c.use(b, o, l)
	if o.Kind == "permits" && c.chance(10) {
		c.detach(b)
		return
	}
	b.release()
}

// patience is how long a call may take: sometimes hardly at all.
func (c *client) patience() time.Duration {
	switch c.random.IntN(20) {
	case 0:
		return c.upTo(3 * time.Millisecond)
	case 1, 2, 3:
		return 30 * time.Second
	}
	return c.upTo(3 * time.Second)
}

// refused tells how a call that got nothing ended.
func (c *client) refused(asked event, err error) {
	asked.What, asked.At, asked.Text = refused, 0, kit.ClassOf(err)
	c.tell(asked)
	c.complain(asked.Object, err)
}

// complain tells of an error that nobody can explain.
func (c *client) complain(o object, err error) {
	switch text := kit.ClassOf(err); {
	case slices.Contains([]string{"already held", "deadlock", "closed"}, text): // nobody has made such a mistake
		c.tell(event{What: strange, Object: o, Text: text})
	case !strings.HasPrefix(text, "other: ") || errors.Is(err, holdfast.ErrNoReply) ||
		errors.Is(err, holdfast.ErrNotAcknowledged):
	case explained(err):
		c.tell(event{What: excused, Object: o, Text: text})
	default:
		c.tell(event{What: strange, Object: o, Text: text})
	}
}

// explained reports whether an error is one that a stroke of the nemesis explains: a connection that ended, or a server
// that refused, or has not said what became of a trim.
func explained(err error) bool {
	for _, words := range []string{
		"connection", "dial tcp", "read tcp", "write tcp", "i/o timeout", "EOF", "too late", "OOM", "LOADING", "MASTERDOWN",
		"READONLY", "CLUSTERDOWN", "NOPERM", "can't run this command", "ACL failure", "TRYAGAIN", "NOREPLICAS",
		"no master", "slot",
		"more than half", "rueidis client is closing", "MISCONF", "UNBLOCKED", "MOVED", "ASK", "does not have it",
		"has started within a lease", "makes the lease shorter may be under way",
		"has not answered in time", "too little of the lease is left",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// A belief is a hold, and a goroutine that asks it again and again whether it is held.
type belief struct {
	*client
	event
	hold *holdfast.Hold
	stop chan struct{}
	done chan struct{}
}

// believe begins to tell for how long a hold says that it is held, as it said after that moment.
func (c *client) believe(asked event, h *holdfast.Hold, at time.Duration) *belief {
	asked.What, asked.At, asked.Token = has, at, h.Token()
	b := &belief{client: c, event: asked, hold: h, stop: make(chan struct{}), done: make(chan struct{})}
	c.tell(b.event)
	go b.watch()
	return b
}

// watch asks the hold and its context, and says what they say.
func (b *belief) watch() {
	defer close(b.done)
	ctx := b.hold.Context(context.Background())
	var said, last time.Duration
	say := func(what string, at time.Duration, text string) {
		e := b.event
		e.What, e.At, e.Text = what, at, text
		b.tell(e)
		said = at
	}
	for ended := false; !ended; {
		select {
		case <-b.stop:
			ended = true
		case <-time.After(4 * time.Millisecond):
		}
		at := worker.Now()
		err := b.hold.Err()
		if err == nil {
			if last = at; last-said > 20*time.Millisecond || ended {
				say(still, last, "")
			}
			continue
		}
		if ctx.Err() == nil {
			say(strange, worker.Now(), "a hold says "+err.Error()+", and its context nothing")
		}
		if last > said {
			say(still, last, "")
		}
		say(over, worker.Now(), kit.ClassOf(err))
		if !ended {
			<-b.stop
		}
		return
	}
}

// rest stops asking.
func (b *belief) rest() {
	close(b.stop)
	<-b.done
}

// release gives the hold back.
func (b *belief) release() {
	b.rest()
	err := b.hold.Release()
	e := b.event
	e.What, e.At, e.Text = released, 0, kit.ClassOf(err)
	b.tell(e)
	if errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrLost) {
		b.tell(event{What: strange, Object: b.Object, Text: "released once: " + err.Error()})
	}
	b.complain(b.Object, err)
}

// use does some things under a hold.
func (c *client) use(b *belief, o object, l kit.Locker) {
	for range c.random.IntN(4) {
		ctx := b.hold.Context(c.ctx) // it may have been handed over
		switch c.random.IntN(8) {
		case 0:
			if l != nil && o.Kind != "setlock" { // nested, with a longer or a shorter lease
				nested := l
				if o.Kind != "rwlock" {
					nested = c.lock(o)
				}
				if h, err := nested.TryLock(ctx); err == nil {
					c.work(ctx)
					c.complain(o, h.Release())
				} else {
					c.complain(o, err)
				}
			}
		case 1: // for longer, or shorter
			c.complain(o, b.hold.Extend(ctx, c.Round.Lease/2+c.upTo(c.Round.Lease/2)))
		case 2:
			if l != nil && o.Kind != "setlock" && !b.Shares { // a setlock is adopted; readers stay
				c.handOver(b)
			}
		case 3:
			if l != nil {
				_, err := l.RemainingLease(ctx)
				c.complain(o, err)
				_, err = l.Holders(ctx)
				c.complain(o, err)
			}
		case 4:
			if o.thing().forced {
				c.force(o, l)
			}
		default:
			c.work(ctx)
		}
	}
}

// handOver hands the hold over to the process's other session, which has it from then on.
func (c *client) handOver(b *belief) {
	b.rest()
	h, err := b.hold.HandTo(c.ctx, c.other)
	c.complain(b.Object, err)
	if err == nil {
		b.hold = h
	}
	b.stop, b.done = make(chan struct{}), make(chan struct{})
	go b.watch()
}

// detach leaves a permit to its lease, and gives it back by its id a while later.
func (c *client) detach(b *belief) {
	b.rest()
	err := b.hold.Detach()
	b.tell(event{What: released, Object: b.Object, Grant: b.Grant, Text: kit.ClassOf(err)})
	c.complain(b.Object, err)
	c.work(c.ctx)
	c.complain(b.Object, c.permits(c.other, b.Object).Release(c.ctx, b.hold.ID()))
}

// force frees a lock by force, whoever has it.
func (c *client) force(o object, l kit.Locker) {
	c.tell(event{What: forces, Object: o})
	_, err := l.ForceUnlock(c.ctx)
	c.tell(event{What: forced, Object: o})
	c.complain(o, err)
}

// count takes permits that have no lease, and gives them back.
func (c *client) count(o object) {
	p := semaphore.New(c.session, o.Name)
	ctx, cancel := context.WithTimeout(c.ctx, c.patience())
	defer cancel()
	e := event{
		What: asks, Asked: worker.Now(), Object: o, Grant: int(c.grants.Add(1)), Count: 1 + c.random.IntN(4),
	}
	var err error
	if c.chance(3) {
		err = p.TryAcquire(ctx, e.Count)
	} else {
		c.tell(e)
		err = p.Acquire(ctx, e.Count)
	}
	if err != nil {
		c.refused(e, err)
		return
	}
	e.What, e.At = has, 0
	c.tell(e)
	c.work(c.ctx)
	e.What, e.At = released, 0
	c.tell(e) // before the call: from now on others may have them
	c.complain(o, p.Release(c.ctx, e.Count))
}

// latch waits at the latch of the moment, or counts it down; the campaign makes one for each period.
func (c *client) latch(o object) {
	period := int64((worker.Now() - c.Dawn) / latchPeriod)
	l := latch.New(c.session, latchName(o, period))
	e := event{Object: object{o.Kind, latchName(o, period)}, Grant: int(c.grants.Add(1))}
	if c.random.IntN(3) > 0 {
		e.What, e.Count = counts, 1
		c.tell(e)
		c.complain(o, l.CountDown(c.ctx))
		c.pause(latchPeriod / 4)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, 3*latest)
	defer cancel()
	if n, err := l.Count(ctx); err != nil || n == 0 {
		c.complain(o, err)
		return // it is open, or not yet made
	}
	e.What = waits
	c.tell(e)
	err := l.Wait(ctx)
	e.What, e.Text, e.At = opened, kit.ClassOf(err), 0
	c.tell(e)
	c.complain(o, err)
}

// latchPeriod is the time of one latch, latchCount what it begins with.
const (
	latchPeriod = 2 * time.Second
	latchCount  = 12
)

func latchName(o object, period int64) string { return fmt.Sprint(o.Name, " of period ", period) }

// lead leads for a while.
func (c *client) lead(o object) {
	ctx, cancel := context.WithTimeout(c.ctx, c.patience())
	defer cancel()
	e := event{What: asks, Asked: worker.Now(), Object: o, Grant: int(c.grants.Add(1)), Count: 1}
	c.tell(e)
	led := false
	err := leader.Run(ctx, c.session, o.Name, func(ctx context.Context) error {
		e := e
		e.What, e.At, e.Token = has, worker.Now(), leader.Term(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		led = true
		c.tell(e)
		for end := worker.Now() + c.upTo(200*time.Millisecond); ; pause(ctx, 4*time.Millisecond) {
			at := worker.Now()
			switch {
			case ctx.Err() != nil:
				e.What, e.At, e.Text = over, 0, kit.ClassOf(context.Cause(ctx))
				c.tell(e)
				return ctx.Err()
			case at > end:
				e.What, e.At = released, 0
				c.tell(e)
				return nil
			}
			e.What, e.At = still, at
			c.tell(e)
		}
	})
	if !led {
		e.What, e.At, e.Text = refused, 0, kit.ClassOf(err)
		c.tell(e)
	}
	c.complain(o, err)
}
