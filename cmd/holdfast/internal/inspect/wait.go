package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A waiting is what wait is asked for, and how far it has come.
type waiting struct {
	wait.Lone
	redis   *cli.Redis
	name    string
	kind    string
	timeout cli.Seconds
	code    int
	json    bool

	reader          *survey.Reader
	first           *survey.Object // what it was at the first look
	listen, silence func()
	looks           int
	free            bool
}

func waitCommand(redis *cli.Redis) *cobra.Command {
	w := &waiting{redis: redis, timeout: -1}
	cmd := onName(redis, "wait NAME", "Wait until a lock is free, or a latch is open", w.run)
	flags := cmd.Flags()
	flags.VarP(&w.timeout, "wait", "w", "at most this many `seconds`, such as 0.5 or 1m; 0: only look; default: no limit")
	flags.IntVarP(&w.code, "conflict-exit-code", "E", cli.ExitNo, "exit `code` if it is not free in time")
	kindFlag(cmd, &w.kind)
	flags.BoolVar(&w.json, "json", false, "print JSON")
	return cmd
}

func (w *waiting) run(ctx context.Context, name string) error {
	w.name = name
	if w.code < 0 || w.code > 255 {
		return cli.Usagef("--conflict-exit-code is %d, must be from 0 to 255", w.code)
	}
	w.redis.Silence = max(time.Duration(w.timeout), 0)
	began := time.Now()
	return onServer(ctx, w.redis, nil, func(client rueidis.Client) error {
		ctx, release := cli.UntilSignal(ctx)
		defer release()
		free, err := w.wait(ctx, client, began)
		if err != nil {
			return failure(ctx, w.redis, err)
		}
		if w.json {
			err = cli.WriteJSON(os.Stdout, struct {
				survey.Named
				Free     bool  `json:"free"`
				WaitedMS int64 `json:"waited_ms"`
			}{survey.NewNamed(w.name), free, time.Since(began).Milliseconds()})
		}
		if err == nil && !free {
			return cli.Silent(w.code)
		}
		return cli.Exit(cli.ExitNo, err)
	})
}

// How often wait looks if there is no message: soon at first, then less and less.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

var pause = wait.Exponential(firstLook, lastLook)

// wait reports whether it was free before the time was over, which began then.
func (w *waiting) wait(ctx context.Context, client rueidis.Client, began time.Time) (bool, error) {
	limited, cancel := ctx, func() {}
	if w.timeout > 0 {
		limited, cancel = context.WithDeadline(ctx, began.Add(time.Duration(w.timeout)))
	}
	defer cancel()
	w.reader = survey.Closely(client, w.name).As(w.kind)
	w.reader.Anonymous = true
	first, can, err := w.reader.Expected(limited, w.kind)
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return false, fmt.Errorf("no answer within %v", time.Duration(w.timeout))
	case err != nil:
		return false, err
	case !can:
		return false, cli.Usagef("%s is no %s, but %s", cli.Safe(w.name), w.kind, first.Kind)
	}
	alarm := wait.NewAlarm()
	defer alarm.Close()
	w.Place, w.first, w.silence = wait.Alone(alarm), first, func() {}
	w.listen = func() { w.silence = first.Listen(limited, client, w.Place.Wake) }
	err = wait.Until(limited, limited, true, w)
	w.silence()
	if limited.Err() != nil && !w.free {
		return false, ctx.Err() // nil if the time was over
	}
	return w.free, err
}

// Attempt looks once.
func (w *waiting) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	w.free, retry, err = w.reader.Free(ctx, w.first, w.kind, lastLook)
	if (errors.Is(err, context.DeadlineExceeded) || script.Passes(err)) && w.timeout != 0 { // the server is away
		retry, err = lastLook, nil
	}
	if w.free || err != nil || w.timeout == 0 {
		return true, 0, err
	}
	if w.looks++; w.looks == 1 {
		w.listen()
	}
	return false, min(pause(w.looks), retry), nil
}
