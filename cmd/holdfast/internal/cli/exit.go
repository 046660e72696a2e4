// Package cli is what the commands of holdfast share: how they reach Redis, how they fail, how they
// print.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes of holdfast, as "holdfast help exit-codes" explains them. Those from 64 to 78 are of sysexits.h.
const (
	ExitOK          = 0
	ExitNo          = 1
	ExitUsage       = 64
	ExitUnavailable = 69
	ExitSoftware    = 70
	ExitTempFail    = 75
	ExitLost        = 79
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

// Exit returns an error that ends the command with code, nil if err is nil.
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Code: code, Err: err}
}

// Usagef is the error of a command that was called wrongly.
func Usagef(format string, args ...any) error { return Exit(ExitUsage, fmt.Errorf(format, args...)) }

// Nof is an answer that is no.
func Nof(format string, args ...any) error { return Exit(ExitNo, fmt.Errorf(format, args...)) }

// Afterwards is the error of what came after something was changed: it must not look as if nothing were.
func Afterwards(err error) error {
	if err == nil {
		return nil
	}
	return Exit(ExitTempFail, fmt.Errorf("it was done, but then: %w", err))
}

// Silent ends the command with a code and says nothing.
func Silent(code int) error { return &ExitError{Code: code} }

// CodeOf is the code with which err ends the command.
func CodeOf(err error) int {
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	if err != nil {
		return ExitNo
	}
	return ExitOK
}

// A stop is the signal that ended a command.
type stop struct{ signal syscall.Signal }

func (s stop) Error() string {
	if s.signal == syscall.SIGINT {
		return "interrupted"
	}
	return s.signal.String()
}

// Catch sends signals to c, but for SIGHUP and SIGINT if this process was started to ignore them, as by nohup. Go does
// not tell whether it was started to ignore others.
func Catch(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// UntilSignal returns a context that ends with the first signal that asks the command to end.
func UntilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	Catch(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	go func() {
		select {
		case s := <-signals:
			cancel(stop{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Stopped returns the exit by a signal if one ended ctx, with its name as the reason; else nil.
func Stopped(ctx context.Context) *ExitError {
	if s, ok := errors.AsType[stop](context.Cause(ctx)); ok {
		return &ExitError{Code: ExitSignal + int(s.signal), Err: s}
	}
	return nil
}

// OutliveReaders makes a write fail if nobody reads any more, as in "| head": SIGPIPE would end the command before it
// has finished, or has said that it was done. It is caught instead of ignored, because a child would inherit that.
func OutliveReaders() { Catch(make(chan os.Signal, 1), syscall.SIGPIPE) }
