// Package inspect has the commands that look at what is locked and see to it: ls, show, wait and
// unlock. They take and show names as they are on the server, after any mapping. What they read they
// read with plain commands, no more of any key than a few hundred entries, so they can be let loose
// on any server; between two commands the world may change, and a key that has gone in between is
// left out.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// Commands are the commands ls, show, wait and unlock.
func Commands(redis *cli.Redis) []*cobra.Command {
	return []*cobra.Command{lsCommand(redis), showCommand(redis), waitCommand(redis), unlockCommand(redis)}
}

// connect returns a client. How patient it is with a server that does not answer is the caller's.
func connect(redis *cli.Redis, patience func(*rueidis.ClientOption)) (rueidis.Client, error) {
	opt, err := redis.Options()
	if err != nil {
		return nil, err
	}
	patience(&opt)
	client, err := redis.NewClient(opt)
	switch {
	case denied(err):
		return nil, failure(redis, err)
	case err != nil:
		return nil, redis.Unreached(err)
	}
	return client, nil
}

// once has a connection that is lost end the command.
func once(opt *rueidis.ClientOption) { opt.DisableRetry = true }

// patiently has it made anew.
func patiently(*rueidis.ClientOption) {}

// rights are what a user of Redis must be allowed for these commands to tell everything.
const rights = "these commands need +scan +type +exists +pttl +get +getrange +hlen +hscan +hstrlen +llen +lrange +zcard +zcount +zrange +zscore +time " +
	"on the keys of the names and those beside them, +cluster|slots in a cluster, and unlock what the library needs"

// failure is an error with its exit code: all that Redis may say is that it is of no help.
func failure(redis *cli.Redis, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*cli.ExitError](err); ok {
		return err
	}
	if denied(err) {
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("%s: %w; %s", redis.Place(), err, rights))
	}
	return cli.Exit(cli.ExitUnavailable, fmt.Errorf("%s: %w", redis.Place(), err))
}

// denied reports whether Redis says that the user may not do that.
func denied(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(said.Error(), "NOPERM")
}

// deniedKey reports whether it is for the key's sake.
func deniedKey(err error) bool {
	return denied(err) && !strings.Contains(err.Error(), "permissions to run")
}

// untilSignal returns a context that ends with the first signal that asks the command to end.
func untilSignal(parent context.Context) (context.Context, func()) {
	return cli.UntilSignal(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// unlessStopped is err, or the exit by a signal if that ended ctx.
func unlessStopped(ctx context.Context, err error) error {
	if stopped := cli.Stopped(ctx); stopped != nil && err != nil {
		return cli.Silent(stopped.Code)
	}
	return err
}

// oneName refuses anything but one name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one name, got %d", cmd.Name(), len(args))
	}
	if args[0] == "" {
		return errors.New("the name is empty")
	}
	return nil
}
