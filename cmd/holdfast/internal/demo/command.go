package demo

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// Command is the command "demo".
func Command() *cobra.Command {
	var redis string
	var names []cobra.Completion
	for _, s := range scenes() {
		names = append(names, cobra.CompletionWithDesc(s.name, s.short))
	}
	cmd := &cobra.Command{
		Use:       "demo [SCENE]",
		Short:     "Show locks at work while their holders are killed and stopped",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if redis != "" {
				if _, err := cli.At(redis).Options(); err != nil {
					return err
				}
			}
			chosen := slices.DeleteFunc(scenes(), func(s scene) bool { return len(args) == 1 && s.name != args[0] })
			ctx, release := cli.UntilSignal(cmd.Context())
			defer release()
			// If the reader has gone, as in "demo | head", a write fails instead of ending the demo at once.
			signal.Ignore(syscall.SIGPIPE)
			err := run(ctx, os.Stdout, redis, chosen)
			if stopped := cli.Stopped(ctx); stopped != nil && err != nil {
				return cli.Exit(stopped.Code, fmt.Errorf("demo: %w", stopped))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&redis, "redis", "", "`URL` of a server to use instead of the embedded one")
	cmd.AddCommand(workerCommand())
	return cmd
}

// workerCommand is the command that the demo's worker processes run.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C reaches every process of the terminal, but the coordinator ends the workers.
			signal.Ignore(os.Interrupt)
			return work(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}
