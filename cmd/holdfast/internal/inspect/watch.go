package inspect

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/survey"
)

// Control sequences that all terminals know. None of them changes how the terminal works, so nothing is to be set back
// when this process ends or is stopped.
const (
	eraseAll   = "\x1b[2J"
	home       = "\x1b[H"
	eraseRight = "\x1b[K"
	eraseBelow = "\x1b[J"
	boldOn     = "\x1b[1m"
	colorsOff  = "\x1b[m"
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
		case cli.Denied(seen.err): // which no waiting mends
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
	if cli.Colors(os.Stdout) {
		lines[2] = boldOn + lines[2] + colorsOff
	}
	return home + strings.Join(lines, eraseRight+"\n") + eraseRight + eraseBelow
}
