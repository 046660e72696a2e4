package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var kindScript = script.LoadLook("name_kind")

// A shape describes the keys of a name.
type shape struct {
	kinds []string // that look like it
	words string
}

// shapes are the replies of name_kind that say something.
var shapes = map[string]shape{
	"lock":      {[]string{"rlock", "fairlock"}, "an rlock or a fairlock"},
	"fairlock":  {[]string{"fairlock"}, "a fairlock"},
	"rwlock":    {[]string{"rwlock"}, "an rwlock"},
	"text":      {[]string{"setlock"}, "a setlock, or a text of another program"},
	"count":     {[]string{"semaphore", "latch", "barrier"}, "a semaphore or a latch"},
	"permits":   {[]string{"semaphore", "barrier"}, "a semaphore of permits with leases"},
	"something": {nil, "something else"},
}

// lookAtMost is how long it may take to learn why the server has refused a call.
const lookAtMost = time.Second

// Fail is the error of an operation on the object. If the server has refused it because of what its keys hold, it says
// of what kind the name is.
func (o *Object) Fail(operation string, err error) error {
	return o.FailIn(context.Background(), operation, err)
}

// FailIn is Fail in a call that is not to last longer than ctx.
func (o *Object) FailIn(ctx context.Context, operation string, err error) error {
	return o.FailBy(ctx, Forever, operation, err)
}

// FailBy is FailIn in a call that is over by then as well, see [Session.Over].
func (o *Object) FailBy(ctx context.Context, over time.Duration, operation string, err error) error {
	if o.key != "" && script.Mismatched(err) && !errors.Is(err, ErrWrongKind) {
		within, cancel := context.WithTimeout(ctx, max(over-o.session.Now(), Grace/5))
		defer cancel()
		err = o.otherKind(within, err)
	}
	return o.Label.Fail(operation, o.session.Ended(err))
}

// Ended is the error of a call, which says so if it was under way and Close has not waited for its reply, or if waiting
// cannot mend the error any more.
func (s *Session) Ended(err error) error {
	if (errors.Is(err, rueidis.ErrClosing) || errors.Is(err, ErrNoReply) || Passes(err)) && s.Closed() {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// otherKind is a refusal that says of what kind the name is, if it is not of the object's.
func (o *Object) otherKind(ctx context.Context, refusal error) error {
	look := script.NewCall(kindScript).Key(o.key).Spare(wire.PermitsKey(o.key), wire.FairDue(o.key))
	there, _ := o.kindThere(ctx, look)
	if there == "" {
		return refusal
	}
	return &kindError{there: there, refusal: refusal}
}

// overtaken is why a call is to fail that has waited for an rlock for a while: others stand in a fair lock's queue for
// the name, and nobody would wake this call, or it would overtake them. A session that may not look does so once.
func (o *Object) overtaken(ctx context.Context) error {
	if o.Kind != "rlock" || o.session.blind.Load() {
		return nil
	}
	there, err := o.kindThere(ctx, script.NewCall(kindScript).Key(o.key, wire.PermitsKey(o.key), wire.FairDue(o.key)))
	if script.BecauseOfKeys(err) && !script.Passes(err) {
		o.session.blind.Store(true)
	}
	if there == "" {
		return nil
	}
	return &kindError{there: there}
}

// kindThere asks of what kind the name is; "" if it may be of the object's.
func (o *Object) kindThere(ctx context.Context, c *script.Call) (words string, err error) {
	defer c.Free()
	if !o.session.Enter() {
		return "", ErrClosed
	}
	defer o.session.Leave()
	ctx, cancel := context.WithTimeout(ctx, lookAtMost)
	defer cancel()
	if err := o.session.Runner().Run(ctx, script.Take, c); err != nil {
		return "", err
	}
	there := shapes[c.Text()]
	if slices.Contains(there.kinds, o.Kind) {
		return "", nil
	}
	return there.words, nil
}

// A kindError says of what kind a name is.
type kindError struct {
	there   string
	refusal error // the server's, in its own words; nil: there was none
}

func (e *kindError) Error() string {
	return fmt.Sprintf("%v: the name is that of %s", ErrWrongKind, e.there)
}

func (e *kindError) Unwrap() []error {
	if e.refusal == nil {
		return []error{ErrWrongKind}
	}
	return []error{ErrWrongKind, e.refusal}
}
