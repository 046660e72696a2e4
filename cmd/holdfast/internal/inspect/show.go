package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const showLong = `Shows all there is to know of one name: its kind, who holds it, which process that is and since when that
process has been there, how often and for how long it holds it, and who waits, the next one first. For a lock without
a queue the server knows only how many clients listen for its release; no more processes than that wait. At most a
thousand holders, waiters and permits are shown.

The exit code is 1 if there is nothing of that name, or nothing of ours.`

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
			ctx := cmd.Context()
			client, err := redis.Client(impatient)
			if err != nil {
				return failure(ctx, redis, err)
			}
			defer client.Close()
			o, err := closely(client, args[0]).one(ctx)
			if err != nil {
				return failure(ctx, redis, err)
			}
			if o == nil {
				return nothing(args[0])
			}
			o.Listening = listening(ctx, client, o)
			if json {
				return cli.Exit(cli.ExitNo, cli.WriteJSON(os.Stdout, o))
			}
			_, err = io.WriteString(os.Stdout, o.description())
			return cli.Exit(cli.ExitNo, err)
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON")
	return cmd
}

// nothing ends the command because there is nothing of that name.
func nothing(name string) error {
	return cli.Nof("nothing is known of %s: no lock that is held or waited for, no semaphore, no latch", cli.Safe(name))
}

// one is all that is known of the reader's name, nil if that is nothing.
func (r *reader) one(ctx context.Context) (*Object, error) {
	var keys []string
	for _, k := range wire.Keys {
		if k.Role != wire.Beside {
			keys = append(keys, k.Of(r.only))
		}
	}
	objects, _, err := r.read(ctx, keys)
	if err != nil || len(objects) == 0 {
		return nil, cmp.Or(err, r.refusal)
	}
	return objects[0], nil
}

// listening is how many clients listen on the object's channels; nil if the server does not tell.
func listening(ctx context.Context, client rueidis.Client, o *Object) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, courtesy)
	defer cancel()
	counts := map[string]int64{}
	for _, channel := range o.channels() {
		for _, node := range client.Nodes() { // each knows its own
			n, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
			if err != nil {
				return nil
			}
			counts[channel] += n[channel]
		}
		if client.Mode() == rueidis.ClientModeCluster { // where servers before 7.0 know no sharded messages
			n, _ := client.Do(ctx, client.B().PubsubShardnumsub().Channel(channel).Build()).AsIntMap()
			counts[channel] += n[channel]
		}
	}
	return counts
}

// description tells a person.
func (o *Object) description() string {
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
	case o.Kind == kindPermits:
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
		holders = append(holders, h.atLength())
	}
	for _, p := range o.Permits {
		permits = append(permits, fmt.Sprintf("permit %s, lease %s", p.ID, leaseText(&p.LeaseMS)))
	}
	for i, w := range o.Waiters {
		text := w.atLength()
		if o.Kind == kindFair { // elsewhere there is no order
			text = fmt.Sprintf("%d. %s", i+1, text)
		}
		waiters = append(waiters, text)
	}
	list("held by", holders, o.HolderCount)
	list("taken", permits, o.Taken)
	list("waiting", waiters, o.WaiterCount)
	if o.Token != nil {
		line("token", "%d, the last one given", *o.Token)
	}
	for _, channel := range o.channels() {
		if n, known := o.Listening[channel]; known {
			line("listening", "%d on %s: no more processes than that wait", n, cli.Safe(channel))
		}
	}
	return b.String()
}

// kindRemarks say what a kind may be, where that is not plain.
var kindRemarks = map[string]string{
	kindLock:   " (plain, spin, non-reentrant, or fair with nobody waiting)",
	kindNumber: " (or a counter of another program: the server cannot tell)",
	kindString: " (a string with a time to live may be anything)",
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
		w := &walk{reader: overview(client), glob: literal(begun) + "*"}
		_ = w.run(ctx, func(objects []*Object) error {
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
