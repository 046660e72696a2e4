//go:build !linux && !darwin && !freebsd && !openbsd && !dragonfly

// Package run is the command "run", which needs the processes, signals and terminals of Linux, macOS, FreeBSD, OpenBSD
// or DragonFly.
package run

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// Command is a command that reports that it cannot run here.
func Command(*cli.Redis) *cobra.Command {
	return &cobra.Command{
		Use:                "run NAME -- COMMAND [ARG]...",
		Short:              "Hold a lock while a command runs (not on this system)",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.Exit(cli.ExitUnavailable, errors.New("run: needs Linux, macOS, FreeBSD, OpenBSD or DragonFly"))
		},
	}
}
