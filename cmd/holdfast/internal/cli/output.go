package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsTerminal reports whether a person reads what is written to the file, or types what is read from it.
func IsTerminal(f *os.File) bool { return isTerminal(f) }

// Colors reports whether what is written to the file may be colored.
func Colors(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(f)
}

// Plural is how many there are of what.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Safe is text as it may be written to a terminal or into a line: as it is if it can be printed, and
// else in Go's quotes, with escapes. Text that begins with a quote is quoted as well, so the two are
// never taken for each other.
func Safe(text string) string {
	if text != "" && text[0] != '"' && text[0] != ' ' && text[len(text)-1] != ' ' && utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable) {
		return text
	}
	return strconv.Quote(text)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// obeyed reports whether JSON may have a rune that a terminal may obey: those below DEL it escapes.
func obeyed(r rune) bool { return r >= 0x7f && unprintable(r) }

// WriteJSON writes a value as one line of JSON. What a terminal might obey is escaped.
func WriteJSON(w io.Writer, value any) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	line := b.String()
	if !strings.ContainsFunc(line, obeyed) {
		_, err := io.WriteString(w, line)
		return err
	}
	line = strings.TrimSuffix(line, "\n")
	b.Reset()
	for _, r := range line {
		switch {
		case !obeyed(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}
