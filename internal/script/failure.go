package script

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/rueidis"
)

// A Class says what is known of a call that did not succeed.
type Class uint8

const (
	// Refused: nothing was changed. The server said no, or never got the call.
	Refused Class = iota + 1
	// Unknown: the call may have been executed, or may still be.
	Unknown
	// Broken: the reply is none that the script's header lists.
	Broken
)

// A Failure is a call without a usable reply. It wraps the server's or the network's own
// error, except that a context error shows through only if it is the caller's context that
// ended: somebody else's deadline must not look like one's own.
type Failure struct {
	Class Class
	// Temporary reports whether waiting may mend it: no connection, a server that is
	// loading, failing over, or not a master at the moment.
	Temporary bool
	Err       error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// ClassOf returns the class of err, 0 if it is none of this package's.
func ClassOf(err error) Class {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	return 0
}

// IsTemporary reports whether err is a failure that waiting may mend.
func IsTemporary(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.Temporary
}

// brokenf is the failure of a reply that nobody documented.
func brokenf(s *Script, format string, args ...any) error {
	return &Failure{Class: Broken, Err: fmt.Errorf("%s: "+format, append([]any{s.name}, args...)...)}
}

// sortFailure makes a Failure of what the client returned for a call under ctx.
func sortFailure(ctx context.Context, err error) *Failure {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		return &Failure{Class: Refused, Temporary: passing(answer), Err: err}
	}
	if ctx.Err() != nil {
		return &Failure{Class: Unknown, Err: context.Cause(ctx)}
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return &Failure{Class: Unknown, Err: err}
	}
	f := &Failure{Class: Unknown, Temporary: true, Err: err}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		f.Class = Refused
	}
	if foreign(err) {
		f.Err = errors.New(err.Error())
	}
	return f
}

// foreign reports whether err would be taken for the caller's own ended context.
func foreign(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// passing reports whether the server's refusal is one of a server that will soon be well.
func passing(answer *rueidis.RedisError) bool {
	if _, moved := answer.IsMoved(); moved {
		return true
	}
	if _, asked := answer.IsAsk(); asked {
		return true
	}
	if answer.IsTryAgain() || answer.IsClusterDown() || answer.IsLoading() {
		return true
	}
	for _, word := range []string{"MASTERDOWN ", "READONLY ", "BUSY ", "NOREPLICAS "} {
		if text := answer.Error(); len(text) >= len(word) && text[:len(word)] == word {
			return true
		}
	}
	return false
}
