// Package inspect has the commands that show what is locked and free it: ls, show, wait, deadlocks, ask and
// unlock. They take and show names as they are on the server, after any mapping.
package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Commands are the commands ls, show, wait, deadlocks, ask and unlock.
func Commands(redis *cli.Redis) []*cobra.Command {
	return []*cobra.Command{
		lsCommand(redis), showCommand(redis), waitCommand(redis), deadlocksCommand(redis), askCommand(redis),
		unlockCommand(redis),
	}
}

// patience is how long what may change something waits for the server.
const patience = 5 * time.Second

// impatient makes a connection that is lost end the command.
func impatient(opt *rueidis.ClientOption) { opt.DisableRetry = true }

// onServer does what a command is for with a client, and returns its failure.
func onServer(
	ctx context.Context, redis *cli.Redis, set func(*rueidis.ClientOption), do func(rueidis.Client) error,
) error {
	client, err := redis.Client(set)
	if err != nil {
		return failure(ctx, redis, err)
	}
	defer client.Close()
	return failure(ctx, redis, do(client))
}

// needed is what a user of Redis must have for these commands to show everything.
const needed = "these commands need +scan +type +exists +pttl +get +getrange +hlen +hscan +hstrlen +llen +lrange " +
	"+zcard +zcount +zrange +zscore +time on the keys of the names and those beside them, +cluster|slots in a cluster, " +
	"and ask and unlock what the library needs"

// failure is an error of Redis with its exit code, or the exit by the signal that ended ctx.
func failure(ctx context.Context, redis *cli.Redis, err error) error {
	if refusal.Denied(err) {
		err = fmt.Errorf("%w; %s", err, needed)
	}
	return redis.Failure(ctx, err)
}

// onName is a command on one name.
func onName(redis *cli.Redis, use, short string, do func(ctx context.Context, name string) error) *cobra.Command {
	checkName := func(_ *cobra.Command, args []string) error { return wire.CheckName(args[0]) }
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.MatchAll(cobra.ExactArgs(1), checkName), ValidArgsFunction: completeName(redis),
		RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args[0]) },
	}
}

// kindFlag defines the flag --kind of a command on one name.
func kindFlag(cmd *cobra.Command, kind *string) {
	cmd.Flags().StringVar(kind, "kind", "", "what it is, where the server cannot tell: a `kind` of ls")
	cli.Choose(cmd, "kind", survey.Kinds)
}
