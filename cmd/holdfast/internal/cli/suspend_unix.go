//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Suspensions returns a channel that gets something when this process is asked to stop, as by Ctrl-Z,
// and what ends that. Where nobody would continue it, it is not asked.
func Suspensions() (<-chan os.Signal, func()) {
	asked := make(chan os.Signal, 1)
	if session, err := unix.Getsid(0); err == nil && session != unix.Getpgrp() && !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(asked, unix.SIGTSTP)
	}
	return asked, func() { signal.Stop(asked) }
}

// Suspend stops this process until somebody continues it.
func Suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	StopUntil(continued)
}

// StopUntil stops this process until somebody continues it, which the channel is told of.
func StopUntil(continued <-chan os.Signal) {
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	select {
	case <-continued:
	case <-time.After(500 * time.Millisecond): // the first process of a container cannot be stopped
	}
}
