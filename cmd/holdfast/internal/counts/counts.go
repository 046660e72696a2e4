// Package counts has the commands for what is a number on the server: latches and semaphores.
package counts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
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

// A group is the commands for one kind of number.
type group struct {
	*cobra.Command
	redis   *cli.Redis
	channel func(name string) string // where the waiters for a name listen
	timeout time.Duration
	asJSON  bool
}

func newGroup(redis *cli.Redis, use, short string, channel func(string) string) *group {
	g := &group{redis: redis, channel: channel}
	g.Command = &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: cli.Help}
	cli.SecondsVar(g.PersistentFlags(), &g.timeout, "timeout", 10*time.Second, "give up after this long")
	g.PersistentFlags().BoolVar(&g.asJSON, "json", false, "print one JSON object")
	return g
}

// A call is one use of a command.
type call struct {
	*group
	*holdfast.Session
	ctx  context.Context //nolint:containedctx // of one call
	out  io.Writer
	name string
	n    int      // the argument N
	ids  []string // the arguments behind the name, if they are ids
}

// add adds a command. N, if the command has it, is at least least.
func (g *group) add(use, short string, least int, run func(*call) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(strings.Count(use, " "))}
	if strings.HasSuffix(use, "[ID...]") {
		cmd.Args = cobra.MinimumNArgs(1)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		c := &call{group: g, out: cmd.OutOrStdout(), name: args[0], ids: args[1:]}
		if strings.HasSuffix(use, " N") {
			if c.n, err = strconv.Atoi(args[1]); err != nil || c.n < least || c.n > most {
				return cli.Usagef("N is %q, must be a whole number from %d to 2^53 - 1", args[1], least)
			}
		}
		if err := wire.CheckName(c.name); err != nil {
			return cli.Exit(cli.ExitUsage, err)
		}
		if g.timeout <= 0 {
			return cli.Usagef("--timeout is %v, must be above 0", g.timeout)
		}
		return c.do(cmd.Context(), run)
	}
	g.AddCommand(cmd)
	return cmd
}

// do runs the call in a session of its own.
func (c *call) do(ctx context.Context, run func(*call) error) (err error) {
	if c.Session, err = c.redis.Open(&holdfast.Options{Anonymous: true}); err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.ctx = ctx
	err = run(c)
	_, coded := errors.AsType[*cli.ExitError](err)
	switch {
	case err == nil, coded, errors.Is(err, holdfast.ErrUnknown):
	case errors.Is(err, holdfast.ErrNotHeld):
		err = cli.Exit(cli.ExitNo, err)
	case wire.CheckSlot(c.name, c.channel(c.name)) != nil: // only a cluster minds
		err = cli.Exit(cli.ExitUsage, err)
	}
	return c.redis.Failure(ctx, err)
}

// unread is the error of a question, which changes nothing, whether or not it has reached the server.
func unread(err error) error {
	if errors.Is(err, holdfast.ErrUnknown) {
		return errors.New(err.Error())
	}
	return err
}

// refuse is an answer that is no, with what stands in the way: as JSON if that is asked for, else in words.
func (c *call) refuse(object any, format string, args ...any) error {
	if !c.asJSON {
		return cli.Nof(format, args...)
	}
	if err := c.say(object, "", ""); err != nil {
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
func (c *call) say(object any, text, line string) error {
	if c.asJSON {
		return cli.Exit(cli.ExitNo, cli.WriteJSON(c.out, object))
	}
	if file, ok := c.out.(*os.File); ok && cli.IsTerminal(file) {
		line = text
	}
	if line == "" {
		return nil
	}
	_, err := fmt.Fprintln(c.out, line)
	return cli.Exit(cli.ExitNo, err)
}
