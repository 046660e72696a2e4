package holdfast

import (
	"context"
	"runtime"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adopt"
	"github.com/holdfast-go/holdfast/internal/ask"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Hold is one acquisition of a lock, a permit or a multilock. It is safe for concurrent use.
// It lasts until it is released, lost or detached, or its session is closed. The ctx of the
// call that took it bounds only the wait.
type Hold core.Hold

func (h *Hold) core() session.Holding { return (*core.Hold)(h).Inside() }

// Name is the lock's name as the caller gave it.
func (h *Hold) Name() string { return (*core.Hold)(h).Name() }

// ID identifies the hold on the server: "<session>:<number>". Nested holds share it, and so do the holds to which
// releases in this session have handed the lock over since the server granted it. For a permit it is the permit's id,
// and for a setlock the token; both are valid in any process. It is "" for a multilock or a RedLock.
func (h *Hold) ID() string { return h.core().ID() }

// Token is the fencing token, or 0 if the lock issues none. It is higher than that of every earlier holder, unless the
// server has forgotten it. Nested holds share it.
func (h *Hold) Token() int64 { return h.core().Token() }

// Context returns ctx with the owner of the hold, so that locks taken with it re-enter. It ends when the hold or ctx
// ends. [context.Cause] then says why: it is [Hold.Err] if the hold ended first, otherwise ctx's own cause. Its
// deadline is that of ctx; the hold's is not added, because it moves with each renewal. A permit has no owner, so its
// context keeps the owner of ctx.
//
// A context has one owner. Two locks that were taken with one ctx without an owner have two owners: the owner of
// b.Context(a.Context(ctx)) is that of b, and taking a's lock again with it waits for a. Take the second lock with the
// context of the first, or both with a context from [NewOwner].
//
// Err, and a call of Done, answer from the clock: Err is never nil after the hold's deadline, nor after that of
// another hold if ctx is a context of that one. A timer closes channels that were fetched earlier and other contexts
// derived from this one, and it can be late in a busy process. Before an irreversible step ask Err.
func (h *Hold) Context(ctx context.Context) context.Context { return (*core.Hold)(h).Context(ctx) }

// Err is nil while the hold is held and trusted. Afterwards it is [ErrNotHeld] if the hold was
// released or detached, a *[LostError] if it was lost, and [ErrClosed] if its session was closed.
// It reads the clock, sends nothing and does not block. A hold is trusted from the moment at which
// its last successful acquisition or renewal was sent until shortly before the lease ends on the
// server. After that nothing revives it.
func (h *Hold) Err() error { return h.core().Err() }

// Deadline is the moment until which the hold is trusted without another renewal. It moves with
// each renewal. After the hold has ended it stays at its last value, which lies in the future if
// the server dropped the hold.
func (h *Hold) Deadline() time.Time { return h.core().Deadline() }

// Extend gives the hold a lease of at least d from now, and never shortens it. It blocks until the server replies or
// ctx ends. After an error the old deadline stands: [ErrLost] says that the hold is over, [ErrUnknown] that the server
// may still have extended it. With [Options.Acks] replicas must have the new lease as well, which blocks as an
// acquisition does, or Extend fails with [ErrNotAcknowledged]. d must be at least 10 ms. For a RedLock it must be at
// most the lease, unless RedLockOptions.TrustRestarted is set. It corresponds to updateLeaseTime() of permits;
// Redisson's locks extend by re-entering.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	defer runtime.KeepAlive(h) // as long as a call of it is under way, it is in use
	return h.core().Extend(ctx, d)
}

// Guard runs commands on the server, one after the other, if the server has the hold, in the same step: nobody else can
// have the lock in between, however long this process has been stopped before they are sent. It blocks until the server
// replies or ctx ends; after an acquisition whose reply was lost, it first waits until no copy of that can be executed
// any more, for at most a third of the lease. The commands are built with B() of any client of the same kind; they are
// not recycled. Replies are those that a script gets: maps are arrays, doubles are texts. Guard without commands asks
// whether the server has the hold.
//
// If the hold has ended already, nothing is sent, and the error is what [Hold.Err] says. If the server does not have
// the hold, nothing is executed and the hold is lost: the error matches [ErrLost]. After a command that fails no other
// is run: the error has the server's words and the number of the command, and the replies are those of the commands
// before, which are not undone. [ErrUnknown] says that no reply came: the commands may have been executed, or may still
// be executed for as long as the server has the hold, or one that is nested with it, also after later ones. So release
// all of these; when Release has returned nil, nothing of them will be executed any more, and under another hold you
// can read what was. After any other error nothing was executed.
//
// In a cluster every key must be in the slot of the lock, which a common hash tag ensures, and a mistake is an error
// before anything is sent. A hold of the read half of a read-write lock guards nothing, nor does a hold of several
// locks. With a token of the caller's own, a setlock guards for whoever holds it with that token. A command has at most
// 4,000 words. Redisson has nothing like it.
func (h *Hold) Guard(ctx context.Context, commands ...rueidis.Completed) ([]rueidis.RedisMessage, error) {
	defer runtime.KeepAlive(h)
	return guard.Commands(ctx, h.core(), commands)
}

// GuardScript runs a Lua script on the server if the server has the hold, in the same step. It is otherwise as
// [Hold.Guard], and the script is one as EVAL runs it, with KEYS and ARGV of its own; one that begins with "#!" cannot
// be guarded. What it replies is the reply, nil is a reply without an error. What the script raises, or replies as an
// error, is the error, in the server's words; what it did before is not undone. The server caches scripts by their
// text: put what changes into args.
func (h *Hold) GuardScript(
	ctx context.Context, script string, keys []string, args ...string,
) (rueidis.RedisMessage, error) {
	defer runtime.KeepAlive(h)
	return guard.Script(ctx, h.core(), script, keys, args)
}

// Asked returns a channel that is closed when somebody calls [Mutex.Ask] for the lock while this hold has it, or has
// called it while an earlier hold had it from which this one came by [Hold.HandTo]; for a multilock, any of its locks
// counts. The channel is never closed after the hold has ended. Every call returns the same channel. What to do then is
// up to the holder: it may save its work and release, or go on.
//
// The first call subscribes to a channel of the lock's own. From then on the session looks once after each message,
// and every 4 to 6 s, in case one was lost. The session sends nothing for this if Asked is not called. A hold of a
// permit is never asked for.
func (h *Hold) Asked() <-chan struct{} { return ask.Asked(h.core()) }

// HandTo gives the hold to another session in one step: nobody else can have the lock in between, and those who wait
// for it stay in their places. From then on the returned hold has it, with the fencing token, the settings of the lock,
// and the owner of ctx if that has one. This hold ends as if released: Err matches [ErrNotHeld]. If holds of the same
// owner are nested with it, they end, too, and the returned one stands for all of them: the lock keeps their count, and
// is free when that one is released. Two owners of one session can hand a hold over as well. [Options.MaxHold] counts
// from then on, and replicas ([Options.Acks]) are not asked again.
//
// HandTo blocks until the server has answered the other session, for at most a third of the lease, or until ctx ends.
// If a reply to the acquisition was lost, it first waits until no copy of that can be executed: a third of this lease,
// or a minute, at most.
// After an error the hold is where it was: if this session, or the other one, is closed ([ErrClosed]); if the hold has
// ended; if the other session has another server; or if no reply came ([ErrNoReply]). HandTo is also refused, with an
// error that says why, for a hold of several locks, a setlock and a read half; for the write half while its owner
// reads, too; if a hold that is nested with it was detached; if its owner took the lock together with others, by one
// command of a multilock; and while the outcome of another call, such as [Hold.Guard], is not known. If the owner of
// ctx has the lock already, the error is [ErrAlreadyHeld]. A permit that the other session is giving back by its ID is
// lost at once.
//
// [Hold.ID] stays what it was. So [Mutex.Holders] looks for host, process and label under the session that took the
// lock, and finds nothing of them or of the note once that is closed or holds nothing. Deadlocks that lead through the
// hold are not noticed ([Options.BreakDeadlocks]). To hand a permit over to another process, detach it and pass its ID.
// Redisson has no such thing.
func (h *Hold) HandTo(ctx context.Context, s *Session) (*Hold, error) {
	defer runtime.KeepAlive(h)
	given, err := adopt.To(ctx, h.core(), (*session.Session)(s))
	return (*Hold)(given), err
}

// Detach stops managing the hold. The hold ends here, as if released, but lives on the server
// until its lease ends or somebody gives it back by its ID. Nothing is sent. If the hold has ended
// already, Detach returns what [Hold.Err] says.
func (h *Hold) Detach() error {
	defer runtime.KeepAlive(h)
	return h.core().Detach()
}

// Release ends the hold, its contexts first, and gives it back. Releasing the last of nested holds frees the lock and
// wakes the waiters. Release takes no ctx, because giving back must not depend on one that has just ended. It returns
// within a third of the lease, at most 5 s. It corresponds to Redisson's unlock().
//
// If the hold has ended already, Release returns what [Hold.Err] says. [ErrLost] says that the server had nothing of
// this hold any more: it was lost unnoticed, for instance by force. [ErrUnknown] says that no reply came in time. The
// session then repeats the release until its outcome is known or the lease has ended, except for a setlock with a token
// of the caller's. Any other error is the server's refusal, in its own words. The session then asks again from time to
// time, for as long as the server may have the lock, with the same exception.
func (h *Hold) Release() error {
	defer runtime.KeepAlive(h)
	return h.core().Release()
}

func newLostError(name string, held time.Duration, why error) error {
	return &LostError{Name: name, Held: held, Err: why}
}
