// Command holdfast shows what the locks of Holdfast do.
//
// Its exit status is 0 if everything went well, 64 if it was called wrongly, 130 if it was
// interrupted, and 1 otherwise.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

const (
	exitFailed      = 1
	exitUsage       = 64 // EX_USAGE of sysexits.h
	exitInterrupted = 130
)

func main() { os.Exit(run()) }

func run() int {
	called := false // rightly: the arguments were understood
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Redisson-compatible distributed locks on Redis",
		Long: `Holdfast is a Go library of distributed locks on Redis that a Go process and a
Java process with Redisson can share. This command shows what they do.`,
		Example:           "  holdfast demo\n  holdfast demo lock --redis redis://localhost:6379",
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { called = true },
	}
	root.AddCommand(demo.Command())

	cmd, err := root.ExecuteC()
	switch {
	case err == nil:
		return 0
	case errors.Is(err, demo.ErrInterrupted):
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return exitInterrupted
	case called:
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return exitFailed
	default:
		fmt.Fprintf(os.Stderr, "holdfast: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	}
}

// version is that of the module the command was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
