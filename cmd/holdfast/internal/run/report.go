//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/inspect"
	"github.com/holdfast-go/holdfast/internal/survey"
)

// A reporter says on stderr what happens; stdout is the command's. Whoever says something does not wait
// until it is read, which may take for ever.
type reporter struct {
	out           io.Writer
	name          string
	verbose, json bool

	mu     sync.Mutex    // guards what follows
	lines  []string      // that are not written yet, in order
	silent chan struct{} // closed when there are none; nil: there are none
}

func newReporter(out io.Writer, s *settings) *reporter {
	return &reporter{out: out, name: s.name, verbose: s.verbose, json: s.json}
}

// put has a line written after those before it.
func (r *reporter) put(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	if r.silent == nil {
		r.silent = make(chan struct{})
		go r.write()
	}
}

// write writes lines until there are none.
func (r *reporter) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.lines) > 0 {
		line := r.lines[0]
		r.lines = r.lines[1:]
		r.mu.Unlock()
		_, _ = io.WriteString(r.out, line)
		r.mu.Lock()
	}
	close(r.silent)
	r.silent = nil
}

// flush waits until all has been written, but for no longer than a second: perhaps nobody reads it.
func (r *reporter) flush() {
	const most = time.Second
	r.mu.Lock()
	silent := r.silent
	r.mu.Unlock()
	if silent == nil {
		return
	}
	select {
	case <-silent:
	case <-time.After(most):
	}
}

// A detail is a field of a JSON line.
type detail struct {
	key   string
	value any
}

// say says what everybody should know.
func (r *reporter) say(event, text string, details ...detail) {
	text = strings.TrimPrefix(text, "holdfast: ") // an error of the library's
	if !r.json {
		r.put("holdfast: " + text + "\n")
		return
	}
	line := map[string]any{"event": event, "name": r.name, "text": text}
	for _, d := range details {
		line[d.key] = d.value
	}
	var b strings.Builder
	_ = cli.WriteJSON(&b, line) // never fails: texts, numbers and lists of them
	r.put(b.String())
}

// tell says what only those want to know who asked.
func (r *reporter) tell(event, text string, details ...detail) {
	if r.verbose {
		r.say(event, text, details...)
	}
}

// last says why the run failed, if that is not said yet, and has all written. It returns what is left to
// tell, which is the code alone.
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

// whoHolds is a text about holders.
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
