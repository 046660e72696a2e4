package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plural is how many there are of what.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Roughly is a duration for people.
func Roughly(d time.Duration) string {
	switch d = d.Abs(); {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// Safe is text as it may be written to a terminal or into a line: as it is if it can be printed, and
// else in Go's quotes, with escapes. Text that begins with a quote is quoted as well, so the two are
// never taken for each other.
func Safe(text string) string {
	plain := text != "" && text[0] != '"' && text[0] != ' ' && text[len(text)-1] != ' ' && utf8.ValidString(text)
	if plain && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	return strconv.Quote(text)
}

// Print prints an answer: the object if JSON is asked for, else the text.
func Print(asJSON bool, object any, text string) error { //nolint:revive // what the user asks for
	if asJSON {
		return Exit(ExitNo, WriteJSON(os.Stdout, object))
	}
	_, err := os.Stdout.WriteString(text)
	return Exit(ExitNo, err)
}

// WriteJSON writes a value as one line of JSON, in which everything is escaped that a terminal might obey.
func WriteJSON(w io.Writer, value any) error {
	var line, safe strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	for _, r := range line.String() {
		if r < 0x7f || unicode.IsPrint(r) { // below DEL the encoder has escaped what must be
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, safe.String())
	return err
}
