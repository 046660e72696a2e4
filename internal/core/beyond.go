package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// What packages use that make something of several locks or sessions.

// Attached is what a package keeps for a session, one of each type. The first to ask makes it.
func Attached[T any](s *Session, make func(s *Session) *T) *T {
	if had, ok := s.attached.Load((*T)(nil)); ok {
		return had.(*T)
	}
	had, _ := s.attached.LoadOrStore((*T)(nil), make(s))
	return had.(*T)
}

// NewLines makes queues of callers of the session besides those of single names.
func (s *Session) NewLines() *wait.Lines { return wait.NewLines(s.Listen, s.closing) }

// Listen has wake called for each message of a channel, and whenever one may have been missed.
func (s *Session) Listen(channel string, wake func()) (stop func()) {
	return s.hub.Listen(channel, wake).Close
}

// Now is the present moment, counted from the session's beginning.
func (s *Session) Now() time.Duration { return s.now() }

// Closed reports whether Close has been called.
func (s *Session) Closed() bool { return s.isClosed() }

// Context is the life of the session's goroutines.
func (s *Session) Context() context.Context { return s.ctx }

// Start runs f in a goroutine that Close waits for, unless Close has waited already.
func (s *Session) Start(f func()) bool { return s.start(f) }

// Logger is the session's.
func (s *Session) Logger() *slog.Logger { return s.config.Logger }

// Runner runs the session's calls.
func (s *Session) Runner() *script.Runner { return s.runner }

// Lines are the queues of the session's callers in front of single names.
func (s *Session) Lines() *wait.Lines { return s.lines }

// Paid is when the server last answered a call that gave something back in the background; 0 if it never has.
func (s *Session) Paid() time.Duration { return time.Duration(s.paid.Load()) }

// Admit lets a call begin, which may leave something on the server, until what it returns is called. Else the
// session is closed.
func (s *Session) Admit() (leave func(), err error) {
	if !s.calls.enter() {
		return nil, ErrClosed
	}
	s.known.Stir()
	return s.calls.leave, nil
}

// NewObject makes an object that has no key, of several locks. Its calls fail because of the mistake, if there is one.
func NewObject(s *Session, label Label, mistake error) Object {
	return Object{Label: label, session: s, mistake: mistake}
}

// Session is the object's.
func (o *Object) Session() *Session { return o.session }

// Line is what those of a session wait for who want the object.
func (o *Object) Line() wait.Name { return o.line() }

// Title says of what kind an object is: "rlock", or "rwlock.Read" of a half.
func (l *Label) Title() string { return l.title() }

// Length is the lease of the holds that are taken through the lock.
func (l *Lock) Length() time.Duration { return l.length() }

// Slot is that of the lock's key; 0 unless the server is a cluster.
func (l *Lock) Slot() uint16 { return l.slot }

// Of is the lock of the hold.
func (h *Single) Of() *Lock { return h.lock }

// Told is how many clients of others were told of the release of the last hold of the name.
func (h *Single) Told() int {
	others := h.tenure.listeners()
	if h.lock.session.hub.Subscribed(h.lock.Channel) {
		others--
	}
	return others
}

// An Age is what a server tells of itself with a grant.
type Age struct {
	Replied bool      // the server has answered, whatever it was
	At      time.Time // then
	Up      int64     // seconds; below zero: it does not tell
	Run     int64     // which run of the server it is
}

// TryWithAge makes one attempt, and has the server tell its age. The error is without what the lock is.
func (l *Lock) TryWithAge(ctx context.Context) (*Single, Age, error) {
	a := acquisition{age: true}
	h, err := a.call(ctx, l, "try lock", 0)
	if err != nil {
		err = errors.Unwrap(err)
	}
	answer := &a.answer
	return h, Age{Replied: answer.at > 0, At: l.session.clock.time(answer.at), Up: answer.up, Run: answer.run}, err
}

// OwnerOf is the owner that ctx carries; nil if it carries none.
func OwnerOf(ctx context.Context) *Owner { return ownerOf(ctx) }

// As returns ctx with the owner.
func (o *Owner) As(ctx context.Context) context.Context { return scope.WithOwner(ctx, o) }

// Explain is a failure of a call under ctx as the user gets it; other errors stay as they are.
func Explain(ctx context.Context, err error) error { return explain(ctx, err) }

// Stopped says why ctx ended, so that errors.Is finds both its Err and its cause.
func Stopped(ctx context.Context) error { return stopped(ctx) }

// Unknown says that the effect of a call is not known, and why.
func Unknown(why error) error { return unknown(why) }
