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
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// An RWMutex is a read-write lock of one name: two locks, [RWMutex.Read] and [RWMutex.Write]. It
// is immutable and safe for concurrent use; make it once or at every use, as you like. Two values
// of the same session and name are the same lock, whatever their options, which concern the holds
// and the waits that are made through them.
type RWMutex struct {
	read  reader
	write writer
}

// A Half is the lock for reading or the lock for writing. Its methods are those of all locks, and each asks
// about, and frees, its own half. TryLock is [holdfast.ErrBusy] if somebody writes; to a writer also if somebody
// reads, and to a reader with [Options.PreferWriter] also if a writer waits. A reader that asks to write gets
// [holdfast.ErrAlreadyHeld]. Holders and ForceUnlock take the server time in proportion to the number of
// readers. ForceUnlock of the read half ends all readers at once; with the write half go the read holds of the
// writer. Redisson's remainTimeToLive() is that of the other half where only that one is held.
type Half = holdfast.Mutex

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
		writing.Leaver, writing.WaiterLease = w, writerLease
	}
	core.InitLock(&r.lock, (*core.Session)(s), r, half("Read"), reading, wire.RWChannel)
	core.InitLock(&w.lock, (*core.Session)(s), w, half("Write"), writing, wire.RWChannel)
	if o.PreferWriter {
		r.writers = wire.RWWriters(r.lock.Key())
		w.writers = r.writers
	}
	return rw
}

// Read is the lock for reading, which many hold at a time. It corresponds to readLock().
func (rw *RWMutex) Read() *Half { return (*Half)(&rw.read.lock) }

// Write is the lock for writing, which one holds while nobody else reads. It corresponds to
// writeLock().
func (rw *RWMutex) Write() *Half { return (*Half)(&rw.write.lock) }
