package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	"count":     {[]string{"semaphore", "latch"}, "a semaphore or a latch"},
	"permits":   {[]string{"semaphore"}, "a semaphore of permits with leases"},
	"something": {nil, "something else"},
}

// lookAtMost is how long it may take to learn why the server has refused a call.
const lookAtMost = time.Second

// Fail is the error of an operation on the object. If the server has refused it because of what its keys hold, it says
// of what kind the name is.
func (o *Object) Fail(operation string, err error) error {
	if o.key != "" && script.Mismatched(err) && !errors.Is(err, ErrWrongKind) {
		err = o.otherKind(err)
	}
	return o.Label.Fail(operation, err)
}

// otherKind is a refusal that says of what kind the name is, if it is not of the object's.
func (o *Object) otherKind(refusal error) error {
	if !o.session.Enter() {
		return refusal
	}
	defer o.session.Leave()
	ctx, cancel := context.WithTimeout(context.Background(), lookAtMost)
	defer cancel()
	c := script.NewCall(kindScript).Key(o.key).Spare(wire.PermitsKey(o.key), wire.FairDue(o.key))
	defer c.Free()
	if o.session.Runner().Run(ctx, script.Take, c) != nil {
		return refusal
	}
	there, known := shapes[c.Text()]
	if !known || slices.Contains(there.kinds, o.Kind) {
		return refusal
	}
	return &kindError{there: there.words, refusal: refusal}
}

// A kindError says of what kind a name is.
type kindError struct {
	there   string
	refusal error // the server's, in its own words
}

func (e *kindError) Error() string {
	return fmt.Sprintf("%v: the name is that of %s", ErrWrongKind, e.there)
}
func (e *kindError) Unwrap() []error { return []error{ErrWrongKind, e.refusal} }
