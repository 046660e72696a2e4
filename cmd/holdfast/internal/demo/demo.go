// Package demo is the command "holdfast demo": scenes in which several processes share a
// synchronizer while the demo does to them what production does.
//
// The coordinator starts the processes, which are this program again as the hidden command
// "demo worker". It gives them orders and hears what they do over pipes, one JSON object per line
// (worker.go). Each scene is a file: its story, which the coordinator tells, and its work, which
// the processes do. In lock.go and fair.go they count (counting.go), in pool.go they do jobs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/embedded"
)

// A scene is one act of the demo, about ten seconds long.
type scene struct {
	name  string
	short string

	// story returns the coordinator's part.
	story func(s *stage) story
	// work returns what each goroutine of a worker process does again and again.
	work func(w *worker, s *holdfast.Session) func(ctx context.Context) error
}

// scenes are all scenes, in order.
func scenes() []scene { return []scene{lockScene, fairScene, poolScene} }

// run plays the scenes, on an embedded server if redis is empty.
func run(ctx context.Context, out *os.File, redis string, chosen []scene) (err error) {
	folder, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	where := "a real server"
	if redis == "" {
		server, err := embedded.Start()
		if err != nil {
			return fmt.Errorf("demo: embedded server: %w", err)
		}
		defer server.Close()
		redis, where = server.URL(), "an embedded server"
		_ = errors.Join(os.Unsetenv(cli.EnvUser), os.Unsetenv(cli.EnvPassword)) // they are for a server of the user's
	}
	screen := cli.NewScreen(out)
	defer screen.Clear()
	for _, sc := range chosen {
		if err := play(ctx, sc, screen, redis, where, folder); err != nil {
			return fmt.Errorf("demo: %s: %w", sc.name, err)
		}
	}
	return screen.Err
}

// play plays one scene; none of its processes is left afterwards.
func play(ctx context.Context, sc scene, screen *cli.Screen, redis, where, folder string) error {
	screen.Say("")
	screen.Say(screen.Color(cli.Bold, "holdfast demo "+sc.name) + " on " + where + ": " + sc.short)
	session, err := cli.At(redis).Open(&holdfast.Options{Anonymous: true})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // it holds nothing
	s := newStage(sc.name, screen, redis, folder, session)
	defer s.close()
	s.story = sc.story(s)
	if err := s.story.tell(ctx); err != nil {
		return err
	}
	screen.Say(screen.Color(cli.Green, "Everything held."))
	return nil
}

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
			if _, err := cli.At(redis).Options(); redis != "" && err != nil {
				return err
			}
			var given []string
			cmd.Flags().Visit(func(f *pflag.Flag) { given = append(given, f.Name) })
			if given = slices.DeleteFunc(given, func(name string) bool { return name == "redis" }); len(given) > 0 {
				return cli.Usagef("demo takes --redis alone, and no --%s", given[0])
			}
			chosen := slices.DeleteFunc(scenes(), func(s scene) bool { return len(args) == 1 && s.name != args[0] })
			ctx, release := cli.UntilSignal(cmd.Context())
			defer release()
			cli.OutliveReaders()
			err := run(ctx, os.Stdout, redis, chosen)
			if stopped := cli.Stopped(ctx); stopped != nil && err != nil {
				return cli.Exit(stopped.Code, fmt.Errorf("demo: %w", stopped))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&redis, "redis", "", "`URL` of a server to use instead of the embedded one")
	cmd.AddCommand(&cobra.Command{
		Use: "worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // Ctrl-C reaches all processes, but it is the coordinator that ends the workers
			return work(cmd.Context(), os.Stdin, os.Stdout)
		},
	})
	return cmd
}
