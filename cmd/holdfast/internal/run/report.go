//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/inspect"
	"github.com/holdfast-go/holdfast/internal/survey"
)

// A reporter writes on stderr what happens; stdout is the command's. It never blocks, however slowly somebody reads.
type reporter struct {
	lines         chan line
	name          string
	verbose, json bool
}

// A line is text to write or, if it has a channel, a request to close that when all before it is written.
type line struct {
	text    string
	written chan struct{}
}

func newReporter(out io.Writer, s *settings) *reporter {
	const most = 1000 // unread lines; those that follow are dropped
	r := &reporter{lines: make(chan line, most), name: s.name, verbose: s.verbose, json: s.json}
	go func() { // until the process ends
		for l := range r.lines {
			if l.written != nil {
				close(l.written)
			}
			_, _ = io.WriteString(out, l.text)
		}
	}()
	return r
}

// flush waits until everything is written, but at most a second, because perhaps nobody reads it.
func (r *reporter) flush() {
	l := line{written: make(chan struct{})}
	r.put(l)
	select {
	case <-l.written:
	case <-time.After(time.Second):
	}
}

func (r *reporter) put(l line) {
	select {
	case r.lines <- l:
	default:
	}
}

// A detail is a field of a JSON line.
type detail struct {
	key   string
	value any
}

// say reports what everybody should know.
func (r *reporter) say(event, text string, details ...detail) {
	text = strings.TrimPrefix(text, "holdfast: ") // an error of the library
	if !r.json {
		r.put(line{text: "holdfast: " + text + "\n"})
		return
	}
	name := survey.NewNamed(r.name)
	fields := map[string]any{"event": event, "name": name.Name, "text": text}
	if name.NameBase64 != "" {
		fields["name_base64"] = name.NameBase64
	}
	for _, d := range details {
		fields[d.key] = d.value
	}
	var b strings.Builder
	_ = cli.WriteJSON(&b, fields) // cannot fail: texts, numbers and lists of them
	r.put(line{text: b.String()})
}

// tell reports what is of interest only with --verbose.
func (r *reporter) tell(event, text string, details ...detail) {
	if r.verbose {
		r.say(event, text, details...)
	}
}

// last reports why the run failed, unless that was said before, and waits until it is written. It returns an error
// with the exit code alone.
func (r *reporter) last(err error) error {
	defer r.flush()
	failure, ok := err.(*cli.ExitError) //nolint:errorlint // what run returns, unwrapped
	if err == nil || ok && failure.Err == nil {
		return err
	}
	code := cli.CodeOf(err)
	r.say("error", err.Error(), detail{"code", code})
	return cli.Silent(code)
}

// whoHolds names the holders.
func whoHolds(holders []*survey.Party) string {
	var texts []string
	for _, h := range holders {
		texts = append(texts, inspect.Brief(h))
	}
	const most = 5
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more", len(holders)-most))
	}
	return strings.Join(texts, "; ")
}
