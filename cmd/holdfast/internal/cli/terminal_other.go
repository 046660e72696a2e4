//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package cli

import "os"

// IsTerminal reports whether a person reads what is written to the file, or types what is read from it.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// TerminalSize is how many characters are taken to fit on a terminal, in a line and in a column.
func TerminalSize(*os.File) (width, height int) { return 80, 24 }
