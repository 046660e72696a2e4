package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// An Observer is told what a session does; each function may be nil, and so may what those return that
// return one. The root package has a type for users, and says when they are called.
type Observer struct {
	Acquire func(ctx context.Context, kind, name string) (done func(took time.Duration, attempts int, err error))
	Attempt func(kind, name string, took time.Duration, err error)
	Wait    func(kind, name string) (done func())
	WakeUp  func(kind, name string, by wait.Cause)
	Hold    func(ctx context.Context, kind, name string) (ended func(held time.Duration, err error))
	Renewal func(kind, name string, err error)
}

// acquiring says that a call begins which takes something or waits. What it returns is to be told how
// that ended; nil: nobody wants to know.
func (o *Object) acquiring(ctx context.Context) (done func(attempts int, err error)) {
	observer := o.session.config.Observer
	if observer == nil || observer.Acquire == nil {
		return nil
	}
	began := time.Now()
	tell := observer.Acquire(ctx, o.title(), o.Name)
	if tell == nil {
		return nil
	}
	return func(attempts int, err error) { tell(time.Since(began), attempts, err) }
}

// Acquiring is acquiring for a call that takes several locks, of which this is one.
func (l *Lock) Acquiring(ctx context.Context, label Label) (done func(attempts int, err error)) {
	if ctx.Err() != nil || l.session.isClosed() {
		return nil
	}
	several := Object{Label: label, session: l.session}
	return several.acquiring(ctx)
}

// Attempting says that an attempt begins. What it returns is to be told how that ended; nil: nobody
// wants to know.
func (o *Object) Attempting(ctx context.Context) (done func(err error)) {
	observer := o.session.config.Observer
	if observer == nil || observer.Attempt == nil {
		return nil
	}
	began := time.Now()
	return func(err error) { observer.Attempt(o.title(), o.Name, time.Since(began), explain(ctx, err)) }
}

// waiting says that a call begins to wait, until what it returns is called.
func (o *Object) waiting() (done func()) {
	observer := o.session.config.Observer
	if observer == nil || observer.Wait == nil {
		return nothing
	}
	if done := observer.Wait(o.title(), o.Name); done != nil {
		return done
	}
	return nothing
}

func nothing() {}

// woken says that a wait was interrupted, and why.
func (o *Object) woken(by wait.Cause) {
	if observer := o.session.config.Observer; observer != nil && observer.WakeUp != nil {
		observer.WakeUp(o.title(), o.Name, by)
	}
}

// Holding says that what the label names is held, under the ctx of the call that took it. What it returns is to be
// told how that ended, with nil if it was released or detached; nil: nobody wants to know.
func (s *Session) Holding(ctx context.Context, label *Label) (ended func(held time.Duration, why error)) {
	observer := s.config.Observer
	if observer == nil || observer.Hold == nil {
		return nil
	}
	return observer.Hold(ctx, label.title(), label.Name)
}

// Observe says that the hold has begun.
func (h *Single) Observe(ctx context.Context) {
	ended := h.lock.session.Holding(ctx, &h.lock.Label)
	if ended == nil {
		return
	}
	h.tenure.claim.mu.Lock()
	h.observed = ended
	h.tenure.claim.mu.Unlock()
	if why := h.ended.Load(); why != nil && why != releasedEnd { // meanwhile
		held := h.held()
		if why.loss != nil {
			held = min(held, h.Trust()-h.Acquired()) // though it may have been noticed later
		}
		h.observeEnd(why, held)
	}
}

// tellEnd says that the hold has ended, after so long. It runs code of the user's, so nothing is left to be
// done by whoever calls it, and it is called without a mutex or the claim's turn.
func (h *Single) tellEnd(why *ending, held time.Duration) {
	defer h.observeEnd(why, held)
	h.lock.session.LogLoss(&h.lock.Label, why.loss, held)
}

// observeEnd tells the observer that the hold has ended, unless it has been told.
func (h *Single) observeEnd(why *ending, held time.Duration) {
	if h.lock.session.config.Observer == nil {
		return
	}
	h.tenure.claim.mu.Lock()
	ended := h.observed
	h.observed = nil
	h.tenure.claim.mu.Unlock()
	switch {
	case ended == nil:
	case why == releasedEnd || why == detachedEnd:
		ended(held, nil)
	default:
		ended(held, why.err)
	}
}

// LogLoss logs the end of what the label names, if it is a loss: nil is none.
func (s *Session) LogLoss(label *Label, loss error, held time.Duration) {
	if loss != nil {
		s.config.Logger.Warn("holdfast: lost", "kind", label.title(), "name", label.Name,
			"held", held.Round(time.Millisecond), "error", loss)
	}
}
