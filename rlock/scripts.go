package rlock

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireScript = script.Load("rlock_acquire")
	standScript   = script.Load("rlock_stand")
	releaseScript = script.Load("rlock_release")
	forceScript   = script.Load("rlock_force")
	tokenScript   = script.LoadLook("rlock_token")

	together = kind.Together{
		Acquire: script.Load("rlock_acquire_all"), Release: script.Load("rlock_release_all"),
		Keys: func(key string) []string {
			keys := keysOf(key)
			return []string{key, keys[0], keys[1], keys[2]}
		},
	}
)

// keysOf returns the further keys of a lock: its line, the waiters alive there, and the fencing token.
func keysOf(key string) [3]string {
	return [...]string{wire.Line(key), wire.LineAlive(key), wire.TokenKey(key)}
}

// protocol is how the core calls the lock's scripts.
type protocol struct {
	mutex    Mutex
	keys     [3]string // besides the lock's own, as scripts take them
	fenced   bool
	tokenTTL string // ms, as scripts take it; "": none
}

// Mark is where those listen besides who listen on the lock's channel and want no turn.
func (p *protocol) Mark() string { return wire.LineChannel(p.lock().Key()) + wire.Redisson }

func (p *protocol) lock() *core.Lock { return p.mutex.lock() }

func (p *protocol) Acquire(w kind.Want) *script.Call {
	c := script.NewCall(acquireScript).Key(p.lock().Key())
	if p.fenced && !w.Tokened {
		c.Key(p.keys[2])
	}
	c.Arg(w.Owner, strconv.Itoa(w.Target), w.Lease).Int(w.NotAfter)
	switch {
	case w.Age:
		c.Arg("age")
	case p.tokenTTL != "":
		c.Arg("")
	}
	if p.tokenTTL != "" {
		c.Arg(p.tokenTTL)
	}
	return c
}

func (p *protocol) Release(r kind.Remaining) *script.Call {
	return script.NewCall(releaseScript).Key(p.lock().Key()).Spare(p.keys[:]...).Arg(r.Owner, strconv.Itoa(r.Count)).
		Arg(p.lock().Publish(), p.lock().Channel, p.lock().Session().Counting(), p.lock().Millis())
}

func (p *protocol) Renewal() *script.Script { return kind.RenewScript }

func (p *protocol) Renew(c *script.Call, owner string) { c.Key(p.lock().Key()).Arg(owner) }

func (p *protocol) Proof(owner string) kind.Proof {
	return kind.Proof{Key: p.lock().Key(), As: kind.Field, Owner: owner}
}

func (p *protocol) Trim(t core.Trim) *script.Call {
	return t.Call(core.TrimScript, p.lock().Key(), t.Owner)
}

func (p *protocol) Holders(string) *script.Call {
	return script.NewCall(kind.HoldersScript).Key(p.lock().Key())
}

func (p *protocol) InTheWay() *script.Call { return p.Holders("") }

func (p *protocol) Force(w script.Window) *script.Call {
	return script.NewCall(forceScript).Key(p.lock().Key()).Spare(p.keys[:]...).
		Arg(p.lock().Publish(), p.lock().Channel, p.lock().Session().Counting()).Int(w.NotAfter)
}

// lined is a lock whose calls stand in its line while they wait.
type lined struct{ *protocol }

// waiterLease is how long a waiter is taken to be alive that does not call again.
const waiterLease = 15 * time.Second

func (p lined) Acquire(w kind.Want) *script.Call {
	if !w.Stand {
		return p.protocol.Acquire(w)
	}
	c := script.NewCall(standScript).Key(p.lock().Key())
	if p.fenced {
		c.Key(p.keys[:]...)
	} else {
		c.Spare(p.keys[:2]...)
	}
	again := "0"
	if w.Again {
		again = "1"
	}
	return c.Arg(p.waiter(w.Owner), w.Lease).Int(w.NotAfter).Int(waiterLease.Milliseconds()).Arg(again)
}

// waiter is how an owner stands in the line.
func (p lined) waiter(owner string) string { return owner + p.asks() }

// asks is a waiter's request.
func (p lined) asks() string {
	asks := " " + strconv.FormatInt(lease.Grant(p.lock().Length()).Milliseconds(), 10)
	if p.fenced {
		asks += " fenced"
	}
	if p.tokenTTL != "" {
		asks += ":" + p.tokenTTL
	}
	return asks
}

// Leave takes an owner out of the line, and gives back whatever it may have been granted.
func (p lined) Leave(owner string) *script.Call {
	return p.Release(kind.Remaining{Owner: owner}).Arg(p.waiter(owner))
}

func (p lined) WaiterLease() time.Duration { return waiterLease }

func (p lined) Standing() *wait.Standing {
	channel := wire.LineChannel(p.lock().Key())
	s := &wait.Standing{
		Channel: channel + p.lock().Session().ID(), Mark: p.Mark(),
		Kind: p.lock().Millis() + p.asks(), // what is owed of a request lasts as long as its lease
	}
	p.keys[0] = s.Channel[:len(channel)-1] // the line's key, in the same bytes
	return s
}

// Moved does nothing: the order is that of the line.
func (p lined) Moved(int64, bool) {}
