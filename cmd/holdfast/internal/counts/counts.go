// Package counts has the commands for what is a number on the server: latches and semaphores.
package counts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
)

// Commands are the commands "latch" and "semaphore".
func Commands(redis *cli.Redis) []*cobra.Command {
	return []*cobra.Command{latchCommand(redis), semaphoreCommand(redis)}
}

// A group is the commands for one kind of number.
type group struct {
	*cobra.Command
	redis   *cli.Redis
	timeout time.Duration
	asJSON  bool
}

func newGroup(redis *cli.Redis, use, short string) *group {
	g := &group{redis: redis}
	g.Command = &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: cli.Help}
	cli.SecondsVar(g.PersistentFlags(), &g.timeout, "timeout", 10*time.Second, "give up after this long")
	g.PersistentFlags().BoolVar(&g.asJSON, "json", false, "print one JSON object")
	return g
}

// A call is one use of a command.
type call struct {
	*group
	*holdfast.Session
	ctx  context.Context //nolint:containedctx // of one call
	name string
	n    int      // the argument N
	ids  []string // the arguments behind the name, if they are ids
}

// add adds a command. N, if the command has it, is at least least.
func (g *group) add(use, short string, least int, run func(*call) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(strings.Count(use, " "))}
	if strings.HasSuffix(use, "[ID...]") {
		cmd.Args = cobra.MinimumNArgs(1)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		c := &call{group: g, name: args[0], ids: args[1:]}
		if strings.HasSuffix(use, " N") {
			if c.n, err = strconv.Atoi(args[1]); err != nil || c.n < least || c.n > wire.MaxCount {
				return cli.Usagef("N is %q, must be a whole number from %d to %d", args[1], least, wire.MaxCount)
			}
		}
		if err := wire.CheckName(c.name); err != nil {
			return cli.Exit(cli.ExitUsage, err)
		}
		if g.timeout <= 0 {
			return cli.Usagef("--timeout is %v, must be above 0", g.timeout)
		}
		return c.do(cmd.Context(), run)
	}
	g.AddCommand(cmd)
	return cmd
}

// do runs the call in a session of its own.
func (c *call) do(ctx context.Context, run func(*call) error) (err error) {
	c.redis.Silence = c.timeout
	if c.Session, err = c.redis.Open(&holdfast.Options{Anonymous: true}); err != nil {
		return err
	}
	defer c.Close()
	cli.OutliveReaders()
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.ctx = ctx
	err = run(c)
	switch _, coded := errors.AsType[*cli.ExitError](err); {
	case err == nil, coded, errors.Is(err, holdfast.ErrUnknown):
	case errors.Is(err, holdfast.ErrNotHeld):
		err = cli.Exit(cli.ExitNo, err)
	case errors.Is(err, holdfast.ErrWrongKind), script.ClassOf(err) == 0 && ctx.Err() == nil: // no call was made
		err = cli.Exit(cli.ExitUsage, err)
	}
	return c.redis.Failure(ctx, err)
}

// unread is the error of a question, which changes nothing, whether or not it has reached the server.
func unread(err error) error {
	if errors.Is(err, holdfast.ErrUnknown) {
		return &script.Failure{Class: script.Refused, Err: errors.New(err.Error())}
	}
	return err
}

// refuse is an answer that is no, with what stands in the way: as JSON if that is asked for, else in words.
func (c *call) refuse(object any, format string, args ...any) error {
	if !c.asJSON {
		return cli.Nof(format, args...)
	}
	return cmp.Or(c.say(object, "", ""), cli.Silent(cli.ExitNo))
}

// say prints an answer: the object if JSON is asked for, on a terminal the text, in a pipe the line.
func (c *call) say(object any, text, line string) error {
	if cli.IsTerminal(os.Stdout) {
		line = text
	}
	if line != "" {
		line += "\n"
	}
	return cli.Print(c.asJSON, object, line)
}

func latchCommand(redis *cli.Redis) *cobra.Command {
	g := newGroup(redis, "latch", "Set, count down and look at countdown latches")
	g.add("set NAME N", "Close a latch until N have counted down", 1, setLatch)
	times := 1
	down := g.add("down NAME", "Count a latch down", 0, func(c *call) error { return downLatch(c, times) })
	down.PreRunE = func(*cobra.Command, []string) error {
		if times < 1 {
			return cli.Usagef("--times is %d, must be at least 1", times)
		}
		return nil
	}
	down.Flags().IntVarP(&times, "times", "n", 1, "how many `times`")
	g.add("count NAME", "Print how many have yet to count down", 0, func(c *call) error { return downLatch(c, 0) })
	return g.Command
}

// A latchState is what the commands tell of a latch.
type latchState struct {
	survey.Named
	Count int   `json:"count"`
	Done  *bool `json:"set,omitempty"` // whether it was this call that set it
}

func (c *call) latch() *latch.Latch { return latch.New(c.Session, c.name) }

// left is how many have yet to count down.
func (c *call) left() (int, error) {
	left, err := c.latch().Count(c.ctx)
	return left, unread(err)
}

func setLatch(c *call) error {
	set, err := c.latch().TrySetCount(c.ctx, c.n)
	if err != nil {
		return err
	}
	if set {
		return cli.Afterwards(c.say(latchState{survey.NewNamed(c.name), c.n, &set},
			fmt.Sprintf("%s is closed until %d have counted down", cli.Safe(c.name), c.n), ""))
	}
	left, err := c.left()
	if err != nil {
		return err
	}
	return c.refuse(latchState{survey.NewNamed(c.name), left, &set},
		"latch %q is set already: %d still to count down", c.name, left)
}

func downLatch(c *call, times int) error {
	counted := 0
	left, err := c.left()
	for err == nil && counted < times && left > 0 {
		if err = c.ctx.Err(); err == nil {
			err = c.latch().CountDown(c.ctx)
		}
		if err == nil {
			counted++
			left, err = c.left()
		}
	}
	if err == nil {
		err = c.sayLatch(left)
	}
	if err != nil && counted > 0 {
		return cli.Exit(cli.ExitTempFail, fmt.Errorf("after %d of %d times: %w", counted, times, err))
	}
	return err
}

func (c *call) sayLatch(left int) error {
	text := fmt.Sprintf("%s is open", cli.Safe(c.name))
	if left > 0 {
		text = fmt.Sprintf("%s is closed: %d still to count down", cli.Safe(c.name), left)
	}
	return c.say(latchState{Named: survey.NewNamed(c.name), Count: left}, text, strconv.Itoa(left))
}

func semaphoreCommand(redis *cli.Redis) *cobra.Command {
	g := newGroup(redis, "semaphore", "Make semaphores, change their size, give permits back")
	var expirable bool
	set := g.add("set NAME N", "Make a semaphore with N permits", 0, func(c *call) error {
		if expirable {
			return c.setSemaphore(c.expirable().TrySetPermits)
		}
		return c.setSemaphore(c.counting().TrySetPermits)
	})
	set.Flags().BoolVar(&expirable, "expirable", false, "make one whose permits have ids and leases")
	add := g.add("add NAME N", "Make a semaphore larger by N, or smaller", -wire.MaxCount, func(c *call) error {
		withIDs, err := c.withIDs()
		if err != nil {
			return err
		}
		add := c.counting().AddPermits
		if expirable || withIDs {
			add = c.expirable().AddPermits
		}
		if err := add(c.ctx, c.n); err != nil {
			return err
		}
		return cli.Afterwards(c.saySemaphore())
	})
	add.Flags().BoolVar(&expirable, "expirable", false, "its permits have ids and leases")
	g.add("count NAME", "Print how many permits are free", 0, (*call).saySemaphore)
	var n int
	release := g.add("release NAME [ID...]", "Give permits back, by their ids", 0, func(c *call) error {
		if err := c.release(n); err != nil {
			return err
		}
		return cli.Afterwards(c.saySemaphore())
	})
	release.PreRunE = func(cmd *cobra.Command, args []string) error {
		ids, counted := args[1:], cmd.Flags().Changed("permits")
		switch {
		case counted && len(ids) > 0:
			return cli.Usagef("name the ids of permits, or give -n, not both")
		case !counted && len(ids) == 0:
			return cli.Usagef("name the ids of permits, or how many with -n")
		case counted && (n < 1 || n > wire.MaxCount):
			return cli.Usagef("--permits is %d, must be from 1 to 2^53 - 1", n)
		}
		for _, id := range ids {
			if _, err := wire.Permit(id); err != nil {
				return cli.Exit(cli.ExitUsage, err)
			}
		}
		return nil
	}
	release.Flags().IntVarP(&n, "permits", "n", 0, "how `many` permits, of a counting semaphore")
	return g.Command
}

// A semaphoreState is what the commands tell of a semaphore.
type semaphoreState struct {
	survey.Named
	Free  int   `json:"free"`
	Taken int   `json:"taken"`         // of permits with ids; of others it is not known
	Done  *bool `json:"set,omitempty"` // whether it was this call that made it
}

func (s semaphoreState) String() string {
	if s.Taken > 0 {
		return fmt.Sprintf("%d free, %d taken", s.Free, s.Taken)
	}
	return fmt.Sprintf("%d free", s.Free)
}

// The two kinds of semaphore that a name may be.
func (c *call) counting() *semaphore.Semaphore { return semaphore.New(c.Session, c.name) }

func (c *call) expirable() *semaphore.Expirable {
	return semaphore.NewExpirable(c.Session, c.name, nil)
}

// setSemaphore makes the semaphore, and says whether it did.
func (c *call) setSemaphore(set func(context.Context, int) (bool, error)) error {
	made, err := set(c.ctx, c.n)
	if err != nil {
		return err
	}
	if made {
		return cli.Afterwards(c.say(semaphoreState{Named: survey.NewNamed(c.name), Free: c.n, Done: &made},
			fmt.Sprintf("%s has %d permits", cli.Safe(c.name), c.n), ""))
	}
	state, err := c.state()
	if err != nil {
		return err
	}
	state.Done = &made
	return c.refuse(state, "semaphore %q is there already, %s; to change its size: holdfast semaphore add", c.name, state)
}

// release gives the permits with the ids back, or n without any.
func (c *call) release(n int) error {
	if len(c.ids) > 0 {
		return c.expirable().Release(c.ctx, c.ids...)
	}
	withIDs, err := c.withIDs()
	if err != nil {
		return err
	}
	if withIDs {
		return cli.Nof("the permits of semaphore %q have ids: name them instead of -n", c.name)
	}
	there, err := c.counting().ReleaseIfExists(c.ctx, n)
	if err == nil && !there {
		return cli.Nof("there is no semaphore %q", c.name)
	}
	return err
}

// withIDs reports whether permits with ids are taken, which shows of what kind the semaphore is.
func (c *call) withIDs() (bool, error) {
	taken, err := c.expirable().AcquiredPermits(c.ctx)
	return taken > 0, unread(err)
}

func (c *call) state() (s semaphoreState, err error) {
	s.Named = survey.NewNamed(c.name)
	if s.Taken, err = c.expirable().AcquiredPermits(c.ctx); err == nil { // first: it puts back those whose lease is over
		s.Free, err = c.counting().AvailablePermits(c.ctx)
	}
	return s, unread(err)
}

func (c *call) saySemaphore() error {
	state, err := c.state()
	if err != nil {
		return err
	}
	return c.say(state, fmt.Sprintf("%s: %s", cli.Safe(c.name), state), strconv.Itoa(state.Free))
}
