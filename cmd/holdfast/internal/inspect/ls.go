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
)

const lsLong = `Lists what is locked, waited for or counted, one name a line, in the order in which the server hands the names
out: its kind, who has it, how often, how long the lease lasts if nobody renews it, and how many wait. PATTERN is a
Redis glob (* ? [a-z] \) over names as they are on the server.

On a terminal the columns are aligned, under a heading; in a pipe they are separated by tabs, and there is no heading.
Names that cannot be printed as they are stand in quotes, with escapes. --json prints one object a line.

Kinds:
  rlock|fairlock   a lock: plain, spin, non-reentrant, or fair without waiters
  fairlock         a fair lock that somebody waits for; it may be free
  fenced           a lock that gives tokens
  rwlock           a read-write lock
  setlock          a lock that is one string, held by this toolkit
  semaphore|latch  a number: a semaphore of either kind, a latch, or a counter
                   of another program; the server cannot tell them apart
  expirable        a semaphore some of whose permits are taken
  setlock|other    with --all: any other string with a time to live

Holders are shown as program@host[pid] (label) if they publish that. The others, among them those of Java, are shown
as "?" and their id, "<session>:<number>". WAITERS counts the queue of a fair lock, and writers that readers wait
behind; for other locks see show.

--watch shows the same again and again, the first names that fit on the screen, until q or Ctrl-C. It keeps looking
while the server is away.`

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
		Long:  lsLong,
		Example: `  holdfast ls
  holdfast ls 'orders:*' --held
  holdfast ls --kind rwlock,fairlock --watch
  holdfast ls --json | jq -r 'select(.waiter_count > 0) | .name'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("ls wants one pattern at most, got %d; quote it, or the shell takes it for files", len(args))
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
	flags.StringSliceVar(&l.kinds, "kind", nil, "only what can be of these `kinds`: "+strings.Join(kindNames, ", "))
	flags.BoolVar(&l.held, "held", false, "only locks that are held")
	flags.BoolVarP(&l.all, "all", "a", false, "also strings of unknown programs, and fenced locks that are free")
	flags.BoolVar(&l.json, "json", false, "print JSON, an object a line")
	cli.SecondsVar(flags, &l.watch, "watch", 0, "show it again after this long, 2s unless given as --watch=5")
	flags.Lookup("watch").NoOptDefVal = "2s"
	completeKinds(cmd)
	return cmd
}

func (l *listing) run(ctx context.Context) error {
	if err := checkKinds(l.kinds...); err != nil {
		return err
	}
	switch {
	case l.watch == 0:
	case l.watch < 100*time.Millisecond:
		return cli.Usagef("--watch is %v, must be at least 100ms", l.watch)
	case l.json:
		return cli.Usagef("--watch is for a person, --json for a program")
	case !cli.IsTerminal(os.Stdout):
		return cli.Usagef("--watch wants a terminal to draw on; in a pipe, call ls again and again")
	}
	client, err := l.redis.Client(impatient)
	if err != nil {
		return failure(ctx, l.redis, err)
	}
	defer client.Close()
	if l.watch > 0 {
		return l.watching(ctx, client)
	}
	return l.list(ctx, client)
}

// walk begins to go through the names.
func (l *listing) walk(client rueidis.Client) *walk {
	r := overview(client)
	r.others = l.all
	return &walk{reader: r, glob: l.glob}
}

// wanted leaves only the objects that are asked for.
func (l *listing) wanted(objects []*Object) []*Object {
	return slices.DeleteFunc(objects, func(o *Object) bool {
		asked := func(kind string) bool { return isKind(o.Kind, kind) }
		return l.held && o.State != stateHeld || len(l.kinds) > 0 && !slices.ContainsFunc(l.kinds, asked)
	})
}

// list prints every name as soon as it is known.
func (l *listing) list(ctx context.Context, client rueidis.Client) error {
	w, terminal := l.walk(client), cli.IsTerminal(os.Stdout)
	t := newTable()
	err := w.run(ctx, func(objects []*Object) error {
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
	if w.denied > 0 {
		fmt.Fprintf(os.Stderr, "holdfast: %s may not be read by this user of Redis\n", cli.Plural(int64(w.denied), "more key"))
	}
	return failure(ctx, l.redis, err)
}
