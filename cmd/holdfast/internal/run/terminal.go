//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

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

// foreground is the group that has the terminal.
func (t *terminal) foreground() int { return foreground(t.file) }

// foreground is the group that has the terminal f, 0 if f is not the controlling one.
func foreground(f *os.File) int {
	var group int32
	if _, _, bad := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group))); bad != 0 {
		return 0
	}
	return int(group)
}

// give puts a group into the foreground. SIGTTOU must be ignored.
func (t *terminal) give(group int) {
	id := int32(group)
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, t.file.Fd(), syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&id)))
}

// ours reports whether holdfast's group has the terminal.
func (t *terminal) ours() bool { return t.foreground() == t.own }

// wanted reports whether the command should have it from the start. Otherwise it gets it when it asks:
// it may stand in a pipeline, and the pager at the end, of holdfast's group, needs it more.
func (t *terminal) wanted() bool {
	return t.ours() && foreground(os.Stdin) != 0 && foreground(os.Stdout) != 0
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

// hasJobs reports whether holdfast is a job of a shell that could continue it. It is none in the group of
// the session's leader, which is a shell without jobs, or holdfast itself.
func (t *terminal) hasJobs() bool {
	session, _, bad := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	return bad == 0 && int(session) != t.own
}
