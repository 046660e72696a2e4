package demo

import (
	"io"
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A screen is where the story is told, line by line. On a terminal a line of progress stands below
// the others and is rewritten in place.
type screen struct {
	out     io.Writer
	live    bool // a terminal
	colored bool
	err     error // of the first write that failed: nobody reads any more
}

const startOver = "\r\x1b[K" // goes to the beginning of the line and erases it

func newScreen(out *os.File) *screen {
	return &screen{out: out, live: cli.IsTerminal(out) && os.Getenv("TERM") != "dumb", colored: cli.Colors(out)}
}

// say writes a line that stays.
func (s *screen) say(line string) {
	s.clear()
	s.write(line + "\n")
}

// clear removes the line of progress.
func (s *screen) clear() {
	if s.live {
		s.write(startOver)
	}
}

func (s *screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}

// Colors, where there are any.
func (s *screen) bold(text string) string   { return s.color("1", text) }
func (s *screen) dim(text string) string    { return s.color("2", text) }
func (s *screen) red(text string) string    { return s.color("31", text) }
func (s *screen) green(text string) string  { return s.color("32", text) }
func (s *screen) yellow(text string) string { return s.color("33", text) }

func (s *screen) color(code, text string) string {
	if !s.colored {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[m"
}
