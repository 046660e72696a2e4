package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A screen is where the audience looks. Lines are said one after the other; on a terminal a
// picture stands below them, redrawn in place.
type screen struct {
	out     io.Writer
	live    bool // a terminal, that can draw
	colored bool
	drawn   []string // the picture that stands on the terminal
	err     error    // of the first write that failed: nobody looks any more
}

// Control sequences, the same on all terminals of the last thirty years.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	cut        = "\x1b[?7l" // lines that are too long for the terminal
	wrap       = "\x1b[?7h"
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)

// newScreen draws if out is a terminal, and in color unless NO_COLOR is set.
func newScreen(out *os.File) *screen {
	s := &screen{out: out, live: cli.IsTerminal(out) && os.Getenv("TERM") != "dumb", colored: cli.Colors(out)}
	if s.live {
		s.write(hideCursor)
	}
	return s
}

// close leaves the terminal as it was found.
func (s *screen) close() {
	s.clear()
	if s.live {
		s.write(showCursor)
	}
}

// say writes a line that stays, above the picture.
func (s *screen) say(line string) { s.redraw(line+"\n", s.drawn) }

// draw replaces the picture.
func (s *screen) draw(picture []string) { s.redraw("", picture) }

// clear removes the picture.
func (s *screen) clear() { s.redraw("", nil) }

// redraw goes up to where the picture begins and writes all anew, in one piece.
func (s *screen) redraw(above string, picture []string) {
	if !s.live {
		s.write(above)
		return
	}
	var b strings.Builder
	if n := len(s.drawn); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dF", n)
		above = strings.ReplaceAll(above, "\n", eraseRight+"\n")
	}
	b.WriteString(above)
	if len(picture) > 0 {
		b.WriteString(cut + strings.Join(picture, eraseRight+"\n") + eraseRight + "\n" + wrap)
	}
	if len(s.drawn) > 0 {
		b.WriteString(eraseBelow)
	}
	s.drawn = picture
	s.write(b.String())
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
