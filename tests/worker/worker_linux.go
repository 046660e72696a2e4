package worker

import (
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
