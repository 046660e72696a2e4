package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/script"
)

// The sentinels of the toolkit, each the answer to one question. The root package exports them.
var (
	ErrBusy        = errors.New("holdfast: busy")
	ErrNotHeld     = errors.New("holdfast: not held")
	ErrLost        = errors.New("holdfast: lost")
	ErrAlreadyHeld = errors.New("holdfast: already held by this owner")
	ErrDeadlock    = errors.New("holdfast: deadlock")
	ErrWrongKind   = errors.New("holdfast: wrong kind")
	ErrClosed      = errors.New("holdfast: session closed")
	ErrUnknown     = errors.New("holdfast: outcome unknown")
	ErrNoReply     = script.ErrNoReply

	ErrNotAcknowledged = errors.New("holdfast: not acknowledged")
)

// mayPass reports whether a call was refused for a reason that may pass, or could not even be sent in time.
func mayPass(err error) bool {
	return script.MayPass(err) || script.ClassOf(err) == script.Refused && errors.Is(err, ErrNoReply)
}

// Stopped says why ctx ended, so that errors.Is finds both its Err and its cause.
func Stopped(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Unknown says that the effect of a call is not known, and why.
func Unknown(why error) error {
	if why == nil {
		return ErrUnknown
	}
	return fmt.Errorf("%w: %w", ErrUnknown, why)
}

// Passes reports whether waiting may mend an error of a call: a server that is away, say.
func Passes(err error) bool { return script.IsTemporary(err) }

// LoginFailed marks the error of whoever has the credentials of connections: it is none of a connection to the server.
func LoginFailed(err error) error { return &script.LoginError{Err: err} }
