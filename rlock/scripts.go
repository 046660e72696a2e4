package rlock

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireScript = script.Load("rlock_acquire")
	standScript   = script.Load("rlock_stand")
	releaseScript = script.Load("rlock_release")
	forceScript   = script.Load("rlock_force")
	tokenScript   = script.LoadLook("rlock_token")

	usual = kind.Settings{Together: &together, HandsOver: true, Ages: true}

	together = kind.Together{
		Acquire: script.Load("rlock_acquire_all"), Release: script.Load("rlock_release_all"),
		Keys: func(key string) []string {
			keys := keysOf(key)
			return []string{key, keys[0], keys[1], keys[2]}
		},
	}
)

// What rlock_acquire and rlock_release take for each of their last arguments that is missing.
var (
	usualTake   = []string{"30000", "1", "", ""}
	usualReturn = [...]string{"30000", "" /* the channel */, "PUBLISH", "1", "0", ""}
)

// keysOf returns the further keys of a lock: its line, the waiters alive there, and the fencing token.
func keysOf(key string) [3]string {
	return [...]string{wire.Line(key), wire.LineAlive(key), wire.TokenKey(key)}
}

// protocol is how the core calls the lock's scripts.
type protocol struct {
	mutex                  Mutex
	text                   string // the names that it has on the server besides its key, see [wire.LineNames]
	channel, alive, tokens uint32 // where they end in it
	fenced                 bool
}

// name gives the lock its names, and returns its channel.
func (p *protocol) name(key, session string) string {
	text, channel, alive, tokens := wire.LineNames(key, session)
	p.text, p.channel, p.alive = text, uint32(channel), uint32(alive) //nolint:gosec // keys have at most 64 KiB
	p.tokens = uint32(tokens)                                         //nolint:gosec // as above
	return text[tokens+channel-wire.SessionSuffix+len(":"):]
}

// keys are those of the lock besides its own, as scripts take them.
func (p *protocol) keys() [3]string {
	return [...]string{p.text[:int(p.channel)-wire.SessionSuffix], p.text[p.channel:p.alive], p.token()}
}

func (p *protocol) token() string { return p.text[p.alive:p.tokens] }

// Mark is where sessions that listen on the lock's channel, but want no turn, listen as well.
func (p *protocol) Mark() string {
	line := int(p.channel) - wire.SessionSuffix
	return p.text[p.tokens:][:line+len(":"+wire.Redisson)]
}

func (p *protocol) lock() *core.Lock { return p.mutex.lock() }

func (p *protocol) Acquire(w kind.Want) *script.Call {
	c := script.NewCall(acquireScript).Key(p.lock().Key())
	if p.fenced && !w.Tokened {
		c.Key(p.token())
	}
	ttl := ""
	if d := p.lock().TokenTTL; d > 0 {
		ttl = lease.Millis(d)
	}
	return c.Arg(w.Owner).Int(w.NotAfter).Optional(usualTake, w.Lease, strconv.Itoa(w.Target), w.Age, ttl)
}

func (p *protocol) Release(r kind.Remaining) *script.Call {
	leave := ""
	if r.Leave != "" {
		leave = lined{p}.waiter(r.Leave)
	}
	return p.release(r.Owner, r.Count, leave)
}

// release is the call, which takes a waiter out of the line, too, if it is given.
func (p *protocol) release(owner string, count int, waiter string) *script.Call {
	keys, l, usual := p.keys(), p.lock(), usualReturn
	usual[1] = l.Derived(l.Channel)
	return script.NewCall(releaseScript).Key(l.Key()).Spare(keys[:]...).Arg(owner).Optional(usual[:],
		l.Millis(), l.Channel, l.Publish(), l.Session().Counting(), strconv.Itoa(count), waiter)
}

func (p *protocol) Renewal() *script.Script { return kind.RenewScript }

func (p *protocol) Renew(c *script.Call, owner string) { c.Key(p.lock().Key()).Arg(owner) }

func (p *protocol) Proof(owner string) kind.Proof {
	return kind.Proof{Key: p.lock().Key(), As: kind.Field, Owner: owner}
}

// On is the same lock of another session, for a hold: nobody takes the lock by it.
func (p *protocol) On(s *session.Session) *core.Lock {
	l := p.lock()
	return New((*holdfast.Session)(s), l.Name, &Options{FixedLease: l.FixedLease}).lock()
}

func (p *protocol) Trim(t kind.Trim) *script.Call {
	return t.Call(kind.TrimScript, p.lock().Key(), t.Owner).Spare(p.keys()[0]).Arg(p.lock().Publish())
}

func (p *protocol) Holders(string) *script.Call {
	return script.NewCall(kind.HoldersScript).Key(p.lock().Key())
}

func (p *protocol) InTheWay() *script.Call { return p.Holders("") }

func (p *protocol) Force(w script.Window) *script.Call {
	keys := p.keys()
	return script.NewCall(forceScript).Key(p.lock().Key()).Spare(keys[:]...).
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
	c, keys := script.NewCall(standScript).Key(p.lock().Key()), p.keys()
	if p.fenced {
		c.Key(keys[:]...)
	} else {
		c.Spare(keys[:2]...)
	}
	return c.Arg(p.waiter(w.Owner), w.Lease).Int(w.NotAfter).Int(waiterLease.Milliseconds()).Arg(w.Copy())
}

// waiter is how an owner stands in the line.
func (p lined) waiter(owner string) string { return owner + p.asks() }

// asks is a waiter's request.
func (p lined) asks() string {
	asks := " " + strconv.FormatInt(lease.Grant(p.lock().Length()).Milliseconds(), 10)
	if p.fenced {
		asks += " fenced"
	}
	if d := p.lock().TokenTTL; d > 0 {
		asks += ":" + lease.Millis(d)
	}
	return asks
}

// Leave takes an owner out of the line, and gives back whatever it may have been granted.
func (p lined) Leave(owner string) *script.Call {
	return p.release(owner, 0, p.waiter(owner))
}

func (p lined) WaiterLease() time.Duration { return waiterLease }

// Channel is where the session is told that it has the lock.
func (p lined) Channel() string { return p.text[:p.channel] }

// Kind is the lease of a request, since what is owed of one lasts as long, and what it asks for.
func (p lined) Kind() string { return p.lock().Millis() + p.asks() }

// Open is false: releases of this toolkit go to the first in the line.
func (p lined) Open() bool { return false }
