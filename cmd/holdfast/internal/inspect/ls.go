package inspect

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

const lsLong = `Lists what is locked, waited for or counted, one name a line, as the server hands
the names out: of which kind it is, who has it, how often, for how long still
if nobody renews it, and how many wait. PATTERN is a glob as Redis has it
(* ? [a-z] \) over names as they are on the server.

On a terminal the columns are aligned, under a heading; in a pipe they are
separated by tabs, and there is no heading. Names that cannot be printed as they
are stand in quotes, with escapes. --json prints one object a line.

Kinds:
  rlock|fairlock   a lock: plain, spin, non-reentrant, or fair without waiters
  fairlock         a fair lock that somebody waits for; it may be free
  fenced           a lock that gives tokens
  rwlock           a read-write lock
  setlock          a lock that is one string, held by this toolkit
  semaphore|latch  a number: a semaphore of either kind, a latch, or a counter
                   of another program; the server cannot tell them apart
  expirable        a semaphore of whose permits some are taken
  setlock|other    with --all: any other string with a time to live

Holders that tell are shown as program@host[pid] (label), the others as "?" and
their id, "<session>:<number>": those of Java, and whoever does not tell.
WAITERS are those in the queue of a fair lock, and writers that readers wait
behind; of other locks nobody knows, but see show.

--watch shows the same again and again, the first by name that fit on the
screen, until q or Ctrl-C. A server that is away is looked at again.`

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
		Short: "List what is locked, by whom, and for how long still",
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
			if len(args) == 1 {
				l.glob = args[0]
			}
			return l.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&l.kinds, "kind", nil, "only what can be of these `kinds`: "+strings.Join(kindNames, ", "))
	flags.BoolVar(&l.held, "held", false, "only locks that are held")
	flags.BoolVarP(&l.all, "all", "a", false, "also strings that may be anybody's, and fenced locks that are free")
	flags.BoolVar(&l.json, "json", false, "print JSON, an object a line")
	cli.SecondsVar(flags, &l.watch, "watch", 0, "show it again and again after so long, 2s unless given as --watch=5")
	flags.Lookup("watch").NoOptDefVal = "2s"
	_ = cmd.RegisterFlagCompletionFunc("kind", completeKind)
	return cmd
}

func completeKind(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return kindNames, cobra.ShellCompDirectiveNoFileComp
}

// checkKinds refuses kinds that do not exist.
func checkKinds(kinds ...string) error {
	for _, kind := range kinds {
		if !slices.Contains(kindNames, kind) {
			return cli.Usagef("--kind %q does not exist; there are %s", kind, strings.Join(kindNames, ", "))
		}
	}
	return nil
}

func (l *listing) run(ctx context.Context) error {
	if err := checkKinds(l.kinds...); err != nil {
		return err
	}
	switch {
	case l.watch > 0 && l.watch < 100*time.Millisecond:
		return cli.Usagef("--watch is %v, must be at least 100ms", l.watch)
	case l.watch > 0 && l.json:
		return cli.Usagef("--watch is for a person, --json for a program")
	case l.watch > 0 && !cli.IsTerminal(os.Stdout):
		return cli.Usagef("--watch wants a terminal to draw on; in a pipe, call ls again and again")
	}
	client, err := connect(l.redis, once)
	if err != nil {
		return err
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

// wanted reports whether an object is asked for.
func (l *listing) wanted(o *Object) bool {
	if l.held && o.State != stateHeld {
		return false
	}
	return len(l.kinds) == 0 || slices.ContainsFunc(l.kinds, func(kind string) bool { return isKind(o.Kind, kind) })
}

// list prints every name as soon as it is known.
func (l *listing) list(ctx context.Context, client rueidis.Client) error {
	w, terminal := l.walk(client), cli.IsTerminal(os.Stdout)
	t, heading := newTable(os.Stdout), terminal
	err := w.run(ctx, func(objects []*Object) error {
		objects = slices.DeleteFunc(objects, func(o *Object) bool { return !l.wanted(o) })
		if len(objects) == 0 {
			return nil
		}
		if l.json {
			return cli.Exit(cli.ExitNo, lines(os.Stdout, objects))
		}
		var rows [][]string
		for _, o := range objects {
			rows = append(rows, row(o))
		}
		if !terminal {
			return cli.Exit(cli.ExitNo, tabbed(os.Stdout, rows))
		}
		if heading {
			heading = false
			rows = slices.Insert(rows, 0, header)
		}
		return cli.Exit(cli.ExitNo, t.write(rows))
	})
	w.complain(os.Stderr)
	return failure(l.redis, err)
}

// lines writes objects as JSON, one a line, in one piece.
func lines(out io.Writer, objects []*Object) error {
	var b bytes.Buffer
	for _, o := range objects {
		if err := cli.WriteJSON(&b, o); err != nil {
			return err
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}

// complain says that not everything could be read.
func (w *walk) complain(out io.Writer) {
	if w.noRights > 0 {
		fmt.Fprintf(out, "holdfast: %s may not be read by this user of Redis\n", cli.Plural(int64(w.noRights), "more key"))
	}
}
