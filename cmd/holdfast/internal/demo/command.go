package demo

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

const redisFlag = "redis"

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
		Args:      oneScene,
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := withSecret(redis)
			if err != nil {
				return err
			}
			chosen := scenes()
			if len(args) == 1 {
				chosen = []scene{sceneOf(args[0])}
			}
			ctx, release := cli.UntilSignal(cmd.Context())
			defer release()
			// A reader who has gone, as in "demo | head", is a failed write and not a sudden end.
			signal.Ignore(syscall.SIGPIPE)
			err = run(ctx, os.Stdout, server, chosen)
			if stopped := cli.Stopped(ctx); stopped != nil && err != nil {
				return cli.Exit(stopped.Code, fmt.Errorf("demo: %w", stopped))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&redis, redisFlag, "", "`URL` of a server to use instead of the embedded one")
	cmd.AddCommand(workerCommand())
	return cmd
}

// oneScene refuses arguments that are not the name of one scene.
func oneScene(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("demo shows one scene or all of them, not %d", len(args))
	case len(args) == 1 && sceneOf(args[0]).play == nil:
		return fmt.Errorf("demo has no scene %q", args[0])
	}
	return nil
}

// workerCommand is what the demo starts its processes as.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C reaches every process of the terminal, but it is the coordinator that ends the workers.
			signal.Ignore(os.Interrupt)
			return work(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}

// withSecret adds the password to the URL of a server. The workers read it from a pipe: a command line
// is no place for it.
func withSecret(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if err := cli.Public(text); err != nil {
		return "", err
	}
	text = cli.FullURL(text)
	if _, err := rueidis.ParseURL(text); err != nil {
		return "", cli.Usagef("--%s: %w; want [redis://][user@]host[:port][/database], rediss:// or unix://", redisFlag, err)
	}
	password := os.Getenv(cli.EnvPassword)
	if password == "" {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", cli.Usagef("--%s: %w", redisFlag, err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}
