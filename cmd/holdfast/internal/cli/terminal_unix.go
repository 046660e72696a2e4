//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

func isTerminal(f *os.File) bool {
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

// Keys has the terminal hand over each key at once and not show it, and a read from it return
// nothing, io.EOF, after a tenth of a second without a key. The function returned ends that.
func Keys(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO
	now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, 1
	if err := unix.IoctlSetTermios(fd, setTermios, &now); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, nil
}
