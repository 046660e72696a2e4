package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
)

// A Hold is one acquisition as its user gets it. The root package exports it.
type Hold struct{ inside Holding }

// NewHold is the hold of what is held.
func NewHold(h Holding) *Hold { return &Hold{h} }

// Inside is what is held.
func (h *Hold) Inside() Holding { return h.inside }

// A Holding is the inside of a hold: a [Single] is of one lock; others are of several.
type Holding interface {
	// Label is what the hold is of.
	Label() *session.Label
	// Session is where the hold's goroutines run.
	Session() *session.Session
	// ID is what the server knows the hold by; "" of several.
	ID() string
	// Token is the fencing token, 0 if there is none.
	Token() int64
	// Context returns ctx with the owner of the hold, ended when either ends.
	Context(ctx context.Context) context.Context
	// Watch calls ended, which must not block, when the hold ends.
	Watch(ended context.CancelCauseFunc)
	// Err is nil while the hold is held and trusted. It reads the clock: a timer that comes too
	// late, or a process that was stopped, does not make it answer nil after the deadline.
	Err() error
	// Deadline is the moment until which the hold is trusted without another renewal.
	Deadline() time.Time
	// Extend gives the hold a lease of at least d from now. It never shortens it.
	Extend(ctx context.Context, d time.Duration) error
	// Detach ends the hold here and leaves it on the server, until its lease ends there or
	// somebody gives it back by its id.
	Detach() error
	// Release ends the hold and gives it back, once.
	Release() error
	// Lose makes the hold end as lost, and those nested with it, as if their renewals had failed because of why
	// for too long. Of a hold that has ended already it returns what Err says. What it returns in any case tells
	// the server that they are over, until ctx ends; else what that has of them ends at the latest with its lease.
	Lose(why error) (tell func(ctx context.Context), err error)
}

// Name is the lock's name as the caller gave it.
func (h *Hold) Name() string { return h.inside.Label().Name }

// Warn logs what went wrong with the hold but is not returned to anybody.
func (h *Hold) Warn(what string, err error) {
	label := h.inside.Label()
	h.inside.Session().Logger().Warn("holdfast: "+what, "kind", label.Title(), "name", label.Name, "error", err)
}

// Guard does something that calls code of the user's. If that panics or ends the goroutine, nobody gets the
// hold, if there is one, and it is given back.
func (h *Hold) Guard(do func()) {
	done := false
	defer func() {
		if !done && h != nil {
			_ = h.inside.Release()
		}
	}()
	do()
	done = true
}
