package scripts

import (
	"cmp"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// These are for an rlock.

// acquire is for an rlock.
type acquire struct {
	key    string // default: x
	target int    // default: 1
	lease  string // default: 30 s
	late   bool
	fenced bool
	asks   string // for the server's age
	ttl    string // of the token
	short  bool   // without the arguments that may be missing
}

func (a acquire) call() call {
	c := call{
		script: "rlock_acquire", keys: []string{cmp.Or(a.key, lockKey)},
		args: []string{me, notAfter(a.late), cmp.Or(a.lease, halfAMin), strconv.Itoa(max(a.target, 1))},
	}
	if a.fenced {
		c.keys = append(c.keys, tokenKey)
	}
	switch {
	case a.asks != "":
		c.args = append(c.args, a.asks)
	case a.ttl != "":
		c.args = append(c.args, "")
	}
	if a.ttl != "" {
		c.args = append(c.args, a.ttl)
	}
	if a.short {
		c.args = c.args[:2]
	}
	return c
}

// lineKeys are what the scripts take that pass an rlock on.
func lineKeys(name string) []string {
	return []string{name, wire.Line(name), wire.LineAlive(name), wire.TokenKey(name)}
}

// of is the call for the lock alone, if it is bare: while a slot moves, the other keys cannot be reached.
func (c call) of(bare bool) call {
	if bare {
		c.keys = c.keys[:1]
	}
	return c
}

// stand is for an rlock.
type stand struct {
	lease string // default: 30 s
	late  bool
	again bool
	token bool
	ttl   bool // of the token: a minute
	bare  bool // the slot moves
}

// waiter is how me stands in the line, waiterLease for how long it lives there without calling again.
const (
	waiter      = me + " 10000"
	waiterLease = "15000"
)

func (s stand) call() call {
	c := call{script: "rlock_stand", keys: lineKeys(lockKey)[:3], args: []string{
		waiter, cmp.Or(s.lease, halfAMin), notAfter(s.late), waiterLease, flag(s.again),
	}}
	if s.token {
		c.keys = append(c.keys, tokenKey)
	}
	if s.ttl {
		c.args[0] += " fenced:60000"
	}
	return c.of(s.bare)
}

// release is for an rlock.
type release struct {
	target    int
	unreached bool // who listens at other servers is not counted
	leaves    bool // the line, too
	bare      bool // the slot moves
	short     bool // without the arguments that may be missing
}

func (r release) call() call {
	c := call{"rlock_release", lineKeys(lockKey), []string{
		me, halfAMin, channel, publishes, flag(!r.unreached), strconv.Itoa(r.target),
	}}
	if r.leaves {
		c.args = append(c.args, waiter)
	}
	if r.short {
		c.args = c.args[:1]
	}
	return c.of(r.bare)
}

// force is for an rlock.
type force struct {
	late bool
	bare bool // the slot moves
}

func (f force) call() call {
	c := call{"rlock_force", lineKeys(lockKey), []string{publishes, channel, flag(true), notAfter(f.late)}}
	return c.of(f.bare)
}

// These are for several rlocks at once.

type acquireAll struct {
	leases []string // default: 30, 20 and 10 s
	late   bool
}

var allKeys = []string{lockKey, "y", "z"}

func (a acquireAll) call() call {
	leases := a.leases
	if leases == nil {
		leases = []string{halfAMin, "20000", "10000"}
	}
	return call{"rlock_acquire_all", allKeys[:len(leases)], append([]string{me, notAfter(a.late)}, leases...)}
}

type releaseAll struct{}

func (releaseAll) call() call {
	c := call{script: "rlock_release_all", args: []string{me, publishes, flag(true), "one", "two", "three"}}
	for _, key := range allKeys {
		c.keys = append(c.keys, lineKeys(key)...)
	}
	return c
}
