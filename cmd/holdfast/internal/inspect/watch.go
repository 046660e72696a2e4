package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/survey"
)

// Control sequences that all terminals know.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // another screen, no cursor, lines are cut
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	eraseRight  = "\x1b[K"
	eraseBelow  = "\x1b[J"
	boldOn      = "\x1b[1m"
	colorsOff   = "\x1b[m"
)

// errQuit says that the person has seen enough.
var errQuit = errors.New("quit")

// watching lists again and again until it is told to end. The terminal is left as it was found, also while
// this process is stopped.
func (l *listing) watching(ctx context.Context, client rueidis.Client) error {
	ctx, release := cli.UntilSignal(ctx)
	defer release()
	ctx, quit := context.WithCancelCause(ctx)
	looks := make(chan look)
	var looking sync.WaitGroup
	looking.Go(func() { l.looking(ctx, client, looks) })
	defer looking.Wait()
	defer quit(nil)
	suspended, ignore := cli.Suspensions()
	defer ignore()

	leave, err := enter(ctx, quit)
	defer func() { leave() }()
	for last := ""; err == nil; {
		select {
		case seen := <-looks:
			if cli.Denied(seen.err) { // which no waiting mends
				return failure(ctx, l.redis, seen.err)
			}
			last = l.picture(seen)
			_, err = os.Stdout.WriteString(last)
		case <-suspended:
			leave()
			cli.Suspend()
			if leave, err = enter(ctx, quit); err == nil {
				_, err = os.Stdout.WriteString(last)
			}
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errQuit) {
				return nil
			}
			return failure(ctx, l.redis, ctx.Err())
		}
	}
	return cli.Exit(cli.ExitNo, err)
}

// enter makes the terminal show a picture, and q the end of the watch. Call leave, also after an error: then the
// terminal is as it was.
func enter(ctx context.Context, quit context.CancelCauseFunc) (leave func(), err error) {
	ctx, deafen := context.WithCancel(ctx)
	var keys sync.WaitGroup
	restore, blind := cli.Keys(os.Stdin)
	if blind == nil {
		keys.Go(func() { quitOnKey(ctx, quit) })
	}
	_, err = os.Stdout.WriteString(enterScreen)
	return func() {
		deafen()
		keys.Wait() // before the modes change: a read knows only those that it began with
		_, _ = os.Stdout.WriteString(leaveScreen)
		if blind == nil {
			restore()
		}
	}, err
}

// quitOnKey reads keys until there is a q, or ctx ends, which it notices within a tenth of a second.
func quitOnKey(ctx context.Context, quit context.CancelCauseFunc) {
	var key [16]byte
	for ctx.Err() == nil {
		n, err := os.Stdin.Read(key[:])
		if err != nil && !errors.Is(err, io.EOF) {
			return // nobody types any more
		}
		if bytes.ContainsAny(key[:n], "qQ") {
			quit(errQuit)
		}
	}
}

// A look is what there was to see.
type look struct {
	first  []*survey.Object // that fit on the screen
	all    int
	denied int // keys that may not be read
	took   time.Duration
	err    error // why it is not all
}

// looking looks again and again until ctx ends.
func (l *listing) looking(ctx context.Context, client rueidis.Client, to chan<- look) {
	ticks := time.NewTicker(l.watch)
	defer ticks.Stop()
	for ctx.Err() == nil {
		select {
		case to <- l.look(ctx, client):
		case <-ctx.Done():
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// look goes through all names once and remembers the first that fit.
func (l *listing) look(ctx context.Context, client rueidis.Client) (seen look) {
	_, height := cli.TerminalSize(os.Stdout)
	fit := max(height-3, 1)
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
	heading, lines, _ := strings.Cut(strings.TrimSuffix(t.aligned(), "\n"), "\n")
	if cli.Colors(os.Stdout) {
		heading = boldOn + heading + colorsOff
	}
	picture := home + title + "\n" + away + "\n" + heading + "\n" + lines
	return strings.ReplaceAll(picture, "\n", eraseRight+"\r\n") + eraseRight + eraseBelow
}
