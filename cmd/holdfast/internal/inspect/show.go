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
			if json {
				return cli.Exit(cli.ExitNo, cli.WriteJSON(os.Stdout, o))
			}
			_, err = io.WriteString(os.Stdout, description(o))
			return cli.Exit(cli.ExitNo, err)
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
		line("barrier", "in generation %d, at which %d have arrived", b.Generation, b.Arrived)
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
		r := survey.Overview(client, false)
		_, _ = r.Walk(ctx, survey.Literal(begun)+"*", func(objects []*survey.Object) error {
			for _, o := range objects {
				if cli.Safe(o.Name) == o.Name {
					names = append(names, o.Name)
				}
			}
			if len(names) >= most {
				cancel()
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
