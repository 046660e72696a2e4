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
	// Release is the call that lowers the hold count of a wire owner.
	Release(r Rest) *script.Call
	// Renewal is the script that extends leases. Its first argument is the lease in ms.
	Renewal() *script.Script
	// Renew appends the keys and arguments of one wire owner to a call of it.
	Renew(c *script.Call, owner string)
	// Holders is the call that tells who holds the lock, or whether one wire owner does.
	Holders(owner string) *script.Call
}

// A Leaver is what a package supplies besides whose waiters the server knows of. A waiter calls
// Acquire again and again, when it is told to and when the reply says, so that the server knows
// that it is alive.
type Leaver interface {
	// Leave is the call that undoes an acquisition, whatever became of it.
	Leave(owner string) *script.Call
}

// A Want is what an acquisition asks for.
type Want struct {
	Owner    string
	Target   int    // hold count
	Lease    string // ms
	NotAfter int64  // server ms; 0 has the server refuse and tell its time
	Nested   bool   // the owner has the lock already; if the server does not think so, it is gone
	Tokened  bool   // the tenure has a fencing token already
	Stand    bool   // be known as a waiter, if the lock is taken
}

// A Rest is what a release leaves of a wire owner's holds.
type Rest struct {
	Owner string
	Count int
	// Of a shared lock besides, whose holds are numbered on the server:
	Ceiling int           // a higher count is newer than this release; 0: none is
	Lease   time.Duration // what the holds that are left need at least; 0 if none are
}

// Settings are what a lock package makes a [Lock] of.
type Settings struct {
	Kind         string // as in error texts: the package's name
	Name         string // the caller's
	Half         string // "Read" or "Write" of a lock that has two
	FixedLease   time.Duration
	NonReentrant bool
	Backoff      func(attempt int) time.Duration // poll instead of subscribing
	Shared       bool                            // by many owners; such a half is the other's owner's to take, too
	Queue        bool                            // waiters stand in a queue on the server, each with a channel of its own
	Leaver       Leaver                          // nil: the server does not know who waits
	WaiterLease  time.Duration                   // how long it knows a waiter
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
	*l = Lock{Settings: set, session: s, protocol: p, key: set.Name, millis: s.millis}
	if set.Shared {
		l.part = sharedPart
	}
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

// undo is the call that gives back whatever became of an acquisition, unless the wire owner has
// more holds than ceiling by then.
func (l *Lock) undo(owner string, ceiling int) *script.Call {
	if l.Leaver != nil {
		return l.Leaver.Leave(owner)
	}
	return l.protocol.Release(Rest{Owner: owner, Ceiling: ceiling})
}

// memory is how long after a call the server may have something of it, if nobody calls again.
func (l *Lock) memory() time.Duration { return max(l.length(), l.WaiterLease) }

func (l *Lock) claimKey() claimKey { return claimKey{session: l.session, kind: l.Kind, key: l.key} }

// fail is the error of an operation on this lock.
func (l *Lock) fail(operation string, err error) error {
	return fmt.Errorf("%s %q: %s: %w", l.title(), l.Name, operation, err)
}

// title says which lock of a name this is: "rlock", or "rwlock.Read" of a half.
func (l *Lock) title() string {
	if l.Half == "" {
		return l.Kind
	}
	return l.Kind + "." + l.Half
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
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) { return l.try(ctx, "try lock") }

func (l *Lock) try(ctx context.Context, operation string) (*Hold, error) {
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
func (l *Lock) Lock(ctx context.Context) (*Hold, error) { return l.lock(ctx, "lock") }

func (l *Lock) lock(ctx context.Context, operation string) (*Hold, error) {
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
	const operation = "try lock for"
	if d <= 0 {
		return l.try(ctx, operation)
	}
	end := time.Now().Add(d)
	if earlier, ok := ctx.Deadline(); ok && !earlier.After(end) {
		return l.lock(ctx, operation)
	}
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
