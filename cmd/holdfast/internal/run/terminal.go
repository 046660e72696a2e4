//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal is the one that holdfast was started from. The process group in its foreground may read from it, and
// gets the signals that are typed, such as Ctrl-C.
type terminal struct {
	file  *os.File
	own   int         // holdfast's process group
	modes *term.State // at the start; nil if it does not say
}

// openTerminal returns the controlling terminal, nil if there is none.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	modes, _ := term.GetState(int(file.Fd()))
	return &terminal{file, syscall.Getpgrp(), modes}
}

// foreground is the group in the foreground of the terminal f, 0 if f is not the controlling one.
func foreground(f *os.File) int {
	group, _ := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP) // 0 with an error
	return group
}

// give puts a group into the foreground. SIGTTOU must be ignored.
func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
}

// takeBack puts holdfast's group into the foreground, unless somebody else than the group given has that, such as the
// shell of a job in the background. It reports whether it has. If a signal has ended the command, it then restores the
// modes.
func (t *terminal) takeBack(group int, by syscall.Signal) bool {
	now := foreground(t.file)
	if now != 0 && now != group && now != t.own && !errors.Is(syscall.Kill(-now, 0), syscall.ESRCH) {
		return false
	}
	t.give(t.own)
	if by != 0 && t.modes != nil {
		_ = term.Restore(int(t.file.Fd()), t.modes)
	}
	return true
}

// ours reports whether holdfast's group has the terminal.
func (t *terminal) ours() bool { return foreground(t.file) == t.own }

// wanted reports whether the command should have the terminal from the start. Otherwise it gets it when it asks: in a
// pipeline a pager at the end, which is of holdfast's group, needs it more.
func (t *terminal) wanted() bool {
	return t.ours() && foreground(os.Stdin) != 0 && foreground(os.Stdout) != 0
}

// hasJobs reports whether holdfast is a job of a shell that could continue it. It is not if it is in the group of the
// session's leader: that is a shell without job control, or holdfast itself.
func (t *terminal) hasJobs() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != t.own
}

// endByInterrupt ends holdfast by SIGINT if somebody may have typed Ctrl-C: after a program that ends otherwise, a
// shell script goes on.
func endByInterrupt() {
	t := openTerminal()
	if t == nil || !t.ours() || signal.Ignored(syscall.SIGINT) || os.Getpid() == 1 { // which no signal ends
		return
	}
	signal.Reset(syscall.SIGINT)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT)
	<-time.After(time.Second) // the signal arrives at once
}
