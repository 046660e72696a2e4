package holdfastotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
)

// several are errors, perhaps none.
type several []error

func (s several) Error() string   { return "several" }
func (s several) Unwrap() []error { return s }

func TestOutcomes(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("rlock %q: lock: %w", "orders", err) }
	for _, c := range []struct {
		err  error
		want outcome
		kind string // error.type
	}{
		{nil, acquired, ""},
		{wrap(holdfast.ErrBusy), busy, "busy"},
		{wrap(&holdfast.LostError{}), lost, "lost"},
		{wrap(&holdfast.LostError{Err: &net.OpError{Err: errors.New("reset")}}), lost, "lost"},
		{wrap(holdfast.ErrClosed), closed, "closed"},
		{wrap(holdfast.ErrDeadlock), deadlock, "deadlock"},
		{wrap(holdfast.ErrWrongKind), wrongKind, "wrong_kind"},
		{wrap(&holdfast.NotAcknowledgedError{Wanted: 1}), unacked, "not_acknowledged"},
		{wrap(holdfast.ErrUnknown), unknown, "unknown"},
		{wrap(fmt.Errorf("%w: %w", holdfast.ErrUnknown, net.UnknownNetworkError("x"))), unknown, "net.UnknownNetworkError"},
		{wrap(fmt.Errorf("%w: %w", holdfast.ErrUnknown, context.Canceled)), unknown, "context.Canceled"},
		{wrap(context.Canceled), cancelled, "context.Canceled"},
		{wrap(fmt.Errorf("%w: %w", context.DeadlineExceeded, errors.New("cause"))), cancelled, "context.DeadlineExceeded"},
		{wrap(fmt.Errorf("%w: %w", context.Canceled, holdfast.ErrBusy)), cancelled, "context.Canceled"},
		{wrap(fmt.Errorf("%w: %w", context.Canceled, holdfast.ErrDeadlock)), cancelled, "context.Canceled"},
		{
			wrap(fmt.Errorf("%w: %w: %w", holdfast.ErrUnknown, context.Canceled, holdfast.ErrBusy)),
			unknown, "context.Canceled",
		},
		{wrap(errors.New("name is empty")), failure, "error"},
		{wrap(&net.AddrError{}), failure, "*net.AddrError"},
		{wrap(&net.DNSError{}), failure, "*net.DNSError"}, // its Unwrap returns nil
		{wrap(several{}), failure, "holdfastotel.several"},
		{errors.Join(errors.New("one"), &net.AddrError{}), failure, "*net.AddrError"},
	} {
		o := outcomeOf(c.err, acquired)
		assert.Equal(t, c.want, o, c.err)
		if c.err != nil {
			assert.Equal(t, c.kind, errorType(c.err, o), c.err)
		}
	}
}

func TestWhatIsAnErrorToATrace(t *testing.T) {
	t.Parallel()
	for o, want := range map[outcome]bool{
		acquired: false, busy: false, cancelled: false, released: false, lost: true, closed: true, unknown: true,
		deadlock: true, wrongKind: true, unacked: true, failure: true,
	} {
		assert.Equal(t, want, o.bad(), o)
	}
}
