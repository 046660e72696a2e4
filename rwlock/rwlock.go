// Package rwlock is the read-write lock, Redisson's RReadWriteLock: many may read at a time, or
// one may write. Its halves are two locks, each with all that a lock of the toolkit has:
//
//	catalog := rwlock.New(session, "catalog", nil)
//	hold, err := catalog.Read().Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//
// Both halves re-enter, and both are one owner's: who writes may read as well. To go on reading
// when the writing is done, take the read half under the write half and release the write half
// (a downgrade): nobody else writes in between, and other readers come in at once. The other way
// round is not to be had: two readers that both waited for the other to stop reading would wait
// for ever. So who asks for the write half under a read hold gets [holdfast.ErrAlreadyHeld], at
// once. A read hold is Redisson's, too, as is a write hold: Go and Java exclude each other.
//
// # Writers that wait
//
// As in Redisson, readers do not wait behind a writer that waits. While one reader comes before
// another has gone the lock is never free, and the writer waits: for ever, if they never pause.
// [Options.PreferWriter] has new readers wait instead.
package rwlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// An RWMutex is a read-write lock of one name: two locks, [RWMutex.Read] and [RWMutex.Write]. It
// is immutable and safe for concurrent use; make it once or at every use, as you like. Two values
// of the same session and name are the same lock, whatever their options, which concern the holds
// and the waits that are made through them.
type RWMutex struct {
	read, write Half
}

// A Half is the lock for reading or the lock for writing.
type Half struct {
	lock    core.Lock
	writers string // the key of those that wait to write, if readers wait behind them; else ""
}

var _ holdfast.Locker = (*Half)(nil)

// Options tune an RWMutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time; they are never renewed. The
	// least is 10 ms. The default, 0, renews them until they are released, with the lease of
	// the session. It is the leaseTime of Redisson's lock methods.
	FixedLease time.Duration

	// PreferWriter has readers wait behind a writer that waits: the readers and the writers that
	// use this option; set it everywhere. Readers of Redisson do not wait. Who holds the read
	// half may take it again, but another owner may not, so a function that reads under a read
	// hold must be given its context; and goroutines that read on their own must each have an
	// owner (see [holdfast.NewOwner]), or together they never stop reading. A writer that died keeps readers waiting for up to 5 s.
	// Writers that never pause keep readers out for ever. The default is Redisson's, false.
	PreferWriter bool
}

// writerLease is for how long a writer that waits is taken to be alive if it is not heard of.
const writerLease = 5 * time.Second

var writerMillis = lease.Millis(writerLease)

// The halves, as scripts call them.
const (
	read  = "read"
	write = "write"
)

// New returns the read-write lock of that name. It sends nothing and cannot fail: a mistake in
// the name or the options comes back from the first call of a half.
func New(s *holdfast.Session, name string, opts *Options) *RWMutex {
	var o Options
	if opts != nil {
		o = *opts
	}
	rw := &RWMutex{}
	r, w := &rw.read, &rw.write
	half := func(which string) core.Label { return core.Label{Kind: "rwlock", Half: which, Name: name} }
	reading := core.Settings{FixedLease: o.FixedLease, Shared: true}
	writing := core.Settings{FixedLease: o.FixedLease}
	if o.PreferWriter {
		writing.Leaver, writing.WaiterLease = (*writer)(w), writerLease
	}
	core.InitLock(&r.lock, (*core.Session)(s), (*reader)(r), half("Read"), reading, wire.RWChannel)
	core.InitLock(&w.lock, (*core.Session)(s), (*writer)(w), half("Write"), writing, wire.RWChannel)
	if o.PreferWriter {
		r.writers = wire.RWWriters(r.lock.Key())
		w.writers = r.writers
	}
	return rw
}

// Read is the lock for reading, which many hold at a time. It corresponds to readLock().
func (rw *RWMutex) Read() *Half { return &rw.read }

// Write is the lock for writing, which one holds while nobody else reads. It corresponds to
// writeLock().
func (rw *RWMutex) Write() *Half { return &rw.write }

// Name is the lock's name as it was given to [New], the same for both halves.
func (h *Half) Name() string { return h.lock.Name }

// Inside is of no use outside this module, where its result has no name: package multilock asks by it.
func (h *Half) Inside() *core.Lock { return &h.lock }

// Lock takes the lock for reading or writing, waiting until it is to be had or ctx ends; an
// outage of the server is waited out as well. It corresponds to lock() and lock(leaseTime). An
// error that matches ctx.Err() and its cause says that ctx ended first, [holdfast.ErrClosed] that
// the session did, [holdfast.ErrAlreadyHeld] that this owner wants to write and reads already,
// [holdfast.ErrLost] that this owner's hold, which the call was to enter again, is lost; anything else is the server's refusal, in its own words. After an error nothing is held: what a
// lost reply may have left is given back in the background.
func (h *Half) Lock(ctx context.Context) (*holdfast.Hold, error) {
	hold, err := h.lock.Lock(ctx)
	return (*holdfast.Hold)(hold), err
}

// TryLock makes one attempt and does not wait; [holdfast.ErrBusy] says that somebody writes, or,
// to a writer, that somebody reads, and with [Options.PreferWriter] to a reader also that a writer
// waits. It corresponds to tryLock(). It blocks for a round trip. If the reply is lost the attempt
// is repeated for up to a third of the lease, a minute at the most, then given up and undone: that
// is [holdfast.ErrUnknown]. Its other errors are Lock's. After an error nothing is held.
func (h *Half) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	hold, err := h.lock.TryLock(ctx)
	return (*holdfast.Hold)(hold), err
}

// TryLockFor waits as Lock does, but at most for the time given, and then fails with
// [holdfast.ErrBusy]. Of ctx and wait the first to end decides, ctx if they end together. It
// corresponds to tryLock(waitTime, leaseTime). A wait of zero or less is one attempt.
//
// If the server did not answer in the end, it fails with that instead, or with [holdfast.ErrUnknown] if
// an attempt was cut off, which takes up to 0.1 s more.
func (h *Half) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	hold, err := h.lock.TryLockFor(ctx, wait)
	return (*holdfast.Hold)(hold), err
}

// Locked reports whether anybody holds this half. It asks the master, as all these do. It
// corresponds to isLocked().
func (h *Half) Locked(ctx context.Context) (bool, error) {
	return h.lock.Locked(ctx)
}

// Held reports whether the owner that ctx carries holds this half; false without an owner. It
// corresponds to isHeldByCurrentThread().
func (h *Half) Held(ctx context.Context) (bool, error) {
	return h.lock.Held(ctx)
}

// HoldCount returns how often the owner that ctx carries holds this half; 0 without an owner. It
// corresponds to getHoldCount().
func (h *Half) HoldCount(ctx context.Context) (int, error) {
	return h.lock.HoldCount(ctx)
}

// RemainingLease returns how long this half stays taken at least if nobody renews or releases it:
// 0 if nobody holds it, below zero if it has no end, which only another program can have brought
// about. Redisson's remainTimeToLive() is that of the other half where only that one is held.
func (h *Half) RemainingLease(ctx context.Context) (time.Duration, error) {
	return h.lock.RemainingLease(ctx)
}

// Holders returns who holds this half: all readers, in no order, each with the longest of its
// leases, or the writer. One that died is listed until its lease has run out. The server takes
// time in proportion to their number.
func (h *Half) Holders(ctx context.Context) ([]holdfast.Holder, error) {
	return core.Holders[holdfast.Holder](ctx, &h.lock)
}

// ForceUnlock ends this half whoever holds it, for all readers at once, and wakes those who wait;
// it reports whether it was held. With the write half go the read holds of the writer. The holders
// learn it at their next renewal or release; at once if they are of this session.
// [holdfast.ErrUnknown] says that it may have been freed, or may yet be, within a third of the
// lease: a call that comes later frees nobody's lock. It corresponds to forceUnlock().
func (h *Half) ForceUnlock(ctx context.Context) (bool, error) {
	half := write
	if h.lock.Shared {
		half = read
	}
	return h.lock.Force(ctx, "force unlock", func(notAfter int64) *script.Call {
		return script.NewCall(forceScript).Key(h.lock.Key()).Arg(half, h.lock.Publish(), h.lock.Channel).Int(notAfter)
	})
}
