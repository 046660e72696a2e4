package inspect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/refusal"
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

// Control sequences that all terminals know. None of them changes how the terminal works, so nothing is to be set back
// when this process ends or is stopped.
const (
	eraseAll   = "\x1b[2J"
	home       = "\x1b[H"
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
)

// watching lists again and again until a signal ends it.
func (l *listing) watching(ctx context.Context, client rueidis.Client) error {
	ctx, release := cli.UntilSignal(ctx)
	defer release()
	ticks := time.NewTicker(l.watch)
	defer ticks.Stop()
	for begin := eraseAll; ; begin = "" {
		seen := l.look(ctx, client)
		switch {
		case ctx.Err() != nil:
			_, _ = os.Stdout.WriteString("\n") // for the shell's next line
			return failure(ctx, l.redis, ctx.Err())
		case refusal.Denied(seen.err): // which no waiting mends
			return failure(ctx, l.redis, seen.err)
		}
		if _, err := os.Stdout.WriteString(begin + l.picture(seen)); err != nil {
			return cli.Exit(cli.ExitNo, err)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// A look is what there was to see.
type look struct {
	first  []*survey.Object // that fit on the screen
	width  int              // of that
	all    int
	denied int // keys that may not be read
	took   time.Duration
	err    error // why it is not all
}

// look goes through all names once and remembers the first that fit.
func (l *listing) look(ctx context.Context, client rueidis.Client) (seen look) {
	width, height := cli.TerminalSize(os.Stdout)
	fit := max(height-3, 1)
	seen.width = width
	began := time.Now()
	seen.denied, seen.err = survey.Overview(client, l.all).Walk(ctx, l.glob, func(objects []*survey.Object) error {
		objects = l.wanted(objects)
		seen.all += len(objects)
		seen.first = append(seen.first, objects...)
		slices.SortFunc(seen.first, func(x, y *survey.Object) int { return cmp.Compare(x.Name, y.Name) })
		seen.first = slices.Clone(seen.first[:min(len(seen.first), fit)])
		return nil
	})
	seen.took = time.Since(began)
	return seen
}

// picture is what a look is shown as.
func (l *listing) picture(seen look) string {
	t := newTable()
	for _, o := range seen.first {
		t.rows = append(t.rows, row(o))
	}
	title := fmt.Sprintf("%s  %s  ", l.redis.Place(), time.Now().Format(time.TimeOnly))
	if seen.err == nil || seen.all > 0 {
		title += fmt.Sprintf("%s, read in %v", cli.Plural(int64(seen.all), "name"), seen.took.Round(time.Millisecond))
	}
	if seen.all > len(seen.first) {
		title += fmt.Sprintf(", the first %d shown", len(seen.first))
	}
	if seen.denied > 0 {
		title += fmt.Sprintf(", %s may not be read", cli.Plural(int64(seen.denied), "key"))
	}
	away := ""
	if seen.err != nil {
		away = "The server is away: "
		if seen.all > 0 {
			away = "Not all is shown: "
		}
		away += strings.ReplaceAll(seen.err.Error(), "\n", "; ")
	}
	lines := append([]string{title, away}, strings.Split(strings.TrimSuffix(t.aligned(), "\n"), "\n")...)
	for i, line := range lines {
		if text := []rune(line); len(text) > seen.width {
			lines[i] = string(text[:seen.width])
		}
	}
	lines[2] = cli.NewScreen(os.Stdout).Color(cli.Bold, lines[2])
	return home + strings.Join(lines, eraseRight+"\n") + eraseRight + eraseBelow
}
