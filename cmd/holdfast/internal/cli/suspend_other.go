//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package cli

import "os"

// Suspensions has nobody ask for one here.
func Suspensions() (<-chan os.Signal, func()) { return nil, func() {} }

// Suspend is not to be had here.
func Suspend() {}
