package worker

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the monotonic clock that all processes of the machine share.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// attributes make the kernel kill a worker with the test binary, however that ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
