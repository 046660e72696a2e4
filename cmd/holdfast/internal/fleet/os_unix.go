//go:build unix

package fleet

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Suspend stops the process wherever it is.
func (p *Process) Suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Wake continues it.
func (p *Process) Wake() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Uptime is a clock that all processes of a machine share, and that nobody sets.
func Uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return time.Duration(now.Nano())
}
