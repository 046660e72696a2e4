package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/refusal"
)

// A status says how bad it is.
type status string

const (
	statusOK   status = "ok"
	statusNote status = "note" // works; something to know, or that could not be found out
	statusWarn status = "warn" // works for now
	statusFail status = "fail" // locks fail, or do not exclude
)

// A finding is what a check found, on one server or of all together. Its fields as JSON are part of the
// interface.
type finding struct {
	Check   string `json:"check"`
	Status  status `json:"status"`
	Node    string `json:"node"`    // "": the whole deployment
	Found   string `json:"found"`   // a sentence without its stop
	Meaning string `json:"meaning"` // for locks; sentences; may be ""
	Fix     string `json:"fix"`     // sentences; "" if there is nothing to do
}

func okay(format string, args ...any) finding { return newFinding(statusOK, format, args...) }
func note(format string, args ...any) finding { return newFinding(statusNote, format, args...) }
func warn(format string, args ...any) finding { return newFinding(statusWarn, format, args...) }
func fail(format string, args ...any) finding { return newFinding(statusFail, format, args...) }

func newFinding(s status, format string, args ...any) finding {
	return finding{Status: s, Found: fmt.Sprintf(format, args...)}
}

func (f finding) means(format string, args ...any) finding {
	f.Meaning = fmt.Sprintf(format, args...)
	return f
}

func (f finding) fix(format string, args ...any) finding {
	f.Fix = fmt.Sprintf(format, args...)
	return f
}

// of names the check that found it, and the server that it is about; "" is the whole deployment.
func (f finding) of(check, server string) finding {
	f.Check, f.Node = check, server
	return f
}

// unknown is what is found if the server does not answer a question; right is what the question needs.
// Without an error the answer lacks what was asked for.
func unknown(what, right string, err error) finding {
	f := note("%s is not known: %s", what, plain(err)).fix("Look it up where this Redis is administered.")
	switch {
	case err == nil:
		f.Found = what + " is not known: the server does not tell"
	case refusal.Denied(err):
		return note("%s is not known: the user may not ask", what).
			fix("Run the doctor as an administrator, or grant %s to the user it runs as.", right)
	case refusal.Is(err):
	case errors.Is(err, context.Canceled):
		return note("%s is not known: interrupted", what)
	default:
		return fail("%s is not known: no answer: %s", what, plain(err)).
			means("A server that does not answer grants no lock, and holders lose theirs when their leases end.").
			fix("See whether it is up, and busy: INFO commandstats, SLOWLOG GET.")
	}
	return f
}

// quoted is text as a shell takes it, whatever is in it.
func quoted(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= ' ' && c < 0x7f && c != '\'' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return "$'" + b.String() + "'"
}

// plain is the text of an error in one line, without a stop, and with nothing that a terminal would obey.
func plain(err error) string {
	if err == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSuffix(strings.Join(strings.Fields(err.Error()), " "), "."))
}

// A printer says findings: to people on a terminal in paragraphs, in a pipe a line each.
type printer struct {
	*cli.Screen
	asJSON bool
	single bool // there is one server, which need not be named
	count  map[status]int
}

func newPrinter(out io.Writer, asJSON bool) *printer {
	return &printer{Screen: cli.NewScreen(out), asJSON: asJSON, count: make(map[status]int)}
}

// say prints what a check found on its servers. For people, what is the same on all of several is said once.
func (p *printer) say(findings ...finding) {
	for _, f := range findings {
		p.count[f.Status]++
		if p.asJSON && p.Err == nil {
			p.Err = cli.WriteJSON(p.Out, f)
		}
	}
	if p.asJSON {
		return
	}
	for _, f := range merged(findings) {
		if f.Node != "" && !p.single {
			f.Check += " (" + f.Node + ")"
		}
		if p.Live {
			p.paragraph(f)
		} else {
			p.line(f)
		}
	}
}

// merged is one finding if several differ in nothing but the server.
func merged(findings []finding) []finding {
	if len(findings) < 2 {
		return findings
	}
	all := findings[0]
	for _, f := range findings {
		if all.Node = f.Node; f != all {
			return findings
		}
	}
	all.Node = fmt.Sprintf("all %d servers", len(findings))
	return []finding{all}
}

// line says it in one line, for programs that look for a word.
func (p *printer) line(f finding) {
	text := fmt.Sprintf("%-5s%s: %s", f.Status, f.Check, f.Found)
	if f.Meaning != "" {
		text += ". " + strings.TrimSuffix(f.Meaning, ".")
	}
	if f.Fix != "" {
		text += ". Fix: " + strings.TrimSuffix(f.Fix, ".")
	}
	p.Write(strings.ReplaceAll(text, "\n", " ") + "\n")
}

// colors of the terminal.
var colors = map[status]string{
	statusOK: cli.Green, statusNote: cli.Cyan, statusWarn: cli.Yellow, statusFail: cli.Red,
}

// paragraph says it for people.
func (p *printer) paragraph(f finding) {
	p.Write(p.Color(colors[f.Status], fmt.Sprintf("%-5s", f.Status)) + indented(f.Check+": "+f.Found))
	if f.Meaning != "" {
		p.Write("     " + indented(f.Meaning))
	}
	switch {
	case strings.Contains(f.Fix, "ACL SETUSER ") || strings.Contains(f.Fix, "redis-cli LREM "):
		p.Write("     Fix: " + f.Fix + "\n") // in one line, because people copy it
	case f.Fix != "":
		p.Write("     " + indented("Fix: "+f.Fix))
	}
}

// indented breaks a text into lines, all but the first indented.
func indented(text string) string {
	return strings.ReplaceAll(cli.Wrapped(text, 90), "\n", "\n     ") + "\n"
}

// sum says how many there were of each, to people.
func (p *printer) sum() {
	if p.Live && !p.asJSON {
		p.Write(fmt.Sprintf("\n%d ok, %d to note, %d to mend soon, %d to mend now\n",
			p.count[statusOK], p.count[statusNote], p.count[statusWarn], p.count[statusFail]))
	}
}
