//go:build !linux && !darwin && !freebsd && !openbsd && !dragonfly

// Package run has commands that need the processes, signals and terminals of Linux, macOS, FreeBSD, OpenBSD or
// DragonFly. Elsewhere there are none.
package run

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// Commands are those that can run here.
func Commands(*cli.Redis) []*cobra.Command { return nil }
