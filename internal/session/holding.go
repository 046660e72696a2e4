package session

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/scope"
)

// An Identified is a hold with an id, or of several.
type Identified interface {
	// ID is the name of the hold on the server, as users have it; "" of several.
	ID() string
}

// A Holding is the inside of a hold, of one lock or of several.
type Holding interface {
	Identified
	// Label says what is held.
	Label() *Label
	// Session is where the hold's goroutines run.
	Session() *Session
	// Token is the fencing token, 0 if there is none.
	Token() int64
	// Context returns ctx with the owner of the hold, ended when either ends.
	Context(ctx context.Context) *scope.Context
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
	// Asked is the channel by which others ask for what is held. Whoever calls it first closes it when they do.
	Asked() (asked chan struct{}, first bool)
	// LogUnreachable logs that nobody can release the hold any more.
	LogUnreachable(label *Label)
	// Lose makes the hold end as lost, and those nested with it, as if their renewals had failed because of why for too
	// long. For a hold that has ended already it returns the error of Err. The function that it returns in any case tells
	// the server that they are over, until ctx ends; else what that has of them ends at the latest with its lease.
	Lose(why error) (tell func(ctx context.Context), err error)
}

// Reclaim gives back a hold that nobody can release any more.
func Reclaim(h Holding) {
	if h.Err() != nil {
		return
	}
	go func() { // other cleanups wait for this one; and an observer that is told of the end may close the session
		h.LogUnreachable(h.Label())
		if err := h.Release(); err != nil {
			Unreleased(h, err)
		}
	}()
}

// Unreleased logs why a release failed, unless the hold had ended before, or the session is closed: then it is up to
// Close to give it back, whose error says if that failed.
func Unreleased(h Holding, err error) {
	if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNotHeld) {
		Warn("release failed", h, err)
	}
}

// Warn logs what went wrong with a hold but is not returned to anybody.
func Warn(what string, h Holding, err error) {
	label := h.Label()
	h.Session().Logger().Warn("holdfast: "+what, "kind", label.Title(), "name", label.Name, "error", err)
}
