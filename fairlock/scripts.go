package fairlock

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
)

var (
	acquireScript = script.Load("fairlock_acquire")
	releaseScript = script.Load("fairlock_release")
	leaveScript   = script.Load("fairlock_leave")
	forceScript   = script.Load("fairlock_force")
)

// What fairlock_acquire and fairlock_release take for each of their last arguments that is missing.
var (
	usualTake   = [...]string{"30000", "" /* the two names */, "", "1", "15000", "300000", "PUBLISH", "0", "0", ""}
	usualReturn = [...]string{"30000", "" /* as above */, "", "0", "300000", "PUBLISH", "1"}
)

// protocol is how the core calls the lock's scripts.
type protocol Mutex

func (p *protocol) lock() *core.Lock { return (*Mutex)(p).lock() }

// call begins a call with the keys that all scripts of the queue take.
func (p *protocol) call(s *script.Script) *script.Call { return script.NewCall(s).Key(p.keys[:]...) }

// passing adds the arguments that scripts need to pass the lock on.
func (p *protocol) passing(c *script.Call) *script.Call {
	l := p.lock()
	return c.Arg(p.javaWait, l.Publish(), l.Channel, p.sessions(), l.Session().Counting())
}

// derived are the names that scripts make of the key if they are not given them.
func (p *protocol) derived() (channel, told string) {
	return p.lock().Derived(p.lock().Channel), p.lock().Derived(p.sessions())
}

// sessions is where they are told, when a session is appended.
func (p *protocol) sessions() string { return p.told[:len(p.told)-len(p.lock().Session().ID())] }

func (p *protocol) Acquire(w kind.Want) *script.Call {
	wait, grant := "0", int64(0)
	if w.Stand {
		wait = p.wait
	}
	if w.Hears {
		grant = lease.Grant(p.lock().Length()).Milliseconds()
	}
	c, usual := p.call(acquireScript), usualTake
	usual[1], usual[2] = p.derived()
	if p.token != "" && !w.Tokened {
		c.Key(p.token)
	}
	return c.Arg(w.Owner).Int(w.NotAfter).Optional(usual[:], w.Lease, p.lock().Channel, p.sessions(),
		strconv.Itoa(w.Target), wait, p.javaWait, p.lock().Publish(), strconv.FormatInt(grant, 10), w.Copy(), p.tokenTTL)
}

func (p *protocol) Release(r kind.Remaining) *script.Call {
	l, usual := p.lock(), usualReturn
	usual[1], usual[2] = p.derived()
	return p.call(releaseScript).Arg(r.Owner).Optional(usual[:], l.Millis(), l.Channel, p.sessions(),
		strconv.Itoa(r.Count), p.javaWait, l.Publish(), l.Session().Counting())
}

func (p *protocol) Leave(owner string) *script.Call {
	return p.passing(p.call(leaveScript).Arg(owner)).Arg(p.lock().Millis())
}

// WaiterLease is how long a dead waiter stays in the queue.
func (p *protocol) WaiterLease() time.Duration { return p.opts.WaiterLease }

// What may have happened to a waiter's place in the queue.
const (
	placeNew      = 1 // at the end
	placeRegained = 2 // others had dropped the waiter
)

// Moved logs that a waiter has lost its place, or others have tried to take it.
func (p *protocol) Moved(place int64, stood bool) {
	l := p.lock()
	log := l.Session().Logger()
	switch {
	case place == placeNew && stood:
		log.Warn("holdfast: taken for dead, queued up anew", "kind", l.Title(), "name", l.Name, "lease", p.opts.WaiterLease)
	case place == placeRegained:
		log.Warn("holdfast: dropped from the queue, back in place", "kind", l.Title(), "name", l.Name)
	}
}

// Channel is where a session is told that one of its calls has the lock.
func (p *protocol) Channel() string { return p.told }

// Wait makes a waiter listen where its session hears that it has the lock. Redisson, and sessions that are not told
// there, tell each waiter on a channel of its own.
func (p *protocol) Wait(place *wait.Place, owner string, others bool) { //nolint:revive // no control: it is so
	if owner == "" { // a re-entry, to which nothing is handed
		return
	}
	own, anew := p.lock().Channel+owner, place.Expect(p.told, owner)
	hears := p.lock().Session().Subscribed(p.told)
	if anew && hears { // since it has asked
		place.Wake()
	}
	if others || !hears {
		place.Listen(own)
	} else {
		place.ListenLater(own, settled)
	}
}

// settled is when a waiter listens to Redisson anyway, and looks: its forceUnlock may have taken the lock from a holder
// that is not of Redisson. As long as a lock passes on quickly, nobody need.
const settled = time.Second

func (p *protocol) Renewal() *script.Script { return kind.RenewScript }

func (p *protocol) Renew(c *script.Call, owner string) { c.Key(p.lock().Key()).Arg(owner) }

func (p *protocol) Proof(owner string) kind.Proof {
	return kind.Proof{Key: p.lock().Key(), As: kind.Field, Owner: owner}
}

// On is the same lock of another session.
func (p *protocol) On(s *session.Session) *core.Lock {
	return New((*holdfast.Session)(s), p.lock().Name, &p.opts).lock()
}

func (p *protocol) Trim(t kind.Trim) *script.Call {
	return t.Call(kind.TrimScript, p.lock().Key(), t.Owner)
}

func (p *protocol) Holders(string) *script.Call {
	return script.NewCall(kind.HoldersScript).Key(p.lock().Key())
}

func (p *protocol) InTheWay() *script.Call { return p.Holders("") }

func (p *protocol) Force(w script.Window) *script.Call {
	return p.passing(p.call(forceScript)).Int(w.NotAfter)
}
