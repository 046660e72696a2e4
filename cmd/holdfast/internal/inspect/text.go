package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/presence"
)

// none stands where there is nothing to tell.
const none = "-"

// header names the columns of ls.
var header = []string{"NAME", "KIND", "STATE", "COUNT", "LEASE", "WAITERS"}

// row is a name in a line of ls.
func row(o *Object) []string {
	return []string{cli.Safe(o.Name), o.Kind, stateText(o), countText(o), leaseText(o.LeaseMS), optional(o.WaiterCount)}
}

// stateText tells in a few words who has it, or how much there is.
func stateText(o *Object) string {
	switch {
	case o.Kind == kindPermits:
		return fmt.Sprintf("%d free, %d taken", *o.Value, *o.Taken)
	case o.Value != nil:
		return none
	case len(o.Holders) == 0:
		return stateFree
	}
	text := o.Holders[0].String()
	if more := *o.HolderCount - 1; more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return text
}

// String tells in a few words who it is.
func (h Holder) String() string {
	text := who(h.ID, h.Session, h.Process)
	if h.Mode != "" {
		text = h.Mode + " " + text
	}
	return text
}

// who is a process, or, if it does not tell, "?" and the id.
func who(id, session string, p *presence.Process) string {
	if p == nil {
		if session == "" { // a token that may be anybody's, and anything
			return "? " + cli.Safe(shortened(id, 40))
		}
		return "? " + cli.Safe(id)
	}
	text := fmt.Sprintf("%s@%s[%d]", p.Program, p.Host, p.PID)
	if p.Label != "" {
		text += " (" + p.Label + ")"
	}
	return cli.Safe(text)
}

func shortened(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// countText is how often a lock is held, by all holders that are known, or how much there is.
func countText(o *Object) string {
	if o.Value != nil {
		return strconv.FormatInt(*o.Value, 10)
	}
	if len(o.Holders) == 0 {
		return none
	}
	var n int64
	for _, h := range o.Holders {
		n += h.Count
	}
	if *o.HolderCount > int64(len(o.Holders)) {
		return strconv.FormatInt(n, 10) + "+"
	}
	return strconv.FormatInt(n, 10)
}

// leaseText is how long something lasts still.
func leaseText(ms *int64) string {
	switch {
	case ms == nil:
		return none
	case *ms == neverExpires:
		return "no end"
	}
	d := time.Duration(*ms) * time.Millisecond
	switch {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func optional(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

// A table aligns rows as they come: columns only ever grow wider.
type table struct {
	out    io.Writer
	widths []int
}

func newTable(out io.Writer) *table {
	return &table{out: out, widths: []int{24, len(kindNumber), 30, 5, 7, 7}}
}

// write writes rows, all or nothing.
func (t *table) write(rows [][]string) error {
	for _, cells := range rows {
		for i, cell := range cells {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(cells)-1 {
				b.WriteString(cell + "\n")
				continue
			}
			b.WriteString(cell + strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+2))
		}
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

// tabbed writes rows for a program.
func tabbed(out io.Writer, rows [][]string) error {
	var b strings.Builder
	for _, cells := range rows {
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
