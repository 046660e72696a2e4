package holdfastotel

import (
	"context"
	"errors"
	"reflect"

	"github.com/holdfast-go/holdfast"
)

// An outcome is a value of the attribute holdfast.outcome.
type outcome string

const (
	acquired  outcome = "acquired" // of a call or an attempt
	busy      outcome = "busy"
	cancelled outcome = "cancelled"
	unknown   outcome = "unknown"
	deadlock  outcome = "deadlock"
	wrongKind outcome = "wrong_kind"
	unacked   outcome = "not_acknowledged"
	failure   outcome = "error"

	released outcome = "released" // of a hold

	lost   outcome = "lost" // of either
	closed outcome = "closed"

	renewed outcome = "renewed" // of a renewal
	failed  outcome = "failed"
)

// outcomeOf names how a call, an attempt or a hold ended; well is the outcome without an error. What else the error of
// a ctx matches is why that has ended: another call was busy, say.
func outcomeOf(err error, well outcome) outcome {
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		return well
	case errors.Is(err, holdfast.ErrLost):
		return lost
	case errors.Is(err, holdfast.ErrClosed):
		return closed
	case ended && errors.Is(err, holdfast.ErrUnknown):
		return unknown
	case ended:
		return cancelled
	case errors.Is(err, holdfast.ErrBusy):
		return busy
	case errors.Is(err, holdfast.ErrDeadlock):
		return deadlock
	case errors.Is(err, holdfast.ErrWrongKind):
		return wrongKind
	case errors.Is(err, holdfast.ErrNotAcknowledged):
		return unacked
	case errors.Is(err, holdfast.ErrUnknown):
		return unknown
	}
	return failure
}

// bad reports whether the outcome is an error for the reader of traces.
func (o outcome) bad() bool {
	switch o {
	case lost, closed, unknown, deadlock, wrongKind, unacked, failure:
		return true
	}
	return false
}

// errorType returns a value of the attribute error.type. There are only few such values: the type of the innermost
// error, if it has one that says anything.
func errorType(err error, o outcome) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "context.DeadlineExceeded"
	case errors.Is(err, context.Canceled):
		return "context.Canceled"
	}
	cause := reflect.TypeOf(innermost(err))
	if cause == textOnly {
		return string(o)
	}
	return cause.String()
}

var textOnly = reflect.TypeOf(errors.New(""))

// innermost returns the last cause of an error, if there are several.
func innermost(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // goes down by itself
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			causes := e.Unwrap()
			if len(causes) == 0 {
				return err
			}
			err = causes[len(causes)-1]
		default:
			return err
		}
	}
}
