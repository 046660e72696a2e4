//go:build linux || darwin || freebsd || openbsd || dragonfly

package fleet

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is a clock that all processes of a machine share, and that nobody sets.
func Uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return time.Duration(now.Nano())
}
