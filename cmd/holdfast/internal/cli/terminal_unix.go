//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a person reads what is written to the file, or types what is read from it.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// TerminalSize is how many characters fit on a terminal, in a line and in a column; 80 and 24 if it
// does not say.
func TerminalSize(f *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return 80, 24
	}
	return int(size.Col), int(size.Row)
}

// Modes returns what sets the terminal back to the modes that it has now.
func Modes(f *os.File) (restore func(), err error) {
	now, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), setTermios, now) }, err
}

// Keys makes the terminal hand over each key at once and not show it, and makes a read from it return
// nothing, io.EOF, after a tenth of a second without a key. The function returned ends that.
func Keys(f *os.File) (restore func(), err error) {
	if restore, err = Modes(f); err != nil {
		return nil, err
	}
	modes, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err != nil {
		return nil, err
	}
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 0, 1
	return restore, unix.IoctlSetTermios(int(f.Fd()), setTermios, modes)
}

// Suspensions returns a channel that gets something when this process is asked to stop, as by Ctrl-Z,
// and a function that ends that. Where nobody would continue the process, it is not asked.
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

// StopUntil stops this process until somebody continues it, as the channel tells.
func StopUntil(continued <-chan os.Signal) {
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	select {
	case <-continued:
	case <-time.After(500 * time.Millisecond): // the first process of a container cannot be stopped
	}
}
