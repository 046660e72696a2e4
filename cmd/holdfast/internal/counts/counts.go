// Package counts has the commands for what is a number on the server: latches and semaphores.
package counts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Commands are the commands "latch" and "semaphore".
func Commands(redis *cli.Redis) []*cobra.Command {
	return []*cobra.Command{latchCommand(redis), semaphoreCommand(redis)}
}

// most is the largest count that Lua's numbers tell from its neighbours.
const most = 1<<53 - 1

// A task is what all these commands have: where, for how long, and how they answer.
type task struct {
	redis   *cli.Redis
	timeout time.Duration
	asJSON  bool
}

func (t *task) flags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	cli.SecondsVar(flags, &t.timeout, "timeout", 10*time.Second, "give up after so long")
	flags.BoolVar(&t.asJSON, "json", false, "print one JSON object")
}

// do runs one call in a session of its own. channel is where those listen who wait for the name.
func (t *task) do(cmd *cobra.Command, name, channel string, call func(context.Context, *holdfast.Session) error) error {
	if err := wire.CheckName(name); err != nil {
		return cli.Exit(cli.ExitUsage, err)
	}
	if t.timeout <= 0 {
		return cli.Usagef("--timeout is %v, must be above 0", t.timeout)
	}
	session, err := t.redis.Open(&holdfast.Options{Anonymous: true})
	if err != nil {
		return err
	}
	defer session.Close()
	ctx, stop := cli.UntilSignal(cmd.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	err = call(ctx, session)
	if err == nil {
		return nil
	}
	failure, coded := errors.AsType[*cli.ExitError](err)
	if !coded {
		failure = &cli.ExitError{Code: codeOf(err, name, channel), Err: fmt.Errorf("%s: %w", t.redis.Place(), err)}
	}
	return unlessStopped(ctx, failure)
}

// unlessStopped is the failure, or the exit by a signal if that ended ctx. What is not known then, or was
// done, is said all the same; an answer that is no stays one.
func unlessStopped(ctx context.Context, failure *cli.ExitError) error {
	stopped := cli.Stopped(ctx)
	switch {
	case stopped == nil, failure.Code == cli.ExitNo, failure.Code == cli.ExitUsage:
		return failure
	case failure.Code == cli.ExitTempFail:
		return cli.Exit(stopped.Code, failure.Err)
	}
	return cli.Silent(stopped.Code)
}

// unread is the error of a question, which changes nothing, whether or not it has reached the server.
func unread(err error) error {
	if errors.Is(err, holdfast.ErrUnknown) {
		return errors.New(err.Error())
	}
	return err
}

// codeOf is the exit code of a call's error.
func codeOf(err error, name, channel string) int {
	switch {
	case errors.Is(err, holdfast.ErrUnknown):
		return cli.ExitTempFail
	case errors.Is(err, holdfast.ErrNotHeld):
		return cli.ExitNo
	case wire.CheckSlot(name, channel) != nil: // only a cluster minds
		return cli.ExitUsage
	}
	return cli.ExitUnavailable
}

// number reads an argument that is a whole number from least on.
func number(what, text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, cli.Usagef("%s is %q, must be a whole number from %d to 2^53 - 1", what, text, least)
	}
	return n, nil
}

// no is an answer that is no.
func no(format string, args ...any) error {
	return &cli.ExitError{Code: cli.ExitNo, Err: fmt.Errorf(format, args...)}
}

// refuse is an answer that is no, with what stands in the way: as JSON if that is asked for, else in words.
func (t *task) refuse(out io.Writer, object any, format string, args ...any) error {
	if !t.asJSON {
		return no(format, args...)
	}
	if err := t.say(out, object, "", ""); err != nil {
		return err
	}
	return cli.Silent(cli.ExitNo)
}

// afterwards is the error of what came after something was changed: it must not look as if nothing were.
func afterwards(err error) error {
	if err == nil {
		return nil
	}
	return cli.Exit(cli.ExitTempFail, fmt.Errorf("it was done, but then: %w", err))
}

// say prints an answer: the object if JSON is asked for, on a terminal the text, in a pipe the line.
func (t *task) say(out io.Writer, object any, text, line string) error {
	if t.asJSON {
		return cli.Exit(cli.ExitNo, cli.WriteJSON(out, object))
	}
	if file, ok := out.(*os.File); ok && cli.IsTerminal(file) {
		line = text
	}
	if line == "" {
		return nil
	}
	_, err := fmt.Fprintln(out, line)
	return cli.Exit(cli.ExitNo, err)
}
