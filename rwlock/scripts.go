package rwlock

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireReadScript  = script.Load("rwlock_acquire_read")
	acquireWriteScript = script.Load("rwlock_acquire_write")
	standScript        = script.Load("rwlock_stand")
	releaseReadScript  = script.Load("rwlock_release_read")
	releaseWriteScript = script.Load("rwlock_release_write")
	renewReadScript    = script.Load("rwlock_renew_read")
	trimReadScript     = script.Load("rwlock_trim_read")
	holdersScript      = script.LoadLook("rwlock_holders")
	forceScript        = script.Load("rwlock_force")
)

// mostNamed is of how many read holds a release names the keys: what Lua can take from a list has a limit.
const mostNamed = 1000

// A half is what both have.
type half struct {
	mutex   core.Mutex
	lock    *core.Lock // its inside
	line    [3]string  // as scripts take it: whether some wait to write, who, and who of them is alive
	writers string     // the key of the waiting writers, if readers wait behind them; otherwise ""
}

// force is the call that ends a half.
func (h *half) force(which string, w script.Window) *script.Call {
	return script.NewCall(forceScript).Key(h.lock.Key()).Spare(h.line[:]...).
		Arg(which, h.lock.Publish(), h.lock.Channel, h.lock.Session().Counting()).Int(w.NotAfter)
}

// reader is how the core calls the scripts of the read half.
type reader struct{ half }

func (p *reader) Acquire(w kind.Want) *script.Call {
	c := script.NewCall(acquireReadScript).Key(p.lock.Key(), wire.ReadHold(p.lock.Key(), w.Owner, w.Target))
	if p.writers != "" {
		c.Key(p.writers)
	}
	nested := "0"
	if w.Nested {
		nested = "1"
	}
	return c.Arg(w.Owner, strconv.Itoa(w.Target), w.Lease).Int(w.NotAfter).Arg(nested)
}

func (p *reader) Release(r kind.Remaining) *script.Call {
	c := script.NewCall(releaseReadScript).Key(p.lock.Key())
	known := min(r.Count+1, mostNamed) // those that are left, and the one that goes
	for number := range known {
		c.Key(wire.ReadHold(p.lock.Key(), r.Owner, number+1))
	}
	return c.Spare(p.line[:]...).
		Arg(r.Owner, strconv.Itoa(r.Count), strconv.Itoa(r.Ceiling), lease.Millis(max(r.Lease, lease.Min))).
		Arg(p.lock.Publish(), p.lock.Channel, p.lock.Session().Counting(), strconv.Itoa(known))
}

// Wait makes all waiting readers look after a message, because all of them may have the lock.
func (p *reader) Wait(place *wait.Place, _ string, _ bool) { place.Share().Listen(p.lock.Channel) }

// Moved does nothing: readers are in no queue.
func (p *reader) Moved(int64, bool) {}

func (p *reader) Renewal() *script.Script { return renewReadScript }

func (p *reader) Renew(c *script.Call, owner string) {
	c.Key(p.lock.Key(), wire.ReadHold(p.lock.Key(), owner, 1)).Arg(owner)
}

func (p *reader) Force(w script.Window) *script.Call { return p.force(read, w) }

func (p *reader) Trim(t kind.Trim) *script.Call { return t.Call(trimReadScript, p.lock.Key(), t.Owner) }

func (p *reader) Holders(owner string) *script.Call {
	return script.NewCall(holdersScript).Key(p.lock.Key()).Arg(read, owner)
}

func (p *reader) InTheWay() *script.Call {
	return script.NewCall(holdersScript).Key(p.lock.Key()).Arg(write, "")
}

// writer is how the core calls the scripts of the write half. Its calls stand in a line while they wait.
type writer struct {
	half
	told string // the channel on which the session is told
}

// On is the same half of another session, for a hold: nobody takes the half by it.
func (p *writer) On(s *session.Session) *core.Lock {
	l := p.lock
	return New((*holdfast.Session)(s), l.Name, &Options{FixedLease: l.FixedLease}).write.lock
}

func (p *writer) Acquire(w kind.Want) *script.Call {
	if !w.Waits || w.Nested {
		return script.NewCall(acquireWriteScript).Key(p.lock.Key()).
			Arg(w.Owner, strconv.Itoa(w.Target), w.Lease).Int(w.NotAfter)
	}
	c := script.NewCall(standScript).Key(p.lock.Key())
	waiter, prefers := "", "0"
	if w.Stand {
		waiter = p.waiter(w.Owner)
	}
	if p.writers != "" {
		c.Key(p.writers)
		prefers = writerMillis
	}
	return c.Spare(p.line[:]...).Arg(w.Owner, w.Lease).Int(w.NotAfter).
		Arg(waiter, waiterMillis, p.lock.Publish(), p.lock.Session().Counting(), prefers)
}

// waiter is how an owner stands in the line.
func (p *writer) waiter(owner string) string { return owner + " 1" }

func (p *writer) Release(r kind.Remaining) *script.Call {
	return p.release(script.NewCall(releaseWriteScript).Key(p.lock.Key()), r)
}

func (p *writer) release(c *script.Call, r kind.Remaining) *script.Call {
	return c.Spare(p.line[:]...).
		Arg(r.Owner, strconv.Itoa(r.Count), p.lock.Publish(), p.lock.Channel, p.lock.Session().Counting())
}

// Leave takes an owner out of the line, and gives back whatever it may have been granted.
func (p *writer) Leave(owner string) *script.Call {
	c := script.NewCall(releaseWriteScript).Key(p.lock.Key())
	if p.writers != "" {
		c.Key(p.writers)
	}
	p.release(c, kind.Remaining{Owner: owner}).Arg(p.waiter(owner))
	if p.writers != "" {
		c.Arg("1")
	}
	return c
}

func (p *writer) WaiterLease() time.Duration { return waiterLease }

// Channel is where the session is told that it may look.
func (p *writer) Channel() string { return p.told }

// Mark is nowhere: Redisson's waiters are told otherwise.
func (p *writer) Mark() string { return "" }

// Kind is the same for requests of which what is owed lasts as long.
func (p *writer) Kind() string { return p.writers + p.lock.Millis() }

// Open is false: readers and Redisson's writers are no reason to listen always.
func (p *writer) Open() bool { return false }

func (p *writer) Renewal() *script.Script { return kind.RenewScript }

func (p *writer) Renew(c *script.Call, owner string) {
	c.Key(p.lock.Key()).Arg(wire.WriteOwner(owner))
}

func (p *writer) Proof(owner string) kind.Proof {
	return kind.Proof{Key: p.lock.Key(), As: kind.Field, Owner: wire.WriteOwner(owner)}
}

func (p *writer) Force(w script.Window) *script.Call { return p.force(write, w) }

func (p *writer) Trim(t kind.Trim) *script.Call {
	return t.Call(kind.TrimScript, p.lock.Key(), wire.WriteOwner(t.Owner))
}

func (p *writer) Holders(owner string) *script.Call {
	return script.NewCall(holdersScript).Key(p.lock.Key()).Arg(write, owner)
}

// InTheWay asks for all: writers wait for readers, too.
func (p *writer) InTheWay() *script.Call {
	return script.NewCall(holdersScript).Key(p.lock.Key()).Arg("", "")
}
