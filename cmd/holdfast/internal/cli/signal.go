package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// A stop is the signal that ended a command.
type stop struct{ signal syscall.Signal }

func (s stop) Error() string {
	if s.signal == syscall.SIGINT {
		return "interrupted"
	}
	return s.signal.String()
}

// UntilSignal returns a context that ends with the first of the signals.
func UntilSignal(parent context.Context, which ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, which...)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	go func() {
		select {
		case s := <-signals:
			number, _ := s.(syscall.Signal)
			cancel(stop{number})
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
