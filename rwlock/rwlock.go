// Package rwlock is the read-write lock, Redisson's RReadWriteLock: many may read at a time, or one may write. Its
// halves are two locks, each with all methods of a lock of the toolkit:
//
//	catalog := rwlock.New(session, "catalog", nil)
//	hold, err := catalog.Read().Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer hold.Release()
//
// Both halves re-enter, and one owner may hold both: a writer may read as well. To go on reading when the writing is
// done, take the read half under the write half and release the write half (a downgrade). Nobody else writes in
// between, and other readers come in at once. Make the context for the reading from the ctx that came before the
// writing: a context made from the write hold's ends with that hold:
//
//	writing, err := catalog.Write().Lock(ctx)
//	reading, err := catalog.Read().Lock(writing.Context(ctx))
//	err = writing.Release()
//	ctx = reading.Context(ctx) // not of writing.Context(ctx)
//
// A read hold cannot be upgraded: two readers that each waited for the other to stop reading would wait for ever. So
// asking for the write half under a read hold fails with [holdfast.ErrAlreadyHeld] at once. Both halves are compatible
// with Redisson: Go and Java exclude each other.
//
// # Waiting writers
//
// Waiting writers stand in a line on the server. A release wakes the first of them, which then tries to take the lock;
// readers and Redisson's writers try as well, and the first to arrive gets the lock. A writer that finds readers keeps
// its place, and the last of these readers wakes it. So writers get the lock in the order of their calls, unless
// readers, Redisson's writers or calls of TryLock overtake them.
//
// As in Redisson, readers do not wait behind a waiting writer. As long as a new reader comes before
// the last one has gone, the lock is never free and the writer waits, possibly for ever.
// [Options.PreferWriter] makes new readers wait instead.
//
// If the name belongs to another kind of lock that is held, calls fail with [holdfast.ErrWrongKind]. Redisson's
// read-write lock takes such a name, and then two hold it: use one kind for one name.
package rwlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/holders"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// An RWMutex is a read-write lock of one name: two locks, [RWMutex.Read] and [RWMutex.Write]. It is immutable and safe
// for concurrent use; make it once or at every use, as you like. Two values of the same session and name are the same
// lock, whatever their options. Options apply to the holds and the waits of one value.
type RWMutex struct {
	read  reader
	write writer
}

// A Half is the lock for reading or the lock for writing. It has the methods of all locks, which ask about and free
// this half alone. TryLock fails with [holdfast.ErrBusy] if somebody writes. For the write half it also fails if
// somebody reads; for the read half, with [Options.PreferWriter], if a writer waits. A reader that asks to write gets
// [holdfast.ErrAlreadyHeld]. Holders and ForceUnlock take the server time in proportion to the number of readers.
// ForceUnlock of the read half ends all read holds at once, but does nothing while somebody writes, even if the writer
// reads as well; ForceUnlock of the write half also ends the read holds of the writer. Ask of either half asks the
// holders of both. If only the other half is held, Redisson's remainTimeToLive() returns that of the other half.
type Half = holdfast.Mutex

// Options tune an RWMutex. The zero value of a field means its default.
type Options struct {
	// FixedLease makes holds end by themselves after this time, at least 10 ms; they are never
	// renewed. The default, 0, renews them with the lease of the session until they are
	// released. It is the leaseTime of Redisson's lock methods.
	FixedLease time.Duration

	// PreferWriter makes readers wait behind a waiting writer. It works among readers and writers
	// that use it, so set it everywhere; Redisson's readers do not wait. A holder of the read half
	// may take it again, but another owner may not. So pass a hold's context to functions that read
	// under it, and give each goroutine that reads on its own an owner ([holdfast.NewOwner]), or
	// together they never stop reading. A dead writer keeps readers waiting for up to 5 s. Writers
	// that never pause keep readers out for ever. The default, false, is what Redisson does.
	PreferWriter bool
}

const (
	waiterLease = 15 * time.Second // how long a waiting writer is taken to be alive that does not call again
	writerLease = 5 * time.Second  // how long readers wait behind such a writer
)

// Both as scripts take them.
var waiterMillis, writerMillis = lease.Millis(waiterLease), lease.Millis(writerLease)

// The halves, as scripts call them.
const (
	read  = "read"
	write = "write"
)

var reading, writing = kind.Settings{Shared: true}, kind.Settings{}

// New returns the read-write lock of that name. It sends nothing and cannot fail: a mistake in
// the name or the options comes back from the first call of a half.
func New(s *holdfast.Session, name string, opts *Options) *RWMutex {
	var o Options
	if opts != nil {
		o = *opts
	}
	rw := &RWMutex{}
	r, w := &rw.read, &rw.write
	r.lock, w.lock = r.mutex.Inside(), w.mutex.Inside()
	half := func(which string) session.Label { return session.Label{Kind: "rwlock", Half: which, Name: name} }
	core.InitLock(r.lock, (*session.Session)(s), r, half("Read"), &reading, o.FixedLease, wire.RWChannel)
	key := r.lock.Key()
	r.line = [...]string{wire.RWWaiting(key), wire.RWLine(key), wire.RWAlive(key)}
	if o.PreferWriter {
		r.writers = wire.RWWriters(key)
	}
	w.line, w.writers, w.told = r.line, r.writers, wire.RWLineChannel(key)+(*session.Session)(s).ID()
	core.InitLock(w.lock, (*session.Session)(s), w, half("Write"), &writing, o.FixedLease, wire.RWChannel)
	return rw
}

// Waiters returns the sessions that wait to write, in the order in which they are told that the lock is free. A session
// stands in this line once, however many of its calls wait; the ID is the owner under which it stands. Its Alive is
// extended every few seconds. Dead waiters are listed until somebody notices.
//
// Three kinds of waiters are not listed: readers, Redisson's writers, and a session whose subscription the server has
// not confirmed yet.
func (rw *RWMutex) Waiters(ctx context.Context) ([]holdfast.Waiter, error) {
	return holders.Waiters[holdfast.Waiter](ctx, rw.write.lock, rw.write.line[1], rw.write.line[2])
}

// Read is the lock for reading, which many may hold at a time. It corresponds to readLock().
func (rw *RWMutex) Read() *Half { return (*Half)(&rw.read.mutex) }

// Write is the lock for writing, which one may hold while nobody else reads. It corresponds to writeLock().
func (rw *RWMutex) Write() *Half { return (*Half)(&rw.write.mutex) }
