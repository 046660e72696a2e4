package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// none stands where there is nothing to tell.
const none = "-"

// row is a name in a line of ls.
func row(o *Object) []string {
	return []string{cli.Safe(o.Name), o.Kind, stateText(o), countText(o), leaseText(o.LeaseMS), numberText(o.WaiterCount)}
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

// countText is how often a lock is held, by all holders that are known, or how much there is.
func countText(o *Object) string {
	if o.Value != nil || len(o.Holders) == 0 {
		return numberText(o.Value)
	}
	var n int64
	for _, h := range o.Holders {
		n += h.Count
	}
	if *o.HolderCount > int64(len(o.Holders)) {
		return numberText(&n) + "+"
	}
	return numberText(&n)
}

func numberText(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}

// leaseText is how long something lasts.
func leaseText(ms *int64) string {
	switch {
	case ms == nil:
		return none
	case *ms == neverExpires:
		return "no end"
	}
	d := time.Duration(*ms) * time.Millisecond
	if d >= time.Second && d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}

// String tells in a few words who it is.
func (p *Party) String() string {
	if p.Mode != "" {
		return p.Mode + " " + p.who()
	}
	return p.who()
}

// who is the process, or, if it does not tell, "?" and the id.
func (p *Party) who() string {
	const most = 40
	switch {
	case p.Process == nil && p.Session == "" && utf8.RuneCountInString(p.ID) > most: // a token may be anything
		return "? " + cli.Safe(string([]rune(p.ID)[:most-1])+"…")
	case p.Process == nil:
		return "? " + cli.Safe(p.ID)
	}
	text := fmt.Sprintf("%s@%s[%d]", p.Process.Program, p.Process.Host, p.Process.PID)
	if p.Process.Label != "" {
		text += " (" + p.Process.Label + ")"
	}
	return cli.Safe(text)
}

// atLength tells all that is known of a holder or a waiter.
func (p *Party) atLength() string {
	text := p.who()
	if p.Mode != "" {
		text = p.Mode + ": " + text
	}
	if p.Process == nil {
		text += " (Java or unknown)"
	} else {
		if !p.Process.Started.IsZero() {
			text += ", up since " + p.Process.Started.Local().Format(time.DateTime)
		}
		text += ", as " + cli.Safe(p.ID)
	}
	if p.Count > 1 {
		text += fmt.Sprintf(", %d times", p.Count)
	}
	if p.LeaseMS != nil {
		text += ", lease " + leaseText(p.LeaseMS)
	}
	if p.AliveMS != nil {
		text += ", taken for alive for " + leaseText(p.AliveMS)
	}
	return text
}

// A table lays out rows as they come: columns only ever grow wider.
type table struct {
	rows   [][]string
	widths []int
}

// newTable is a table that begins with the names of the columns of ls.
func newTable() *table {
	return &table{
		rows:   [][]string{{"NAME", "KIND", "STATE", "COUNT", "LEASE", "WAITERS"}},
		widths: []int{24, len(kindNumber), 30, 5, 7, 0},
	}
}

// aligned returns the rows added since the last time, for a person.
func (t *table) aligned() string {
	for _, cells := range t.rows {
		for i, cell := range cells[:len(cells)-1] {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, cells := range t.rows {
		for i, cell := range cells[:len(cells)-1] {
			fmt.Fprintf(&b, "%-*s  ", t.widths[i], cell)
		}
		b.WriteString(cells[len(cells)-1] + "\n")
	}
	t.rows = nil
	return b.String()
}
