package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// A Screen is where a command says something line by line. On a terminal a line of progress stands below the others
// and is rewritten in place. After a write that failed it writes no more.
type Screen struct {
	Out           io.Writer
	Live, Colored bool  // a terminal that can go back in a line; and has colors
	Err           error // of the first write that failed: nobody reads any more
}

const startOver = "\r\x1b[K" // goes to the beginning of the line and erases it

// NewScreen returns a screen that suits out.
func NewScreen(out io.Writer) *Screen {
	s := &Screen{Out: out}
	if file, ok := out.(*os.File); ok {
		s.Live = IsTerminal(file) && os.Getenv("TERM") != "dumb"
		s.Colored = s.Live && os.Getenv("NO_COLOR") == ""
	}
	return s
}

// Say writes a line that stays.
func (s *Screen) Say(line string) {
	s.Clear()
	s.Write(line + "\n")
}

// Progress writes the line of progress, which needs a terminal.
func (s *Screen) Progress(line string) { s.Write(startOver + line) }

// Clear removes it.
func (s *Screen) Clear() {
	if s.Live {
		s.Write(startOver)
	}
}

// Write writes a text.
func (s *Screen) Write(text string) {
	if s.Err == nil {
		_, s.Err = io.WriteString(s.Out, text)
	}
}

// The numbers of colors and of other ways to write, as terminals know them.
const (
	Bold   = "1"
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// Color is the text in a color, where there are colors.
func (s *Screen) Color(color, text string) string {
	if !s.Colored {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[m"
}

// Confirm asks a person a question, and reports whether the answer is yes.
func Confirm(question string) bool {
	fmt.Fprint(os.Stderr, question, " [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// IsTerminal reports whether a person reads what is written to the file, or types what is read from it.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// TerminalSize is how many characters fit on a terminal, in a line and in a column; 80 and 24 if it does not say.
func TerminalSize(f *os.File) (width, height int) {
	if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
		return width, height
	}
	return 80, 24
}
