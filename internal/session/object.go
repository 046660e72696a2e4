package session

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watch"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Label is what an object is called.
type Label struct {
	Kind string // as in error texts: the package's name
	Half string // "Read" or "Write" of a lock that has two
	Name string // the caller's
}

// Title says of what kind the object is: "rlock", or "rwlock.Read" of a half.
func (l *Label) Title() string {
	if l.Half == "" {
		return l.Kind
	}
	return l.Kind + "." + l.Half
}

// String is the object as errors call it: rlock "orders".
func (l *Label) String() string { return l.Title() + " " + Quote(l.Name) }

// quotedAtMost is how many bytes of a name an error quotes, which may have 64 KiB, or more if it is refused.
const quotedAtMost = 256

// Quote is a name as errors have it: a long one is cut.
func Quote(name string) string {
	start, rest := cut(name)
	return strconv.Quote(start) + rest
}

// cut returns as much of a name as a text has room for, and what stands for the rest.
func cut(name string) (start, rest string) {
	if len(name) <= quotedAtMost {
		return name, ""
	}
	return name[:quotedAtMost], "…"
}

// Fail is the error of an operation on the object.
func (l *Label) Fail(operation string, err error) error {
	return fmt.Errorf("%s: %s: %w", l, operation, err)
}

// An Object is one name on the server and what every synchronizer of that name has. It is
// immutable.
type Object struct {
	Label
	Channel string // where changes are published
	session *Session
	key     string // the mapped name
	mistake error  // in name or options; every call returns it
}

// InitObject makes o an object of s. A mistake in the name comes back from its calls. channel makes
// the channel's name of the mapped one.
func InitObject(o *Object, s *Session, label Label, channel func(key string) string) {
	*o = Object{Label: label, session: s, key: label.Name}
	if s.config.MapName != nil && label.Name != "" {
		o.key = s.config.MapName(label.Name)
	}
	o.Channel = channel(o.key)
	if o.mistake = o.check(); o.mistake != nil {
		start, rest := cut(o.Name) // which may be of any length
		s.Logger().Warn("holdfast: name refused", "kind", o.Title(), "name", start+rest, "error", o.mistake)
	}
}

func (o *Object) check() error {
	if err := wire.CheckName(o.Name); err != nil {
		return err
	}
	if err := wire.CheckName(o.key); err != nil {
		return fmt.Errorf("mapped %w", err)
	}
	if o.session.cluster {
		return wire.CheckSlot(o.key, o.Channel)
	}
	return nil
}

// NewObject makes an object that has no key, of several locks. Its calls fail because of the mistake, if there is one.
func NewObject(s *Session, label Label, mistake error) Object {
	return Object{Label: label, session: s, mistake: mistake}
}

// Session is the object's.
func (o *Object) Session() *Session { return o.session }

// Refuse makes every call return a mistake in the options, unless there is another mistake already.
func (o *Object) Refuse(mistake error) {
	if o.mistake == nil {
		o.mistake = mistake
	}
}

// Wrong is the mistake in name or options, or nil.
func (o *Object) Wrong() error { return o.mistake }

// Mistake is the error of an operation because of a mistake in name or options, or nil.
func (o *Object) Mistake(operation string) error {
	if o.mistake == nil {
		return nil
	}
	return o.Fail(operation, o.mistake)
}

// Key is the mapped name, under which the server knows the object.
func (o *Object) Key() string { return o.key }

// Line is the name for which callers of the session wait if they want the object.
func (o *Object) Line() wait.Name { return wait.Name{Channel: o.Channel, Key: o.key} }

// Derived is a name that scripts make of the key if they are not given it; "" where they cannot: the names of a key
// with a brace have another form, see [wire.Prefix].
func (o *Object) Derived(name string) string {
	if strings.Contains(o.key, "{") {
		return ""
	}
	return name
}

// Publish is the command by which changes reach those who wait.
func (o *Object) Publish() string {
	if o.session.config.Sharded {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Begin admits a call of the operation; its end is [Session.Leave].
func (o *Object) Begin(ctx context.Context, operation string) error {
	if err := o.Mistake(operation); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return o.Fail(operation, Stopped(ctx))
	}
	if !o.session.Enter() {
		return o.Fail(operation, ErrClosed)
	}
	o.session.Presence().Stir()
	return nil
}

// lookTries is how often a look is sent: connections that died while nobody used them fail their first callers, and
// there may be several such connections.
const lookTries = 3

// Run runs a call of the object and reads its reply. It is sent once, but a look again if the connection was lost with
// it.
func (o *Object) Run(ctx context.Context, operation string, c *script.Call, read func() error) error {
	defer c.Free()
	if err := o.Begin(ctx, operation); err != nil {
		return err
	}
	defer o.session.Leave()
	err := o.session.Runner().Run(ctx, script.Take, c)
	lost := func() bool { return script.ClassOf(err) == script.Unknown && script.IsTemporary(err) }
	for tries := 1; c.Looks() && tries < lookTries && lost(); tries++ {
		err = o.session.Runner().Run(ctx, script.Take, c)
	}
	if err == nil {
		err = read()
	}
	if err != nil {
		return o.FailIn(ctx, operation, Explain(ctx, err))
	}
	return nil
}

// RunInt is Run of a call whose reply is one whole number.
func (o *Object) RunInt(ctx context.Context, operation string, c *script.Call) (n int64, err error) {
	err = o.Run(ctx, operation, c, func() (err error) {
		n, err = c.ReadInt()
		return err
	})
	return n, err
}

// Inspect reads a row of a reply for each holder.
func (o *Object) Inspect(
	ctx context.Context, operation string, call *script.Call, row func(owner string, countAndLease []int64),
) error {
	return o.Run(ctx, operation, call, func() error {
		values, err := call.ReadArray()
		if err != nil {
			return err
		}
		return call.ReadRows(values, 2, row)
	})
}

// A Look is how one sees whether a wait is over.
type Look struct {
	Call func() *script.Call
	Over func(c *script.Call) (bool, error) // reads the reply
}

// Await waits until a look says that it is over, which it then was at some moment of the call; or until ctx ends.
// Callers of the session wait together: see [watch.Watches].
func (o *Object) Await(ctx context.Context, operation string, look Look) (err error) {
	if err := o.Begin(ctx, operation); err != nil {
		return err
	}
	s := o.session
	defer s.Leave()
	var r Retries
	r.About(ctx, o)
	defer func() { r.Tell(err) }()
	c := s.watches.Join(watch.Subject{
		Key: watchKey{o.Kind, o.key},
		Look: func(ctx context.Context) (bool, error) {
			c := look.Call()
			defer c.Free()
			if err := s.Runner().Run(ctx, script.Take, c); err != nil {
				return false, err
			}
			return look.Over(c)
		},
		Listen:  func(wake func()) func() { return s.Listen(o.Channel, wake) },
		Woken:   o.woken,
		Trouble: o.logTrouble,
	})
	defer c.Leave()
	waits := c.Waits()
	for {
		select {
		case <-waits:
			waits = nil
			defer o.waiting()()
		case <-c.Done():
			if c.Err() != nil {
				return o.FailIn(ctx, operation, Explain(context.Background(), c.Err()))
			}
			return nil
		case <-ctx.Done():
			return o.Fail(operation, Stopped(ctx))
		case <-s.closing:
			return o.Fail(operation, ErrClosed)
		}
	}
}

// A watchKey is what makes callers wait for the same.
type watchKey struct{ kind, key string }

// logTrouble logs why an attempt failed that is worth another.
func (o *Object) logTrouble(why error) {
	o.session.Logger().Debug("holdfast: waiting for the server", "kind", o.Title(), "name", o.Name, "error", why)
}

// LogRefusal logs why the server refuses to take something back.
func (o *Object) LogRefusal(why error) {
	o.session.Logger().Warn("holdfast: refused to be given back", "kind", o.Title(), "name", o.Name, "error", why)
}

// Wake lets the session's waiters look, because something has changed.
func (o *Object) Wake() { o.session.Lines().Wake(o.Line()) }

// Released lets the session's waiters look, because something has come back, and got clients have heard of it.
func (o *Object) Released(got int64) { o.session.Lines().Released(o.Line(), o.session.Listeners(got)) }

// Go runs f in a goroutine of the session, which ends some time before ctx does; unless the session is closed already.
func (o *Object) Go(f func(ctx context.Context)) (started bool) {
	s := o.session
	return !s.Closed() && s.Start(func() {
		ctx, cancel := s.whileItLasts()
		defer cancel()
		f(ctx)
	})
}

// UntilLate returns ctx, which ends at the latest when a call that is sent now will not be executed any more.
func (o *Object) UntilLate(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(o.session.NotAfter())
	if !outlasts(ctx, end) {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, end, ErrNoReply)
}

// Change runs a timed call that changes something about the object, within limit from when it is sent. After an error
// the reply says nothing.
func (o *Object) Change(
	ctx context.Context, operation string, limit time.Duration, call func(w script.Window) *script.Call,
) (reply script.Reply, err error) {
	if err := o.Begin(ctx, operation); err != nil {
		return reply, err
	}
	defer o.session.Leave()
	if err = o.session.Runner().Timed(ctx, &reply, o.key, limit, call); err != nil {
		return script.Reply{}, o.FailIn(ctx, operation, Explain(ctx, err))
	}
	return reply, nil
}

// InTime is Change of a call that reports whether it had to change anything.
func (o *Object) InTime(
	ctx context.Context, operation string, limit time.Duration, call func(w script.Window) *script.Call,
) (done bool, err error) {
	reply, err := o.Change(ctx, operation, limit, call)
	return reply.Code == script.Granted, err
}

// Explain is a failure of a call under ctx as the user gets it; other errors stay as they are.
func Explain(ctx context.Context, err error) error {
	f, ok := err.(*script.Failure) //nolint:errorlint // what wraps one has been explained
	switch {
	case !ok:
		return err
	case f.Class == script.Unknown && ctx.Err() != nil:
		return Unknown(Stopped(ctx))
	case f.Class == script.Unknown:
		return Unknown(f)
	case ctx.Err() != nil:
		return Stopped(ctx) // not even sent
	}
	return f
}
