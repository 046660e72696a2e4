package cli

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether a person reads what is written to the file, or types what is read from it.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// TerminalSize is how many characters fit on a terminal, in a line and in a column; 80 and 24 if it does not say.
func TerminalSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width == 0 || height == 0 {
		return 80, 24
	}
	return width, height
}
