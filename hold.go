package holdfast

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
)

// A Hold is one acquisition: of a lock, a permit, a multilock. It is safe for concurrent use.
// It lasts until it is released, lost, detached, or its session is closed; the ctx of the
// call that took it limits only the wait.
type Hold core.Hold

func (h *Hold) core() *core.Hold { return (*core.Hold)(h) }

// Name is the lock's name as the caller gave it.
func (h *Hold) Name() string { return h.core().Name() }

// ID is what the server knows the hold by: "<session>:<number>", the same for nested holds; of a
// permit its id, and of a setlock the token, which are valid in any process; "" of a multilock or a RedLock.
func (h *Hold) ID() string { return h.core().ID() }

// Token is the fencing token, 0 when the lock issues none. It is higher than that of every
// earlier holder, unless the server has forgotten it, and the same for nested holds.
func (h *Hold) Token() int64 { return h.core().Token() }

// Context returns ctx with the owner of the hold, so that locks taken with it re-enter, and
// ended when the hold ends, or when ctx does. A permit has no owner: there it is ctx's.
// [context.Cause] then says why: what [Hold.Err] says if the hold ended first, else ctx's own
// cause. The deadline is that of ctx; the hold's is not added, since it moves with each renewal.
//
// Err, and a call of Done, answer from the clock: never nil after the hold's deadline. A
// channel that was fetched earlier and contexts derived from this one are closed by a timer,
// which can come late in a busy process. Before an irreversible step ask Err.
func (h *Hold) Context(ctx context.Context) context.Context { return h.core().Context(ctx) }

// Err is nil while the hold is held and trusted. Afterwards it is [ErrNotHeld] if it was
// released or detached, a *[LostError] if it was lost, [ErrClosed] if its session was closed.
// It reads the clock, sends nothing and does not block: a hold is trusted from the moment its
// last successful acquisition or renewal was sent until shortly before the lease ends on the
// server, and is never revived after that.
func (h *Hold) Err() error { return h.core().Err() }

// Deadline is the moment until which the hold is trusted without another renewal. It moves
// with each renewal. Of a hold that has ended it is the last one, which may be still to come if the server
// dropped the hold.
func (h *Hold) Deadline() time.Time { return h.core().Deadline() }

// Extend gives the hold a lease of at least d from now; it never shortens it. It blocks until
// the server replies or ctx ends. After an error the old deadline stands: [ErrLost] says that
// the hold is over, [ErrUnknown] that the server may have extended it all the same. d must be
// at least 10 ms; of a RedLock it must be at most the lease, unless RedLockOptions.TrustRestarted is set. It
// corresponds to updateLeaseTime() of permits; Redisson's locks have no equal, and extend by re-entering.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error { return h.core().Extend(ctx, d) }

// Detach stops managing the hold: it ends here, as if released, but on the server it lives on
// until its lease ends or somebody gives it back by its ID. Nothing is sent. Of a hold that
// has ended already it returns what [Hold.Err] says.
func (h *Hold) Detach() error { return h.core().Detach() }

// Release ends the hold, its contexts first, and gives it back; with the last of nested holds
// the lock is free, and who waits is told. It corresponds to Redisson's unlock, and takes no
// ctx, because giving back must not depend on one that has just ended. It returns within a
// third of the lease, at most 5 s.
//
// Of a hold that has ended already it returns what [Hold.Err] says. [ErrLost] says that the
// server had nothing of this hold any more: it was lost unnoticed, by force for instance.
// [ErrUnknown] says that no reply came in time; the session repeats the release until it is
// known or the lease has ended, but for a setlock with a token of its own. With any other error the server has
// refused, in its own words.
func (h *Hold) Release() error { return h.core().Release() }

func newLostError(name string, held time.Duration, why error) error {
	return &LostError{Name: name, Held: held, Err: why}
}

func quote(name string) string { return strconv.Quote(name) }
