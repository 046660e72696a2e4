// Package cli is what the commands of holdfast share: how they reach Redis, how they fail, how they
// print.
package cli

import (
	"errors"
	"fmt"
)

// The exit codes of holdfast. Those from 64 to 78 are of sysexits.h; a command that is run tells by
// its own.
const (
	ExitOK          = 0
	ExitNo          = 1   // the answer is no: taken, not open in time, nothing of that name; failed
	ExitUsage       = 64  // called wrongly
	ExitUnavailable = 69  // Redis cannot be reached or refuses, a command cannot be run
	ExitSoftware    = 70  // what must not happen
	ExitTempFail    = 75  // the connection was lost under way: whether it was done is not known
	ExitLost        = 79  // the lock was lost while the command ran
	ExitSignal      = 128 // and the number of the signal
)

// An ExitError is why a command ends, and with which code.
type ExitError struct {
	Code int
	Err  error // nil: all has been said
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit returns an error that ends the command with code, nil if err is.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Code: code, Err: err}
}

// Usagef is the error of a command that was called wrongly.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

// Silent ends the command with a code and says nothing.
func Silent(code int) error { return &ExitError{Code: code} }

// CodeOf is the code with which err ends the command.
func CodeOf(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return ExitNo
}
