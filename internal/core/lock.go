package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Protocol is what a lock package supplies: how its scripts are called. The replies of all
// kinds are those of rlock_acquire, rlock_release, lock_renew and lock_holders.
type Protocol interface {
	// Acquire is the call that raises the hold count of a wire owner.
	Acquire(w Want) *script.Call
	// Release is the call that leaves a wire owner with so many holds.
	Release(owner string, left int) *script.Call
	// Renewal is the script that extends leases. Its first argument is the lease in ms.
	Renewal() *script.Script
	// Renew appends the keys and arguments of one wire owner to a call of it.
	Renew(c *script.Call, owner string)
	// Holders is the call that tells who holds the lock.
	Holders() *script.Call
}

// A Queue is what a package supplies besides whose waiters stand in a queue on the server, each
// with a channel of its own. A waiter calls Acquire again and again, when it is told to and
// when the reply says, so that the server knows that it is alive.
type Queue interface {
	// Channel is where the waiter of a wire owner is told that it is its turn.
	Channel(owner string) string
	// Leave is the call that undoes an acquisition, whatever became of it.
	Leave(owner string) *script.Call
}

// A Want is what an acquisition asks for.
type Want struct {
	Owner    string
	Target   int    // hold count
	Lease    string // ms
	NotAfter int64  // server ms; 0 has the server refuse and tell its time
	Tokened  bool   // the tenure has a fencing token already
	Stand    bool   // in the queue, if the lock has one and is taken
}

// Settings are what a lock package makes a [Lock] of.
type Settings struct {
	Kind         string // as in error texts: the package's name
	Name         string // the caller's
	Part         uint8  // which half of a lock that has two
	FixedLease   time.Duration
	NonReentrant bool
	Backoff      func(attempt int) time.Duration // poll instead of subscribing
	Queue        Queue                           // nil: waiters stand in the session's own line
	WaiterLease  time.Duration                   // how long the queue remembers a waiter
	Err          error                           // a mistake in the package's own options
}

// A Lock is one name of one kind with settings: immutable, and nothing to close.
type Lock struct {
	Settings
	Channel  string // where releases are published; also the name of the local queue
	session  *Session
	protocol Protocol
	key      string // the mapped name
	part     uint8
	slot     uint16
	millis   string // lease as scripts take it
	mistake  error  // in name or options; every call returns it
}

// InitLock makes l, of which every lock value of a package has one, a lock of s. Mistakes in
// the settings come back from its calls. channel makes the channel's name of the mapped one.
func InitLock(l *Lock, s *Session, p Protocol, set Settings, channel func(key string) string) {
	*l = Lock{Settings: set, session: s, protocol: p, key: set.Name, part: set.Part, millis: s.millis}
	if s.config.MapName != nil && set.Name != "" {
		l.key = s.config.MapName(set.Name)
	}
	l.Channel = channel(l.key)
	l.slot = s.slot(l.key)
	if set.FixedLease > 0 {
		l.millis = lease.Millis(set.FixedLease)
	}
	l.mistake = l.check()
}

// Mistake is the error of an operation because of a mistake in name or settings, or nil.
func (l *Lock) Mistake(operation string) error {
	if l.mistake == nil {
		return nil
	}
	return l.fail(operation, l.mistake)
}

func (l *Lock) check() error {
	if err := wire.CheckName(l.Name); err != nil {
		return err
	}
	if err := wire.CheckName(l.key); err != nil {
		return fmt.Errorf("mapped %w", err)
	}
	if l.session.cluster {
		if err := wire.CheckSlot(l.key); err != nil {
			return err
		}
	}
	if l.FixedLease < 0 || l.FixedLease > 0 && l.FixedLease < lease.Min {
		return fmt.Errorf("Options.FixedLease is %v, must be 0 or at least %v", l.FixedLease, lease.Min)
	}
	return l.Err
}

// Key is the mapped name, under which the server knows the lock.
func (l *Lock) Key() string { return l.key }

// Publish is the command by which the lock's releases reach those who wait.
func (l *Lock) Publish() string { return l.session.publish() }

// length is the lease of the holds taken through the lock.
func (l *Lock) length() time.Duration {
	if l.FixedLease > 0 {
		return l.FixedLease
	}
	return l.session.config.Lease
}

// undo is the call that gives back whatever became of an acquisition.
func (l *Lock) undo(owner string) *script.Call {
	if l.Queue != nil {
		return l.Queue.Leave(owner)
	}
	return l.protocol.Release(owner, 0)
}

// memory is how long after a call the server may have something of it, if nobody calls again.
func (l *Lock) memory() time.Duration { return max(l.length(), l.WaiterLease) }

func (l *Lock) claimKey() claimKey { return claimKey{session: l.session, kind: l.Kind, key: l.key} }

// fail is the error of an operation on this lock.
func (l *Lock) fail(operation string, err error) error {
	return fmt.Errorf("%s %q: %s: %w", l.Kind, l.Name, operation, err)
}

// begin admits a call of the operation; its end is calls.leave.
func (l *Lock) begin(ctx context.Context, operation string) error {
	if err := l.Mistake(operation); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return l.fail(operation, stopped(ctx))
	}
	if !l.session.calls.enter() {
		return l.fail(operation, ErrClosed)
	}
	return nil
}

// explain is a failure of a call under ctx as the user gets it; other errors stay as they are.
func explain(ctx context.Context, err error) error {
	f, ok := err.(*script.Failure) //nolint:errorlint // what wraps one has been explained
	switch {
	case !ok:
		return err
	case f.Class == script.Unknown && ctx.Err() != nil:
		return unknown(stopped(ctx))
	case f.Class == script.Unknown:
		return unknown(f)
	case ctx.Err() != nil:
		return stopped(ctx) // not even sent
	}
	return f
}

// Run runs a call of the lock that neither takes nor gives back, a look or force, and has its
// reply read.
func (l *Lock) Run(ctx context.Context, operation string, c *script.Call, read func() error) error {
	defer c.Free()
	if err := l.begin(ctx, operation); err != nil {
		return err
	}
	defer l.session.calls.leave()
	err := l.session.runner.Run(ctx, script.Take, c)
	if err == nil {
		err = read()
	}
	if err != nil {
		return l.fail(operation, explain(ctx, err))
	}
	return nil
}

// notAfter is the server ms until which a call sent at sent may be executed; 0, which the
// server refuses and answers with its time, if its clock is not known.
func (l *Lock) notAfter(sent time.Duration) int64 {
	at := l.session.clocks.At(l.key, sent)
	if at > 0 {
		at += lease.NotAfter(l.length()).Milliseconds()
	}
	return at
}

// Held returns the wire owner under which ctx's owner holds the lock, and how often, as far
// as this session knows; "" and 0 if it does not.
func (l *Lock) Held(ctx context.Context) (owner string, count int) {
	c := existing(ctx, l.claimKey())
	if c == nil {
		return "", 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.parts[l.part]
	if t == nil {
		return "", 0
	}
	for h := t.holds; h != nil; h = h.next {
		if h.ended.Load() == nil && h.trusted() {
			count++
		}
	}
	if count == 0 {
		return "", 0
	}
	return t.wire, count
}

// Force runs a call that frees the lock whoever holds it, with the replies of rlock_force.
// Then the holds that this session had when the call was sent are lost, and who waits may look.
func (l *Lock) Force(ctx context.Context, operation string, call func(notAfter int64) *script.Call) (was bool, err error) {
	// Not those that are granted while the reply is on its way.
	var ours []*tenure
	for _, t := range l.session.tenures.all() {
		if t.lock.claimKey() == l.claimKey() {
			ours = append(ours, t)
		}
	}
	for range lateTries {
		c := call(l.notAfter(l.session.now()))
		err = l.Run(ctx, operation, c, func() error {
			n, err := c.ReadInts(nil)
			if err != nil {
				return err
			}
			if len(n) != 2 {
				return c.Unexpected()
			}
			l.session.clocks.Learn(l.key, n[1], l.session.now())
			if n[0] == late {
				return errLate
			}
			was = n[0] == 1
			return nil
		})
		if !errors.Is(err, errLate) {
			break
		}
	}
	if was {
		for _, t := range ours {
			t.lose()
		}
		l.session.lines.Wake(l.Channel)
	}
	return was, err
}

// TryLock makes one attempt.
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) {
	const operation = "try lock"
	if err := l.begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.session.calls.leave()
	var a acquisition
	a.init(ctx, l)
	h, err := a.once(ctx)
	return h, a.finish(ctx, operation, err)
}

// Lock waits for the lock until ctx ends.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) {
	const operation = "lock"
	if err := l.begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.session.calls.leave()
	var a acquisition
	a.init(ctx, l)
	h, err := a.wait(ctx, ctx)
	return h, a.finish(ctx, operation, err)
}

// grace is how much longer than its waiting time an attempt of TryLockFor may take that is
// under way when the time is over: cut off, its outcome would be unknown.
const grace = 100 * time.Millisecond

var errWaited = errors.New("waited long enough")

// TryLockFor waits for the lock for at most d, or until ctx ends.
func (l *Lock) TryLockFor(ctx context.Context, d time.Duration) (*Hold, error) {
	if d <= 0 {
		return l.TryLock(ctx)
	}
	end := time.Now().Add(d)
	if earlier, ok := ctx.Deadline(); ok && !earlier.After(end) {
		return l.Lock(ctx)
	}
	const operation = "lock"
	if err := l.begin(ctx, operation); err != nil {
		return nil, err
	}
	defer l.session.calls.leave()
	sleep, stop := context.WithDeadlineCause(ctx, end, errWaited)
	defer stop()
	attempt, stop := context.WithDeadlineCause(ctx, end.Add(grace), errWaited)
	defer stop()
	var a acquisition
	a.init(ctx, l)
	h, err := a.wait(attempt, sleep)
	if err != nil && ctx.Err() == nil && !time.Now().Before(end) { // timers may be late
		err = a.outwaited(err)
	}
	return h, a.finish(ctx, operation, err)
}
