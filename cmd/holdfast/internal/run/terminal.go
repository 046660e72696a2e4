//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A terminal is the one that holdfast was started from, on which one process group is in the foreground:
// it may read, and gets what is typed as Ctrl-C.
type terminal struct {
	file    *os.File
	own     int // holdfast's process group
	restore func()
}

// openTerminal returns the controlling terminal, nil if there is none.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	restore, err := cli.Modes(file)
	if err != nil {
		restore = func() {}
	}
	return &terminal{file, syscall.Getpgrp(), restore}
}

// foreground is the group that has the terminal f, 0 if f is not the controlling one.
func foreground(f *os.File) int {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// give puts a group into the foreground. SIGTTOU must be ignored.
func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
}

// takeBack puts holdfast's group into the foreground if the other one is there.
func (t *terminal) takeBack(group int) {
	if foreground(t.file) == group {
		t.give(t.own)
	}
}

// ours reports whether holdfast's group has the terminal.
func (t *terminal) ours() bool { return foreground(t.file) == t.own }

// wanted reports whether the command should have it from the start. Otherwise it gets it when it asks:
// it may stand in a pipeline, and the pager at the end, of holdfast's group, needs it more.
func (t *terminal) wanted() bool {
	return t.ours() && foreground(os.Stdin) != 0 && foreground(os.Stdout) != 0
}

// hasJobs reports whether holdfast is a job of a shell that could continue it. It is none in the group of
// the session's leader, which is a shell without jobs, or holdfast itself.
func (t *terminal) hasJobs() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != t.own
}

// endByInterrupt ends holdfast by SIGINT if that may have been Ctrl-C: a shell's script goes on after a
// program that ended otherwise.
func endByInterrupt() {
	t := openTerminal()
	if t == nil || !t.ours() || signal.Ignored(syscall.SIGINT) || os.Getpid() == 1 { // no signal ends that
		return
	}
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT)
	<-time.After(time.Second) // it comes at once
}
