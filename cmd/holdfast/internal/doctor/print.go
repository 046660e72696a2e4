package doctor

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A printer says findings: to people on a terminal in paragraphs, in a pipe a line each.
type printer struct {
	out     io.Writer
	asJSON  bool
	live    bool // a terminal
	single  bool // there is one server, which need not be named
	colored bool
	count   map[status]int
	err     error // the first write that failed
}

func newPrinter(out io.Writer, asJSON bool) *printer { //nolint:revive // a flag of the command line
	p := &printer{out: out, asJSON: asJSON, count: make(map[status]int)}
	if file, ok := out.(*os.File); ok && !asJSON {
		p.live, p.colored = cli.IsTerminal(file), cli.Colors(file)
	}
	return p
}

// bad reports whether anything is to be mended.
func (p *printer) bad() bool { return p.count[statusWarn]+p.count[statusFail] > 0 }

// say prints what a check found on its servers. For people, what is the same on all of several is said once.
func (p *printer) say(findings ...finding) {
	for _, f := range findings {
		p.count[f.Status]++
	}
	if p.asJSON {
		for _, f := range findings {
			if p.err == nil {
				p.err = cli.WriteJSON(p.out, f)
			}
		}
		return
	}
	if all, same := merged(findings); same {
		findings = []finding{all}
	}
	for _, f := range findings {
		if p.single {
			f.Node = ""
		}
		if p.live {
			p.paragraph(f)
		} else {
			p.line(f)
		}
	}
}

// merged is what all say, if they differ in nothing but the server.
func merged(findings []finding) (all finding, same bool) {
	if len(findings) < 2 {
		return all, false
	}
	for _, f := range findings {
		f.Node = ""
		if all != (finding{}) && f != all {
			return all, false
		}
		all = f
	}
	all.Node = fmt.Sprintf("all %d servers", len(findings))
	return all, true
}

func (f finding) title() string {
	if f.Node == "" {
		return f.Check
	}
	return f.Check + " (" + f.Node + ")"
}

// line says it in one line, for programs that look for a word.
func (p *printer) line(f finding) {
	text := fmt.Sprintf("%-5s%s: %s", f.Status, f.title(), f.Found)
	if f.Meaning != "" {
		text += ". " + strings.TrimSuffix(f.Meaning, ".")
	}
	if f.Fix != "" {
		text += ". Fix: " + strings.TrimSuffix(f.Fix, ".")
	}
	p.write(strings.ReplaceAll(text, "\n", " ") + "\n")
}

// colors of the terminal.
var colors = map[status]string{statusOK: "32", statusNote: "36", statusWarn: "33", statusFail: "31"}

// paragraph says it for people.
func (p *printer) paragraph(f finding) {
	mark := fmt.Sprintf("%-5s", f.Status)
	if p.colored {
		mark = "\x1b[" + colors[f.Status] + "m" + mark + "\x1b[m"
	}
	const indent = 5
	p.write(mark + indented(f.title()+": "+f.Found, indent) + "\n")
	if f.Meaning != "" {
		p.write("     " + indented(f.Meaning, indent) + "\n")
	}
	switch {
	case strings.Contains(f.Fix, "ACL SETUSER ") || strings.Contains(f.Fix, "redis-cli LREM "):
		p.write("     Fix: " + f.Fix + "\n") // in one line, for it is copied
	case f.Fix != "":
		p.write("     " + indented("Fix: "+f.Fix, indent) + "\n")
	}
}

// indented breaks a text into lines, all but the first indented.
func indented(text string, indent int) string {
	return strings.ReplaceAll(cli.Wrapped(text, 90), "\n", "\n"+strings.Repeat(" ", indent))
}

// sum says how many there were of each, to people.
func (p *printer) sum() {
	if p.live {
		p.write(fmt.Sprintf("\n%d ok, %d to note, %d to mend soon, %d to mend now\n",
			p.count[statusOK], p.count[statusNote], p.count[statusWarn], p.count[statusFail]))
	}
}

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, text)
	}
}
