package inspect

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/survey"
)

func showCommand(redis *cli.Redis) *cobra.Command {
	var json bool
	show := func(ctx context.Context, name string) error {
		return onServer(ctx, redis, impatient, func(client rueidis.Client) error {
			o, err := survey.Closely(client, name).One(ctx)
			switch {
			case err != nil:
				return err
			case o == nil:
				return nothing(name)
			}
			o.CountListeners(ctx, client)
			return cli.Print(json, o, description(o))
		})
	}
	cmd := onName(redis, "show NAME", "Show who holds a name, and who waits for it", show)
	cmd.Flags().BoolVar(&json, "json", false, "print JSON")
	return cmd
}

// nothing ends the command because there is nothing of that name.
func nothing(name string) error {
	return cli.Nof("nothing is known of %s: no lock that is held or waited for, no semaphore, no latch", cli.Safe(name))
}

// description tells a person.
func description(o *survey.Object) string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	list := func(label string, texts []string, all *int64) {
		for _, text := range texts {
			line(label, "%s", text)
			label = ""
		}
		if all != nil && len(texts) > 0 && *all > int64(len(texts)) {
			line("", "and %d more", *all-int64(len(texts)))
		}
	}
	b.WriteString(cli.Safe(o.Name) + "\n")
	line("kind", "%s%s", o.Kind, kindRemarks[o.Kind])
	switch {
	case o.Kind == survey.KindPermits:
		line("permits", "%d free, %d taken", *o.Value, *o.Taken)
	case o.Value != nil:
		line("value", "%d: free permits, or how many have yet to count down", *o.Value)
	default:
		line("state", "%s", o.State)
	}
	if o.LeaseMS != nil {
		line("lease", "%s", leaseText(o.LeaseMS))
	}
	var holders, permits, waiters []string
	for _, h := range o.Holders {
		holders = append(holders, atLength(h))
	}
	for _, p := range o.Permits {
		text := fmt.Sprintf("permit %s, lease %s", p.ID, leaseText(&p.LeaseMS))
		if p.Process != nil {
			text += ", of " + who(&survey.Party{Process: p.Process}) + ", note: " + cli.Safe(p.Note)
		}
		permits = append(permits, text)
	}
	for i, w := range o.Waiters {
		text := atLength(w)
		if o.Ordered() {
			text = fmt.Sprintf("%d. %s", i+1, text)
		}
		waiters = append(waiters, text)
	}
	list("held by", holders, o.HolderCount)
	list("taken", permits, o.Taken)
	list("waiting", waiters, o.WaiterCount)
	if l := o.Leader; l != nil {
		line("leader", "of term %d, since %s", l.Term, time.UnixMilli(l.SinceMS).Local().Format(time.DateTime))
	}
	if b := o.Barrier; b != nil {
		line("barrier", "generation %d, arrived %d", b.Generation, b.Arrived)
	}
	if o.Token != nil {
		line("token", "%d, the last one given", *o.Token)
	}
	where := ""
	if o.Ordered() {
		where = " outside the line"
	}
	for _, channel := range o.Channels() {
		if n, known := o.Listening[channel]; known {
			line("listening", "%d on %s: no more processes than that wait%s", n, cli.Safe(channel), where)
		}
	}
	return b.String()
}

// kindRemarks say what a kind may be, where that is not plain.
var kindRemarks = map[string]string{
	survey.KindLock:   " (plain, spin, non-reentrant, or fair; nobody waits in a line or a queue)",
	survey.KindNumber: " (or a counter of another program: the server cannot tell)",
	survey.KindString: " (a string with a time to live may be anything)",
}

// completeName completes names for a shell, fifty at most.
func completeName(redis *cli.Redis) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const most = 50
		client, err := redis.Client(impatient)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		safe := func(name string) bool { return cli.Safe(name) == name }
		return survey.Names(ctx, client, begun, safe, most), cobra.ShellCompDirectiveNoFileComp
	}
}

func deadlocksCommand(redis *cli.Redis) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use: "deadlocks", Short: "Show which calls wait for each other", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onServer(cmd.Context(), redis, impatient, func(client rueidis.Client) error {
				found, err := survey.Deadlocks(cmd.Context(), client)
				if err != nil {
					return err
				}
				var b strings.Builder
				certain := false
				for _, d := range found {
					certain = certain || !d.Perhaps
					if json {
						_ = cli.WriteJSON(&b, d) // never fails
					} else {
						b.WriteString(deadlockText(d))
					}
				}
				if len(found) == 0 && !json {
					b.WriteString("no calls wait for each other\n")
				}
				if _, err := os.Stdout.WriteString(b.String()); err != nil || !certain {
					return cli.Exit(cli.ExitNo, err)
				}
				return cli.Silent(cli.ExitNo) // what is certain is the answer no
			})
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON, an object a line")
	return cmd
}

// deadlockText tells a person.
func deadlockText(d *survey.Deadlock) string {
	name := func(w *survey.Blocked) string { return who(&survey.Party{ID: w.Session, Process: w.Process}) }
	if d.Perhaps {
		w := d.Waits[0]
		return fmt.Sprintf("perhaps: %s waits for %s, which it holds itself: another goroutine, or a nested call that "+
			"was not given the hold's context\n", name(w), cli.Safe(w.Name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock since %s:\n", d.Since.Local().Format(time.DateTime))
	for i, w := range d.Waits {
		next := d.Waits[(i+1)%len(d.Waits)]
		fmt.Fprintf(&b, "  %s waits for %s %s, which %s has, as %s\n",
			name(w), w.Kind, cli.Safe(w.Name), name(next), cli.Safe(w.Owner))
	}
	return b.String()
}

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

// A table lays out rows as they come: columns only ever grow wider. A longer cell than 100 shifts its own row alone.
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
			t.widths[i] = max(t.widths[i], min(utf8.RuneCountInString(cell), 100))
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
