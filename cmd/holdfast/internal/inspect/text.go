package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/survey"
)

// none stands where there is nothing to tell.
const none = "-"

// row is a name in a line of ls.
func row(o *survey.Object) []string {
	return []string{cli.Safe(o.Name), o.Kind, stateText(o), countText(o), leaseText(o.LeaseMS), numberText(o.WaiterCount)}
}

// stateText tells in a few words who has it, or how much there is.
func stateText(o *survey.Object) string {
	switch {
	case o.Kind == survey.KindPermits:
		return fmt.Sprintf("%d free, %d taken", *o.Value, *o.Taken)
	case o.Value != nil:
		return none
	case len(o.Holders) == 0:
		return survey.Free
	}
	text := Brief(o.Holders[0])
	if note := []rune(o.Holders[0].Note); len(note) > 0 {
		const most = 40
		text += ": " + cli.Safe(string(note[:min(len(note), most)]))
	}
	if more := *o.HolderCount - 1; more > 0 {
		text += fmt.Sprintf(" +%d", more)
	}
	return text
}

// countText is how often a lock is held, by all holders that are known, or how much there is.
func countText(o *survey.Object) string {
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
	case *ms == survey.NoEnd:
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

// HolderOf is a holder that the library knows of.
func HolderOf(h holdfast.Holder) *survey.Party {
	lease := max(h.Lease.Milliseconds(), survey.NoEnd)
	p := survey.NewParty(h.ID, "")
	p.Count, p.LeaseMS = int64(h.Count), &lease
	if h.Host != "" || h.PID != 0 {
		p.Process = &presence.Process{Host: h.Host, PID: h.PID, Program: h.Program, Label: h.Label, Started: h.Started}
	}
	return p
}

// Brief tells in a few words who it is.
func Brief(p *survey.Party) string { return strings.TrimSpace(p.Mode + " " + who(p)) }

// who is the process, or, if it does not tell, "?" and the id.
func who(p *survey.Party) string {
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
func atLength(p *survey.Party) string {
	text := who(p)
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
	if p.Note != "" {
		text += ", note: " + cli.Safe(p.Note)
	}
	if len(p.WaitsFor) > 0 {
		text += ", waits for " + cli.Safe(strings.Join(p.WaitsFor, ", "))
	}
	if p.WaitsForItself {
		text += ", waits for itself: another goroutine, or a nested call without the hold's context"
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
		widths: []int{24, len(survey.KindNumber), 30, 5, 7, 0},
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
