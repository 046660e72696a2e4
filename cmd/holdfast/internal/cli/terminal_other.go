//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package cli

import (
	"errors"
	"os"
)

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// TerminalSize is how many characters are taken to fit on a terminal, in a line and in a column.
func TerminalSize(*os.File) (width, height int) { return 80, 24 }

// Modes is not to be had here.
func Modes(*os.File) (restore func(), err error) {
	return nil, errors.New("the modes of a terminal are not known on this system")
}

// Keys is not to be had here.
func Keys(*os.File) (restore func(), err error) {
	return nil, errors.New("single keys are not read on this system")
}
