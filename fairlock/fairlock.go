// Package fairlock is the fair lock, Redisson's RFairLock: a reentrant lock that is granted in the order of the calls,
// across processes and languages. It shares a queue on the server with Java, in which each waiter has a place. In the
// same step, a release hands the lock to the next waiter if that is one of this toolkit; a waiter of Redisson is told
// that it is its turn, as Redisson's own release does.
//
//	hold, err := fairlock.New(session, "orders:42", nil).Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//
// A live waiter never loses its place, however long the holder holds the lock: it keeps telling the server that it is
// alive. One that was killed costs the others nothing as a rule, and at most [Options.WaiterLease]. One that is frozen
// or cut off when its turn comes costs them up to 9.5 s, or the lease of its session if that is shorter. One whose
// connection is interrupted at that moment is overtaken, and keeps its place. A process that was stopped or cut off for
// longer than WaiterLease queues up again, at the end. Redisson's waiters give no sign of life and cost what Redisson
// makes them cost, by default 5 minutes.
//
// A fair lock costs more than an rlock: each waiter makes a call every few seconds, and the lock never passes on inside
// a process, without the server. Where order does not matter, use an rlock. Do not use both on one name: an rlock does
// not know the queue. If the name belongs to a read-write lock or to something that is no lock, calls fail with
// [holdfast.ErrWrongKind].
//
// Do not use two names that differ only by braces, such as x and {x}, either: Redisson gives them
// one queue. The first in it waits for its own lock, and everybody else waits behind it, even if
// the other lock is free.
package fairlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Mutex is a fair lock of one name, with the methods of all locks and one of its own. Lock and TryLockFor wait in the
// queue, and leave it if they fail; an owner that holds the lock does not queue. TryLock takes no place and overtakes
// nobody: it returns [holdfast.ErrBusy] also while somebody waits. ForceUnlock wakes the next waiter in the queue.
type Mutex struct {
	holdfast.Mutex
	opts     Options   // with their defaults
	keys     [5]string // as scripts take them
	token    string    // the key of the last fencing token; "": none are issued
	tokenTTL string    // Options.TokenTTL, in the form that scripts take; "": none
	told     string    // where this session is told
	javaWait string    // Options.JavaWait, in the form that scripts take
	wait     string    // Options.WaiterLease, in the form that scripts take
}

// Options tune a Mutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time, at least 10 ms; they are never
	// renewed. The default, 0, renews them with the lease of the session until they are
	// released. It is the leaseTime of Redisson's lock methods.
	FixedLease time.Duration

	// Fenced issues a fencing token with each outermost hold, as Redisson's RFencedLock does. Redisson has no fair
	// one, and its waiters get the lock without a token. A hold that a release has handed over begins with a call,
	// which fetches the token.
	Fenced bool

	// TokenTTL has the server forget the last token when none has been issued for that long; it needs Fenced. Tokens
	// then follow the server's clock: see rlock.Options.TokenTTL. It is at least a minute.
	TokenTTL time.Duration

	// WaiterLease is how long a dead waiter may keep the others waiting. A live one tells the server that it is alive
	// every third of it, and at least about every 5 s. It must be from 1 s to 1 h; the default is 15 s. Clocks of Java
	// hosts may be ahead of the server's by up to two thirds of it. A silent connection is noticed after up to a third of
	// the session's lease, so a WaiterLease of less than half of that lease loses places then.
	WaiterLease time.Duration

	// JavaWait is the longest time that any Java process waits for this lock: Redisson's fairLockWaitTimeout, or the
	// longest waitTime of its tryLock if that is longer. It must be at most 24 h; the default is Redisson's, 5 minutes. If
	// it is too short, Java may drop live waiters of this toolkit; they come back to their places within a third of
	// WaiterLease. It has no effect where no Java process uses the lock.
	JavaWait time.Duration

	// NonReentrant gives an owner that holds the lock and asks for it again
	// [holdfast.ErrAlreadyHeld] at once, instead of a nested hold.
	NonReentrant bool
}

// Defaults of Options.
const (
	defaultWaiterLease = 15 * time.Second
	defaultJavaWait    = 5 * time.Minute
)

var usual kind.Settings

// New returns the fair lock of that name. It sends nothing and cannot fail: a mistake in the
// name or the options comes back from the first call.
func New(s *holdfast.Session, name string, opts *Options) *Mutex {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.WaiterLease = cmp.Or(o.WaiterLease, defaultWaiterLease)
	o.JavaWait = cmp.Or(o.JavaWait, defaultJavaWait)
	m := &Mutex{opts: o, wait: lease.Millis(o.WaiterLease), javaWait: lease.Millis(o.JavaWait)}
	p := (*protocol)(m)
	set := &usual
	if o.NonReentrant || o.Fenced {
		set = &kind.Settings{NonReentrant: o.NonReentrant, Confirms: o.Fenced}
	}
	label := session.Label{Kind: "fairlock", Name: name}
	core.InitLock(m.lock(), (*session.Session)(s), p, label, set, o.FixedLease, wire.FairChannel)
	m.lock().Refuse(o.mistake())
	key := m.lock().Key()
	m.told = wire.FairTold(key) + m.lock().Session().ID()
	m.keys = [...]string{key, wire.FairQueue(key), wire.FairDue(key), wire.FairOurs(key), wire.FairAlive(key)}
	if o.Fenced {
		m.token = wire.TokenKey(key)
	}
	if o.TokenTTL > 0 {
		m.tokenTTL = lease.Millis(o.TokenTTL)
	}
	return m
}

func (o *Options) mistake() error {
	if err := kind.CheckTokens(o.Fenced, o.TokenTTL); err != nil {
		return err
	}
	if o.WaiterLease < time.Second || o.WaiterLease > time.Hour {
		return fmt.Errorf("Options.WaiterLease is %v, must be 0 or from 1s to 1h", o.WaiterLease)
	}
	if o.JavaWait < 0 || o.JavaWait > 24*time.Hour {
		return fmt.Errorf("Options.JavaWait is %v, must be from 0 to 24h", o.JavaWait)
	}
	return nil
}

func (m *Mutex) lock() *core.Lock { return (*core.Mutex)(&m.Mutex).Inside() }

// Waiters returns the waiters of the lock, the next one first. The Alive of a Redisson waiter is the time that Redisson
// goes by. Dead waiters are listed until somebody notices.
func (m *Mutex) Waiters(ctx context.Context) ([]holdfast.Waiter, error) {
	return holders.Waiters[holdfast.Waiter](ctx, m.lock(), m.keys[1], m.keys[2], m.keys[4])
}
