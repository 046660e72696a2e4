package core

import (
	"context"
	"runtime"

	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Hold is one acquisition as its user gets it. The root package exports it.
type Hold struct{ inside session.Holding }

// NewHold returns the user's hold of h. Apart from [Hold.Keep], nothing in the library refers to it: once the user does
// not either, nobody can release it any more.
func NewHold(h session.Holding) *Hold {
	hold := &Hold{h}
	if hold.reclaimed() {
		runtime.AddCleanup(hold, session.Reclaim, h)
	}
	return hold
}

// Inside returns the inside of the hold.
func (h *Hold) Inside() session.Holding { return h.inside }

// reclaimed reports whether the hold is given back when it has become unreachable.
func (h *Hold) reclaimed() bool { return h.inside.Session().Config().Reclaim }

// Keep keeps the hold reachable until it ends.
func (h *Hold) Keep() {
	if h.reclaimed() {
		h.inside.Watch(func(error) { runtime.KeepAlive(h) })
	}
}

// Err returns the Err of the inside.
func (h *Hold) Err() error { return h.inside.Err() }

// Context returns the Context of the inside, and keeps the hold reachable.
func (h *Hold) Context(ctx context.Context) context.Context {
	if !h.reclaimed() {
		return h.inside.Context(ctx)
	}
	return scope.Of(ctx, h, h.inside.Context)
}

// Name is the lock's name as the caller gave it.
func (h *Hold) Name() string { return h.inside.Label().Name }
