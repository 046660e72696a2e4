package scripts

import (
	"cmp"
	"strconv"

	"github.com/holdfast-go/holdfast/lua"
)

// These types are the arguments of the scripts. Only this file and calls_rlock_test.go know the order of a script's
// arguments; a row of a table names what matters to it, and the rest has the usual values.

// A call is one call of a script, as its header lists keys and arguments.
type call struct {
	script string
	keys   []string
	args   []string
}

// A caller makes a call.
type caller interface{ call() call }

func (c call) call() call { return c }

// eval is the command that makes a call on a server that does not have the script.
func eval(c caller) []string {
	made := c.call()
	command := append([]string{"EVAL", lua.Source(made.script), strconv.Itoa(len(made.keys))}, made.keys...)
	return append(command, made.args...)
}

// look is a call with keys and nothing else.
func look(script string, keys ...string) call { return call{script: script, keys: keys} }

const soon, past = "99999999999999", "1" // server ms, as a not-after

func notAfter(late bool) string {
	if late {
		return past
	}
	return soon
}

func notBefore(early bool) string {
	if early {
		return soon
	}
	return past
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// Owners and leases have these values unless a row says otherwise.
const (
	me        = "a:1"
	halfAMin  = "30000"
	publishes = "PUBLISH"
)

// renew is for any kind; by is the script.
type renew struct {
	by           string
	keys, owners []string
	lease        string // default: 30 s
}

func (r renew) call() call {
	return call{r.by, r.keys, append([]string{cmp.Or(r.lease, halfAMin)}, r.owners...)}
}

// trim is for any kind; by is the script.
type trim struct {
	by          string
	most        string
	early, late bool
	lined       bool // the lock has a line
}

func (t trim) call() call {
	c := call{t.by, []string{lockKey}, []string{me, t.most, notBefore(t.early), notAfter(t.late)}}
	if t.lined {
		c.keys, c.args = append(c.keys, lineKey), append(c.args, publishes)
	}
	return c
}

// forceSet is for a setlock.
type forceSet struct{ late bool }

func (f forceSet) call() call {
	return call{"setlock_force", []string{lockKey}, []string{publishes, setChannel, notAfter(f.late)}}
}

// These are for the halves of an rwlock.

type acquireRead struct {
	target int    // default: 1; it is also the number of the hold
	lease  string // default: 30 s
	late   bool
	nested bool
	behind bool // it waits behind writers
}

func (a acquireRead) call() call {
	target := max(a.target, 1)
	c := call{
		script: "rwlock_acquire_read", keys: []string{lockKey, readKey(me, target)},
		args: []string{me, strconv.Itoa(target), cmp.Or(a.lease, halfAMin), notAfter(a.late), flag(a.nested)},
	}
	if a.behind {
		c.keys = append(c.keys, rwWriters)
	}
	return c
}

type acquireWrite struct {
	target int    // default: 1
	lease  string // default: 30 s
	late   bool
}

func (a acquireWrite) call() call {
	return call{
		"rwlock_acquire_write",
		[]string{lockKey},
		[]string{me, strconv.Itoa(max(a.target, 1)), cmp.Or(a.lease, halfAMin), notAfter(a.late)},
	}
}

// standWrite has a place in the line of writers, unless it only looks.
type standWrite struct {
	lease string // default: 30 s
	late  bool
	looks bool
	ahead bool // it goes ahead of readers
	bare  bool // the slot moves
}

func (a standWrite) call() call {
	waiter, prefers := wantsToWrite, "0"
	if a.looks {
		waiter = ""
	}
	if a.ahead {
		prefers = "5000"
	}
	return call{
		"rwlock_stand", writeKeys(a.ahead, a.bare),
		[]string{me, cmp.Or(a.lease, halfAMin), notAfter(a.late), waiter, waiterLease, publishes, flag(true), prefers},
	}
}

// writeKeys are the lock and the line of writers.
func writeKeys(ahead, bare bool) []string {
	keys := []string{lockKey}
	if ahead {
		keys = append(keys, rwWriters)
	}
	if !bare {
		keys = append(keys, rwWaiting, rwLine, rwAlive)
	}
	return keys
}

type releaseRead struct {
	target, ceiling int
	lease           string // default: 10 ms
	also            int    // holds that are known besides the first
	bare            bool   // the slot moves
}

func (r releaseRead) call() call {
	c := call{script: "rwlock_release_read", keys: []string{lockKey}, args: []string{
		me, strconv.Itoa(r.target), strconv.Itoa(r.ceiling), cmp.Or(r.lease, "10"), publishes, rwChannel,
		flag(true), strconv.Itoa(1 + r.also),
	}}
	for i := range 1 + r.also {
		c.keys = append(c.keys, readKey(me, i+1))
	}
	if !r.bare {
		c.keys = append(c.keys, rwWaiting, rwLine, rwAlive)
	}
	return c
}

type releaseWrite struct {
	target    int
	leaves    bool // the line, too
	ahead     bool // and those behind whom readers wait
	bare      bool // the slot moves
	unreached bool // who listens at other servers is not counted
}

func (r releaseWrite) call() call {
	c := call{
		"rwlock_release_write", writeKeys(r.ahead, r.bare),
		[]string{me, strconv.Itoa(r.target), publishes, rwChannel, flag(!r.unreached)},
	}
	if r.leaves || r.ahead {
		c.args = append(c.args, wantsToWrite)
	}
	if r.ahead {
		c.args = append(c.args, "1")
	}
	return c
}

type forceHalf struct {
	half string
	late bool
	bare bool // the slot moves
}

func (f forceHalf) call() call {
	return call{
		"rwlock_force", writeKeys(false, f.bare), []string{f.half, publishes, rwChannel, flag(true), notAfter(f.late)},
	}
}

// These are for a setlock.

type acquireSet struct {
	key   string // default: x
	token string // default: a
	lease string // default: 30 s
	late  bool
	again bool   // a copy may have been executed
	asks  string // for the server's age
	short bool   // without the arguments that may be missing
}

func (a acquireSet) call() call {
	c := call{script: "setlock_acquire", keys: []string{cmp.Or(a.key, lockKey)}, args: []string{
		cmp.Or(a.token, "a"), notAfter(a.late), cmp.Or(a.lease, halfAMin), flag(a.again),
	}}
	if a.asks != "" {
		c.args = append(c.args, a.asks)
	}
	if a.short {
		c.args = c.args[:2]
	}
	return c
}

type releaseSet struct {
	publish string
	short   bool // without the arguments that may be missing
}

func (r releaseSet) call() call {
	c := call{"setlock_release", []string{lockKey}, []string{"a", setChannel, cmp.Or(r.publish, publishes)}}
	if r.short {
		c.args = c.args[:1]
	}
	return c
}

// These are for a latch.

type setLatch struct {
	count string // default: 2
	late  bool
}

func (s setLatch) call() call {
	args := []string{cmp.Or(s.count, "2"), publishes, latchChannel, notAfter(s.late)}
	return call{"latch_set", []string{lockKey}, args}
}

type countDown struct{}

func (countDown) call() call {
	return call{"latch_count_down", []string{lockKey}, []string{publishes, latchChannel}}
}

type deleteLatch struct{ late bool }

func (d deleteLatch) call() call {
	return call{"latch_delete", []string{lockKey}, []string{publishes, latchChannel, notAfter(d.late)}}
}

// These are for a semaphore.

// takePermits is for one that passes over whoever waits, unless it waits itself.
type takePermits struct {
	n         string
	late      bool
	waits     bool // behind others
	stands    bool // and has a place in the line
	unreached bool // who listens at other servers is not counted
	bare      bool // the slot moves
}

// asker is how me stands in the line of a semaphore, for 2 permits.
const asker = me + " 2"

func (p takePermits) call() call {
	c := call{"semaphore_acquire", lineKeys(lockKey)[:3], []string{p.n, notAfter(p.late)}}
	if !p.waits && !p.stands {
		return c.of(true)
	}
	waiter := ""
	if p.stands {
		waiter = asker
	}
	c.args = append(append(c.args, waiter, waiterLease), telling(p.unreached)...)
	return c.of(p.bare)
}

// telling is how those are told who wait for permits.
func telling(unreached bool) []string { return []string{publishes, scChannel, flag(!unreached)} }

type addPermits struct {
	n         string
	ifThere   bool
	unreached bool // as above
	bare      bool
}

func (p addPermits) call() call {
	args := append([]string{p.n, flag(!p.ifThere)}, telling(p.unreached)...)
	return call{"semaphore_add", lineKeys(lockKey)[:3], args}.of(p.bare)
}

type setPermits struct {
	n, ttl    string // default: 5, without an expiry
	unreached bool   // as above
}

func (p setPermits) call() call {
	args := append([]string{cmp.Or(p.n, "5"), cmp.Or(p.ttl, "0")}, telling(p.unreached)...)
	return call{"semaphore_set", lineKeys(lockKey)[:3], args}
}

type leavePermits struct{ unreached, bare bool }

func (p leavePermits) call() call {
	return call{"semaphore_leave", lineKeys(lockKey)[:3], append(telling(p.unreached), me)}.of(p.bare)
}

// These are for a semaphore whose permits have leases.

var permitKeys = []string{lockKey, permitsKey, lineKey, aliveKey}

// beside is the call for its first keys alone, if it is bare.
func (c call) beside(bare bool, keys int) call {
	if bare {
		c.keys = c.keys[:keys]
	}
	return c
}

// acquirePermits is for one that passes over whoever waits, unless it waits itself.
type acquirePermits struct {
	lease  string
	late   bool
	waits  bool // behind others
	stands bool // and has a place in the line
	bare   bool // the slot moves
	ids    []string

	unreached bool // who listens at other servers is not counted
}

func (p acquirePermits) call() call {
	args := append([]string{p.lease, notAfter(p.late)}, telling(p.unreached)...)
	waiter, wait := "", "0"
	if p.waits || p.stands {
		wait = waiterLease
	}
	if p.stands {
		waiter = me + " " + strconv.Itoa(len(p.ids))
	}
	args = append(append(args, waiter, wait), p.ids...)
	return call{"semaphore_acquire_expirable", permitKeys, args}.beside(p.bare, 2)
}

type releasePermits struct {
	publish string
	leaves  bool // the line, too
	bare    bool // the slot moves
	ids     []string

	unreached bool // as above
}

func (p releasePermits) call() call {
	owner := ""
	if p.leaves {
		owner = me
	}
	args := append([]string{cmp.Or(p.publish, publishes), scChannel, flag(!p.unreached), owner}, p.ids...)
	return call{"semaphore_release_expirable", permitKeys, args}.beside(p.bare, 2)
}

type updatePermit struct {
	lease       string
	early, late bool
}

func (p updatePermit) call() call {
	return call{
		"semaphore_update_expirable",
		[]string{permitsKey},
		[]string{p.lease, "a", notBefore(p.early), notAfter(p.late)},
	}
}

type leaseOfPermit struct{}

func (leaseOfPermit) call() call {
	return call{"semaphore_lease_expirable", []string{permitsKey}, []string{"a"}}
}

type countPermits struct{ unreached bool }

func (p countPermits) call() call {
	return call{"semaphore_count_expirable", permitKeys, telling(p.unreached)}
}

type growPermits struct {
	n         string
	unreached bool // as above
}

func (p growPermits) call() call {
	return call{"semaphore_add_expirable", lineKeys(lockKey)[:3], append([]string{p.n}, telling(p.unreached)...)}
}

type resizePermits struct {
	n       string
	late    bool
	onlyNew bool

	unreached bool // as above
}

func (p resizePermits) call() call {
	args := append(append([]string{p.n}, telling(p.unreached)...), notAfter(p.late))
	if p.onlyNew {
		args = append(args, "1")
	}
	return call{"semaphore_resize_expirable", permitKeys, args}
}

// expirePermits is for either kind of semaphore.
type expirePermits struct {
	when, ms string
	leased   bool
	late     bool
}

func (p expirePermits) call() call {
	return call{"semaphore_expire", permitKeysOf(p.leased), []string{p.when, p.ms, notAfter(p.late)}}
}

// deletePermits is for either kind of semaphore.
type deletePermits struct{ leased, late bool }

func (p deletePermits) call() call {
	return call{"semaphore_delete", permitKeysOf(p.leased), []string{notAfter(p.late)}}
}

type drainPermits struct{ late bool }

func (d drainPermits) call() call {
	return call{"semaphore_drain", permitKeysOf(false), []string{notAfter(d.late)}}
}

// permitKeysOf are the keys of a semaphore whose permits have leases, or have none.
func permitKeysOf(leased bool) []string {
	if leased {
		return permitKeys[:2]
	}
	return permitKeys[:1]
}
