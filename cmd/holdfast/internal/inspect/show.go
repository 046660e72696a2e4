package inspect

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const showLong = `Shows all there is to know of one name: of which kind it is, who holds it, which
process that is and since when that process has been there, how often and for
how long still it holds it, and who waits, the next one first. Of a lock without
a queue the server knows only how many clients listen for its release: at most
so many processes wait. No more than a thousand holders, waiters and permits are
shown.

If there is nothing of that name, or only something that is none of ours, the
exit code is 1.`

func showCommand(redis *cli.Redis) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a name, and who waits for it",
		Long:  showLong,
		Example: `  holdfast show orders:42
  holdfast show orders:42 --json | jq '.holders[].process.host'`,
		Args:              oneName,
		ValidArgsFunction: completeName(redis),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := connect(redis, once)
			if err != nil {
				return err
			}
			defer client.Close()
			o, err := one(cmd.Context(), client, args[0])
			if err != nil {
				return failure(redis, err)
			}
			if o == nil {
				return nothing(args[0])
			}
			o.Listening = listening(cmd.Context(), client, o)
			if json {
				return cli.Exit(cli.ExitNo, cli.WriteJSON(os.Stdout, o))
			}
			return cli.Exit(cli.ExitNo, describe(os.Stdout, o))
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON")
	return cmd
}

// nothing ends the command because there is nothing of that name.
func nothing(name string) error {
	return cli.Exit(cli.ExitNo, fmt.Errorf("nothing is known of %s: no lock that is held or waited for, no semaphore, no latch", cli.Safe(name)))
}

// one is all that is known of a name, nil if that is nothing.
func one(ctx context.Context, client rueidis.Client, name string) (*Object, error) {
	return closely(client).one(ctx, name)
}

func (r *reader) one(ctx context.Context, name string) (*Object, error) {
	r.only = name
	objects, _, err := r.read(ctx, []string{name, wire.FairQueue(name), wire.RWWriters(name), wire.TokenKey(name)})
	switch {
	case err != nil:
		return nil, err
	case len(objects) > 0:
		return objects[0], nil
	}
	return nil, r.refusal
}

// channels are where those who wait for such an object listen.
func channels(o *Object) []string {
	switch o.Kind {
	case kindRW:
		return []string{wire.RWChannel(o.Name)}
	case kindSet, kindString:
		return []string{wire.SetChannel(o.Name)}
	case kindNumber:
		return []string{wire.SemaphoreChannel(o.Name), wire.LatchChannel(o.Name)}
	case kindPermits:
		return []string{wire.SemaphoreChannel(o.Name)}
	case kindFair:
		return nil // each waiter has its own
	}
	return []string{wire.LockChannel(o.Name)}
}

// listening is how many clients listen on the object's channels; nil if the server does not tell.
func listening(ctx context.Context, client rueidis.Client, o *Object) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, courtesy)
	defer cancel()
	counts := map[string]int64{}
	for _, channel := range channels(o) {
		for _, node := range client.Nodes() { // each knows its own
			n, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
			if err != nil {
				return nil
			}
			counts[channel] += n[channel]
		}
		if client.Mode() != rueidis.ClientModeCluster {
			continue
		}
		// Servers before 7.0 know no sharded messages.
		n, _ := client.Do(ctx, client.B().PubsubShardnumsub().Channel(channel).Build()).AsIntMap()
		counts[channel] += n[channel]
	}
	return counts
}

// describe tells a person.
func describe(out io.Writer, o *Object) error {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", label, fmt.Sprintf(format, args...))
	}
	b.WriteString(cli.Safe(o.Name) + "\n")
	line("kind", "%s", kindText(o.Kind))
	switch {
	case o.Kind == kindPermits:
		line("permits", "%d free, %d taken", *o.Value, *o.Taken)
	case o.Value != nil:
		line("value", "%d: permits that are free, or how many have to count down yet", *o.Value)
	default:
		line("state", "%s", o.State)
	}
	if o.LeaseMS != nil {
		line("lease", "%s", leaseText(o.LeaseMS))
	}
	label := "held by"
	for _, h := range o.Holders {
		line(label, "%s", holderText(h))
		label = ""
	}
	if o.HolderCount != nil {
		andMore(line, *o.HolderCount, len(o.Holders))
	}
	for i, p := range o.Permits {
		line([]string{"taken", ""}[min(i, 1)], "permit %s, lease %s", p.ID, leaseText(&p.LeaseMS))
	}
	if o.Taken != nil {
		andMore(line, *o.Taken, len(o.Permits))
	}
	for i, w := range o.Waiters {
		label := ""
		if i == 0 {
			label = "waiting"
		}
		text := waiterText(w)
		if o.Kind == kindFair { // elsewhere there is no order
			text = fmt.Sprintf("%d. %s", i+1, text)
		}
		line(label, "%s", text)
	}
	if o.WaiterCount != nil {
		andMore(line, *o.WaiterCount, len(o.Waiters))
	}
	if o.Token != nil {
		line("token", "%d, the last one given", *o.Token)
	}
	for _, channel := range channels(o) {
		if n, known := o.Listening[channel]; known {
			line("listening", "%d on %s: at most so many processes wait", n, cli.Safe(channel))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// andMore says that not all were shown.
func andMore(line func(label, format string, args ...any), all int64, shown int) {
	if more := all - int64(shown); shown > 0 && more > 0 {
		line("", "and %d more", more)
	}
}

// kindText says what a kind may be, where that is not plain.
func kindText(kind string) string {
	switch kind {
	case kindLock:
		return kind + " (plain, spin, non-reentrant, or fair with nobody waiting)"
	case kindNumber:
		return kind + " (or a counter of another program: the server cannot tell)"
	case kindString:
		return kind + " (a string with a time to live may be anything)"
	}
	return kind
}

func holderText(h Holder) string {
	var b strings.Builder
	if h.Mode != "" {
		b.WriteString(h.Mode + ": ")
	}
	b.WriteString(whoAtLength(h.ID, h.Session, h.Process))
	if h.Count > 1 {
		fmt.Fprintf(&b, ", %d times", h.Count)
	}
	if h.LeaseMS != nil {
		b.WriteString(", lease " + leaseText(h.LeaseMS))
	}
	return b.String()
}

func waiterText(w Waiter) string {
	text := whoAtLength(w.ID, w.Session, w.Process)
	if w.Mode != "" {
		text = w.Mode + ": " + text
	}
	if w.AliveMS != nil {
		text += ", taken for alive for " + leaseText(w.AliveMS)
	}
	return text
}

func whoAtLength(id, session string, p *presence.Process) string {
	text := who(id, session, p)
	if p == nil {
		return text + " (Java or unknown)"
	}
	if !p.Started.IsZero() {
		text += ", up since " + p.Started.Local().Format(time.DateTime)
	}
	return text + ", as " + cli.Safe(id)
}

// completeName completes names for a shell, fifty at most.
func completeName(redis *cli.Redis) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		client, err := connect(redis, once)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		var names []cobra.Completion
		w := &walk{reader: overview(client), glob: literal(begun) + "*"}
		_ = w.run(ctx, func(objects []*Object) error {
			for _, o := range objects {
				if cli.Safe(o.Name) == o.Name {
					names = append(names, o.Name)
				}
			}
			if len(names) >= 50 {
				enough()
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
