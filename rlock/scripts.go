package rlock

import (
	"strconv"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	acquireScript = script.Load("rlock_acquire")
	releaseScript = script.Load("rlock_release")
	forceScript   = script.Load("rlock_force")

	together = core.Together{Acquire: script.Load("rlock_acquire_all"), Release: script.Load("rlock_release_all")}
)

// protocol is how the core calls the lock's scripts.
type protocol struct {
	mutex  core.Mutex
	lock   *core.Lock // its inside
	fenced bool
}

func (p *protocol) Acquire(w core.Want) *script.Call {
	c := script.NewCall(acquireScript).Key(p.lock.Key())
	if p.fenced && !w.Tokened {
		c.Key(wire.TokenKey(p.lock.Key()))
	}
	c.Arg(w.Owner, strconv.Itoa(w.Target), w.Lease).Int(w.NotAfter)
	if w.Age {
		c.Arg("age")
	}
	return c
}

func (p *protocol) Release(r core.Remaining) *script.Call {
	return script.NewCall(releaseScript).Key(p.lock.Key()).
		Arg(r.Owner, strconv.Itoa(r.Count), p.lock.Publish(), p.lock.Channel)
}

func (p *protocol) Renewal() *script.Script { return core.RenewScript }

func (p *protocol) Renew(c *script.Call, owner string) { c.Key(p.lock.Key()).Arg(owner) }

func (p *protocol) Trim(t core.Trim) *script.Call {
	return t.Call(core.TrimScript, p.lock.Key(), t.Owner)
}

func (p *protocol) Holders(string) *script.Call {
	return script.NewCall(core.HoldersScript).Key(p.lock.Key())
}

func (p *protocol) Force(w script.Window) *script.Call {
	return script.NewCall(forceScript).Key(p.lock.Key()).Arg(p.lock.Publish(), p.lock.Channel).Int(w.NotAfter)
}
