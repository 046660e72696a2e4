package inspect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const waitLong = `Waits until a lock is free, or a latch is open, and takes nothing: by the time
you read this somebody else may have it. To run a command under a lock, see
holdfast run. A name of which nothing is there is free, and open.

A number may be a latch or a semaphore; it is taken for a latch, which opens at
0. With --kind semaphore or expirable the command waits until a permit is free:
a semaphore that is not there has none, and is waited for until somebody makes
it.
A fair lock is free while nobody holds it, whoever is next in its queue.

The command is woken when the lock is released; besides, it looks after half a
second at the most. While the server is away it waits.`

// A waiting is what wait is asked for.
type waiting struct {
	redis   *cli.Redis
	name    string
	kind    string
	timeout cli.Seconds
	code    int
	json    bool
}

func waitCommand(redis *cli.Redis) *cobra.Command {
	w := &waiting{redis: redis, timeout: -1, code: cli.ExitNo}
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a lock is free, or a latch is open",
		Long:  waitLong,
		Example: `  holdfast wait orders:42 && ./report
  holdfast wait deploy:ready --kind latch -w 60 || echo 'not in a minute'
  holdfast wait exports --kind semaphore`,
		Args:              oneName,
		ValidArgsFunction: completeName(redis),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.name = args[0]
			return w.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.VarP(&w.timeout, "wait", "w", "wait for so many `seconds` at most, such as 0.5 or 1m; 0: only look; without: for ever")
	flags.IntVarP(&w.code, "conflict-exit-code", "E", cli.ExitNo, "exit `code` if it is not free in time")
	flags.StringVar(&w.kind, "kind", "", "what it is, where that cannot be told: a `kind` of ls")
	flags.BoolVar(&w.json, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("kind", completeKind)
	return cmd
}

func (w *waiting) run(ctx context.Context) error {
	if w.kind != "" {
		if err := checkKinds(w.kind); err != nil {
			return err
		}
	}
	if w.code < 0 || w.code > 255 {
		return cli.Usagef("--conflict-exit-code is %d, must be from 0 to 255", w.code)
	}
	began := time.Now()
	client, err := connect(w.redis, patiently)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, release := untilSignal(ctx)
	defer release()
	free, err := w.wait(ctx, client, began)
	if err != nil {
		return unlessStopped(ctx, failure(w.redis, err))
	}
	if w.json {
		o := newObject(w.name, "")
		if err := cli.WriteJSON(os.Stdout, waited{o.Name, o.NameBase64, free, time.Since(began).Milliseconds()}); err != nil {
			return cli.Exit(cli.ExitNo, err)
		}
	}
	if !free {
		return cli.Silent(w.code)
	}
	return nil
}

// waited is what wait --json prints.
type waited struct {
	Name       string `json:"name"`
	NameBase64 string `json:"name_base64,omitempty"`
	Free       bool   `json:"free"`
	WaitedMS   int64  `json:"waited_ms"`
}

// How often it is looked, if there is no message: soon at first, then less and less.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 500 * time.Millisecond
)

// wait reports whether it was free before the time was over, which began then.
func (w *waiting) wait(ctx context.Context, client rueidis.Client, began time.Time) (bool, error) {
	limited, cancel := ctx, func() {}
	if w.timeout > 0 {
		limited, cancel = context.WithDeadline(ctx, began.Add(time.Duration(w.timeout)))
	}
	defer cancel()
	o, err := w.first(limited, client)
	if limited.Err() != nil && ctx.Err() == nil {
		return false, fmt.Errorf("no answer within %v", time.Duration(w.timeout))
	}
	if err != nil {
		return false, err
	}
	look := w.looking(client, o)
	free, again, err := look(limited)
	if free || err != nil && limited.Err() == nil || w.timeout == 0 {
		return free, err
	}
	wake, silence := listen(limited, client, o)
	defer silence()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		timer := time.NewTimer(min(pause+rand.N(pause/4), again))
		select {
		case <-wake:
		case <-timer.C:
		case <-limited.Done():
		}
		timer.Stop()
		if limited.Err() == nil {
			free, again, err = look(limited)
		}
		switch {
		case limited.Err() != nil && !free:
			return false, ctx.Err() // nil if the time was over
		case errors.Is(err, context.DeadlineExceeded): // the server is away
			again = lastLook
		case free || err != nil:
			return free, err
		}
	}
}

// first finds out what the name is, and that it is of the kind that is asked for.
func (w *waiting) first(ctx context.Context, client rueidis.Client) (*Object, error) {
	o, err := w.read(ctx, client)
	switch {
	case err != nil:
		return nil, err
	case o == nil:
		o = newObject(w.name, kindLock)
		if counts(w.kind) {
			o.Kind = kindNumber
		}
	case w.kind != "" && !isKind(o.Kind, w.kind) && (o.Value == nil || !counts(w.kind)):
		return nil, cli.Usagef("%s is no %s, but %s", cli.Safe(w.name), w.kind, o.Kind)
	}
	return o, nil
}

// read is what there is of the name. Whose it is does not matter.
func (w *waiting) read(ctx context.Context, client rueidis.Client) (*Object, error) {
	r := closely(client)
	r.strangers = true
	return r.one(ctx, w.name)
}

// counts reports whether such an object is a number.
func counts(kind string) bool { return kind == "semaphore" || kind == "expirable" || kind == "latch" }

// looking returns what looks whether it is free, and says when it is so at the latest, as things are.
func (w *waiting) looking(client rueidis.Client, o *Object) func(context.Context) (bool, time.Duration, error) {
	switch {
	case w.kind == "semaphore" || w.kind == "expirable" || w.kind == "" && o.Kind == kindPermits:
		return func(ctx context.Context) (bool, time.Duration, error) {
			o, err := w.read(ctx, client)
			return err == nil && o != nil && o.Value != nil && *o.Value > 0, lastLook, err
		}
	case o.Kind == kindNumber || o.Kind == kindPermits:
		return func(ctx context.Context) (bool, time.Duration, error) {
			left, err := client.Do(ctx, client.B().Get().Key(w.name).Build()).AsInt64()
			if rueidis.IsRedisNil(err) {
				return true, 0, nil
			}
			if err != nil {
				return false, 0, fmt.Errorf("%s: %w", cli.Safe(w.name), err)
			}
			return left <= 0, lastLook, nil
		}
	}
	return func(ctx context.Context) (bool, time.Duration, error) {
		left, err := client.Do(ctx, client.B().Pttl().Key(w.name).Build()).AsInt64()
		if left < 0 {
			return err == nil && left == gone, lastLook, err
		}
		return false, time.Duration(left+1) * time.Millisecond, err
	}
}

// listen returns a channel that gets something when there is a message to those who wait. If the
// server refuses, there is none. The function returned ends it.
func listen(ctx context.Context, client rueidis.Client, o *Object) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	hear := func(rueidis.PubSubMessage) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	names := channels(o)
	if o.Kind == kindLock && o.State == "" { // nothing is there: whatever comes to be
		names = []string{wire.LockChannel(o.Name), wire.RWChannel(o.Name), wire.SetChannel(o.Name)}
	}
	for _, name := range names {
		listeners.Go(func() { _ = client.Receive(ctx, client.B().Subscribe().Channel(name).Build(), hear) })
		if client.Mode() == rueidis.ClientModeCluster {
			listeners.Go(func() { _ = client.Receive(ctx, client.B().Ssubscribe().Channel(name).Build(), hear) })
		}
	}
	return wake, func() {
		cancel()
		listeners.Wait()
	}
}
