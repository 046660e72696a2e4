// Command holdfast runs commands under locks, shows who holds what, and helps the person on call.
// Its exit codes are listed in docs/command.md, and by holdfast help exit-codes.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/bench"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/counts"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/inspect"
	runcommand "github.com/holdfast-go/holdfast/cmd/holdfast/internal/run"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/trial"
)

func main() { os.Exit(run()) }

func run() int {
	called := false // with arguments that it understands
	root := &cobra.Command{
		Use:              "holdfast",
		Short:            "Distributed locks on Redis: use them, see them, mend them",
		Version:          version(),
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { called = true },
	}
	redis := &cli.Redis{}
	redis.Flags(root.PersistentFlags())
	prints := func(cmd *cobra.Command, _ []string) error { return cli.Print(false, nil, cmd.Long+"\n") }
	root.AddCommand(counts.Commands(redis)...)
	root.AddCommand(inspect.Commands(redis)...)
	root.AddCommand(runcommand.Commands(redis)...)
	root.AddCommand(
		demo.Command(), bench.Command(redis), doctor.Command(redis), trial.Command(redis),
		&cobra.Command{Use: "exit-codes", Short: "What the exit status says", Args: cobra.NoArgs, RunE: prints},
		&cobra.Command{
			Use: "version", Short: "Print the version", Long: "holdfast version " + version(), Args: cobra.NoArgs, RunE: prints,
		},
	)
	cli.Topics(root)
	cli.Layout(root)
	cmd, err := root.ExecuteC()
	failure, coded := errors.AsType[*cli.ExitError](err)
	switch {
	case err != nil && !called && !coded:
		fmt.Fprintf(os.Stderr, "holdfast: %v\nUsage: %s\nSee '%s --help'.\n", err, cmd.UseLine(), cmd.CommandPath())
		return cli.ExitUsage
	case err != nil && (!coded || failure.Err != nil):
		fmt.Fprintln(os.Stderr, "holdfast:", strings.TrimPrefix(err.Error(), "holdfast: "))
	}
	return cli.CodeOf(err)
}

// version is that of the module the command was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
