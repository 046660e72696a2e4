//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"
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

// StopUntil stops this process until somebody continues it, as the channel tells.
func StopUntil(continued <-chan os.Signal) {
	_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
	select {
	case <-continued:
	case <-time.After(500 * time.Millisecond): // the first process of a container cannot be stopped
	}
}
