package inspect

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/survey"
)

// A listing is what ls is asked for.
type listing struct {
	redis           *cli.Redis
	glob            string
	kinds           []string
	held, all, json bool
	watch           time.Duration
}

func lsCommand(redis *cli.Redis) *cobra.Command {
	l := &listing{redis: redis}
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List what is locked, by whom, and for how long",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("ls wants one pattern, got %d; quote it, or the shell takes it for files", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.glob = strings.Join(args, "")
			return l.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&l.kinds, "kind", nil, "only what can be of these `kinds`: "+strings.Join(survey.Kinds, ", "))
	flags.BoolVar(&l.held, "held", false, "only locks that are held")
	flags.BoolVarP(&l.all, "all", "a", false, "also strings of unknown programs, and fenced locks that are free")
	flags.BoolVar(&l.json, "json", false, "print JSON, an object a line")
	cli.SecondsVar(flags, &l.watch, "watch", 0, "show it again after this long, 2s unless given as --watch=5")
	flags.Lookup("watch").NoOptDefVal = "2s"
	cli.Choose(cmd, "kind", survey.Kinds)
	return cmd
}

func (l *listing) run(ctx context.Context) error {
	switch {
	case l.watch == 0:
	case l.watch < 100*time.Millisecond:
		return cli.Usagef("--watch is %v, must be at least 100ms", l.watch)
	case l.json:
		return cli.Usagef("--watch is for a person, --json for a program")
	case !cli.IsTerminal(os.Stdout):
		return cli.Usagef("--watch wants a terminal to draw on; in a pipe, call ls again and again")
	}
	return onServer(ctx, l.redis, impatient, func(client rueidis.Client) error {
		if l.watch > 0 {
			return l.watching(ctx, client)
		}
		return l.list(ctx, client)
	})
}

// wanted leaves only the objects that are asked for.
func (l *listing) wanted(objects []*survey.Object) []*survey.Object {
	return slices.DeleteFunc(objects, func(o *survey.Object) bool {
		asked := func(kind string) bool { return survey.Is(o.Kind, kind) }
		return l.held && o.State != survey.Held || len(l.kinds) > 0 && !slices.ContainsFunc(l.kinds, asked)
	})
}

// list prints every name as soon as it is known.
func (l *listing) list(ctx context.Context, client rueidis.Client) error {
	t, terminal := newTable(), cli.IsTerminal(os.Stdout)
	denied, err := survey.Overview(client, l.all).Walk(ctx, l.glob, func(objects []*survey.Object) error {
		var text bytes.Buffer // is written in one piece
		for _, o := range l.wanted(objects) {
			switch {
			case l.json:
				if err := cli.WriteJSON(&text, o); err != nil {
					return err
				}
			case terminal:
				t.rows = append(t.rows, row(o))
			default:
				text.WriteString(strings.Join(row(o), "\t") + "\n")
			}
		}
		if len(t.rows) > 1 {
			text.WriteString(t.aligned())
		}
		_, err := os.Stdout.Write(text.Bytes())
		return cli.Exit(cli.ExitNo, err)
	})
	if denied > 0 {
		fmt.Fprintf(os.Stderr, "holdfast: %s may not be read by this user of Redis\n", cli.Plural(int64(denied), "more key"))
	}
	return err
}
