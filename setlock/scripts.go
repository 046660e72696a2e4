package setlock

import (
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/script"
)

var (
	acquireScript = script.Load("setlock_acquire")
	releaseScript = script.Load("setlock_release")
	renewScript   = script.Load("setlock_renew")
	holdersScript = script.LoadLook("setlock_holders")
	forceScript   = script.Load("setlock_force")
)

// What setlock_acquire and setlock_release take for each of their last arguments that is missing.
var (
	usualTake   = []string{"30000", "0", ""}
	usualReturn = [...]string{"" /* the channel */, "PUBLISH"}
)

// protocol is how the core calls the lock's scripts.
type protocol Mutex

func (p *protocol) lock() *core.Lock { return (*Mutex)(p).lock() }

func (p *protocol) Acquire(w kind.Want) *script.Call {
	return script.NewCall(acquireScript).Key(p.lock().Key()).Arg(w.Owner).Int(w.NotAfter).
		Optional(usualTake, w.Lease, w.Copy(), w.Age)
}

func (p *protocol) Release(r kind.Remaining) *script.Call {
	l, usual := p.lock(), usualReturn
	usual[0] = l.Derived(l.Channel)
	return script.NewCall(releaseScript).Key(l.Key()).Arg(r.Owner).Optional(usual[:], l.Channel, l.Publish())
}

func (p *protocol) Renewal() *script.Script { return renewScript }

func (p *protocol) Renew(c *script.Call, owner string) { c.Key(p.lock().Key()).Arg(owner) }

func (p *protocol) Proof(owner string) kind.Proof {
	return kind.Proof{Key: p.lock().Key(), As: kind.String, Owner: owner}
}

func (p *protocol) Holders(string) *script.Call {
	return script.NewCall(holdersScript).Key(p.lock().Key())
}

func (p *protocol) InTheWay() *script.Call { return p.Holders("") }

func (p *protocol) Force(w script.Window) *script.Call {
	l := p.lock()
	return script.NewCall(forceScript).Key(l.Key()).Arg(l.Publish(), l.Channel).Int(w.NotAfter)
}
