package session

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// An Observer learns what a session does; each function may be nil, and so may what those return that return one. The
// root package has a type for users, and says when they are called.
type Observer struct {
	Acquire func(ctx context.Context, kind, name string) (done func(Acquired))
	Attempt func(kind, name string, took time.Duration, err error)
	Wait    func(kind, name string) (done func())
	WakeUp  func(kind, name string, by wait.Cause)
	Hold    func(ctx context.Context, kind, name string) (ended func(held time.Duration, err error))
	Renewal func(kind, name string, err error)
	Term    func(ctx context.Context, kind, name string, number int64) (ended func(held time.Duration, err error))
}

// Acquired is the outcome of a call that takes something or waits.
type Acquired struct {
	Took       time.Duration
	Attempts   int
	HandedOver bool
	Granted    bool
	Err        error
}

// Acquiring says that a call begins which takes something or waits. The function that it returns must be called with
// the outcome, and adds how long it took; nil: nobody wants to know.
func (o *Object) Acquiring(ctx context.Context) (done func(Acquired)) {
	observer := o.session.Config().Observer
	if observer == nil || observer.Acquire == nil {
		return nil
	}
	began := time.Now()
	tell := observer.Acquire(ctx, o.Title(), o.Name)
	if tell == nil {
		return nil
	}
	return func(a Acquired) {
		a.Took = time.Since(began)
		tell(a)
	}
}

// Attempting says that an attempt begins. What it returns is to be told how that ended; nil: nobody
// wants to know.
func (o *Object) Attempting(ctx context.Context) (done func(err error)) {
	observer := o.session.Config().Observer
	if observer == nil || observer.Attempt == nil {
		return nil
	}
	began := time.Now()
	return func(err error) { observer.Attempt(o.Title(), o.Name, time.Since(began), Explain(ctx, err)) }
}

// waiting says that a call begins to wait; it waits until the returned function is called.
func (o *Object) waiting() (done func()) {
	observer := o.session.Config().Observer
	if observer == nil || observer.Wait == nil {
		return nothing
	}
	if done := observer.Wait(o.Title(), o.Name); done != nil {
		return done
	}
	return nothing
}

func nothing() {}

// woken says that a wait was interrupted, and why.
func (o *Object) woken(by wait.Cause) {
	if observer := o.session.Config().Observer; observer != nil && observer.WakeUp != nil {
		observer.WakeUp(o.Title(), o.Name, by)
	}
}

// Holding says that h, which has that label, is held, under the ctx of the call that took it. The function that it
// returns must be called with the outcome, nil if it was released or detached; nil: nobody wants to know.
func (s *Session) Holding(ctx context.Context, label *Label, h Identified) (ended func(held time.Duration, why error)) {
	var observed func(held time.Duration, why error)
	if observer := s.config.Observer; observer != nil && observer.Hold != nil {
		observed = observer.Hold(ctx, label.Title(), label.Name)
	}
	note := NoteIn(ctx)
	if note == "" || h.ID() == "" {
		return observed
	}
	forget := s.presence.Note(h.ID(), note)
	return func(held time.Duration, why error) {
		forget()
		if observed != nil {
			observed(held, why)
		}
	}
}

// Leading says that a term of that number begins. The function that it returns must be called with its end, nil if it
// was resigned; nil: nobody wants to know.
func (o *Object) Leading(ctx context.Context, number int64) (ended func(held time.Duration, why error)) {
	observer := o.session.Config().Observer
	if observer == nil || observer.Term == nil {
		return nil
	}
	return observer.Term(ctx, o.Title(), o.Name, number)
}

type noteKey struct{}

// WithNote returns ctx with a note for everything that is taken with it.
func WithNote(ctx context.Context, note string) context.Context {
	return context.WithValue(ctx, noteKey{}, note)
}

// NoteIn is the note that ctx has, "" if it has none.
func NoteIn(ctx context.Context) string {
	note, _ := ctx.Value(noteKey{}).(string)
	return note
}

// LogLoss logs the end of a hold with that label, if it is a loss: nil is none.
func (s *Session) LogLoss(label *Label, loss error, held time.Duration) {
	if loss != nil {
		s.Logger().Warn("holdfast: lost", "kind", label.Title(), "name", label.Name,
			"held", held.Round(time.Millisecond), "error", loss)
	}
}

// Acquiring is [Object.Acquiring] for a lock without a key of its own.
func (s *Session) Acquiring(ctx context.Context, label Label) (done func(Acquired)) {
	if ctx.Err() != nil || s.Closed() {
		return nil
	}
	several := NewObject(s, label, nil)
	return several.Acquiring(ctx)
}
