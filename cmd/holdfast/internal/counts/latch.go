package counts

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
)

func latchCommand(redis *cli.Redis) *cobra.Command {
	g := newGroup(redis, "latch", "Set, count down and look at countdown latches", wire.LatchChannel)
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
	g.add("count NAME", "Print how many have yet to count down", 0, func(c *call) error {
		left, err := c.left()
		if err != nil {
			return err
		}
		return c.sayLatch(left)
	})
	return g.Command
}

// A latchState is what the commands tell of a latch.
type latchState struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Done  *bool  `json:"set,omitempty"` // whether it was this call that set it
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
		return afterwards(c.say(latchState{c.name, c.n, &set},
			fmt.Sprintf("%s is closed until %d have counted down", cli.Safe(c.name), c.n), ""))
	}
	left, err := c.left()
	if err != nil {
		return err
	}
	return c.refuse(latchState{c.name, left, &set}, "latch %q is set already: %d have yet to count down", c.name, left)
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
		text = fmt.Sprintf("%s is closed: %d have yet to count down", cli.Safe(c.name), left)
	}
	return c.say(latchState{Name: c.name, Count: left}, text, strconv.Itoa(left))
}
