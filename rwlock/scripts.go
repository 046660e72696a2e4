package rwlock

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireReadScript  = script.Load("rwlock_acquire_read")
	acquireWriteScript = script.Load("rwlock_acquire_write")
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
	writers string     // the key of the writers that wait, if readers wait behind them; else ""
}

// force is the call that ends a half.
func (h *half) force(which string, w script.Window) *script.Call {
	return script.NewCall(forceScript).Key(h.lock.Key()).Arg(which, h.lock.Publish(), h.lock.Channel).Int(w.NotAfter)
}

// reader is how the core calls the scripts of the read half.
type reader struct{ half }

func (p *reader) Acquire(w core.Want) *script.Call {
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

func (p *reader) Release(r core.Remaining) *script.Call {
	c := script.NewCall(releaseReadScript).Key(p.lock.Key())
	for number := range min(r.Count+1, mostNamed) { // those that are left, and the one that goes
		c.Key(wire.ReadHold(p.lock.Key(), r.Owner, number+1))
	}
	return c.Arg(r.Owner, strconv.Itoa(r.Count), strconv.Itoa(r.Ceiling), lease.Millis(max(r.Lease, lease.Min))).
		Arg(p.lock.Publish(), p.lock.Channel)
}

// Wait makes all waiting readers look after a message, because all of them may have the lock.
func (p *reader) Wait(place *wait.Place, _ string, _ bool) { place.Share().Listen(p.lock.Channel) }

func (p *reader) Renewal() *script.Script { return renewReadScript }

func (p *reader) Renew(c *script.Call, owner string) {
	c.Key(p.lock.Key(), wire.ReadHold(p.lock.Key(), owner, 1)).Arg(owner)
}

func (p *reader) Force(w script.Window) *script.Call { return p.force(read, w) }

func (p *reader) Trim(t core.Trim) *script.Call { return t.Call(trimReadScript, p.lock.Key(), t.Owner) }

func (p *reader) Holders(owner string) *script.Call {
	return script.NewCall(holdersScript).Key(p.lock.Key()).Arg(read, owner)
}

// writer is how the core calls the scripts of the write half.
type writer struct{ half }

func (p *writer) Acquire(w core.Want) *script.Call {
	c := script.NewCall(acquireWriteScript).Key(p.lock.Key())
	if p.writers != "" {
		c.Key(p.writers)
	}
	wait := "0"
	if w.Stand {
		wait = writerMillis
	}
	return c.Arg(w.Owner, strconv.Itoa(w.Target), w.Lease).Int(w.NotAfter).Arg(wait)
}

func (p *writer) Release(r core.Remaining) *script.Call {
	return script.NewCall(releaseWriteScript).Key(p.lock.Key()).
		Arg(r.Owner, strconv.Itoa(r.Count), p.lock.Publish(), p.lock.Channel)
}

func (p *writer) Renewal() *script.Script { return core.RenewScript }

func (p *writer) Renew(c *script.Call, owner string) {
	c.Key(p.lock.Key()).Arg(wire.WriteOwner(owner))
}

func (p *writer) Force(w script.Window) *script.Call { return p.force(write, w) }

func (p *writer) Trim(t core.Trim) *script.Call {
	return t.Call(core.TrimScript, p.lock.Key(), wire.WriteOwner(t.Owner))
}

func (p *writer) Holders(owner string) *script.Call {
	return script.NewCall(holdersScript).Key(p.lock.Key()).Arg(write, owner)
}

// preferred is a writer behind which readers wait, so the server knows of it while it waits.
type preferred struct{ *writer }

// Leave gives back an acquisition behind which readers may wait.
func (p preferred) Leave(owner string) *script.Call {
	return p.Release(core.Remaining{Owner: owner}).Key(p.writers)
}

// WaiterLease is how long a dead writer keeps readers waiting.
func (p preferred) WaiterLease() time.Duration { return writerLease }

// Moved is told nothing: writers do not queue.
func (p preferred) Moved(int64, bool) {}
