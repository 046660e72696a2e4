package counts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
)

func latchCommand(redis *cli.Redis) *cobra.Command {
	t := &task{redis: redis}
	cmd := &cobra.Command{
		Use:   "latch",
		Short: "Set, count down and look at countdown latches",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	t.flags(cmd)
	cmd.AddCommand(latchSet(t), latchDown(t), latchCount(t))
	return cmd
}

// A latchState is what the commands tell of a latch.
type latchState struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Done  *bool  `json:"set,omitempty"` // whether it was this call that set it
}

func latchSet(t *task) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME N",
		Short: "Close a latch until N have counted down",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := number("N", args[1], 1)
			if err != nil {
				return err
			}
			return t.latch(cmd, args[0], func(ctx context.Context, l *latch.Latch) error {
				set, err := l.TrySetCount(ctx, n)
				if err != nil {
					return err
				}
				if set {
					return afterwards(t.say(cmd.OutOrStdout(), latchState{Name: args[0], Count: n, Done: &set},
						fmt.Sprintf("%s is closed until %d have counted down", cli.Safe(args[0]), n), ""))
				}
				left, err := count(ctx, l)
				if err != nil {
					return err
				}
				return t.refuse(cmd.OutOrStdout(), latchState{Name: args[0], Count: left, Done: &set},
					"latch %q is set already: %d have yet to count down", args[0], left)
			})
		},
	}
}

func latchDown(t *task) *cobra.Command {
	times := 1
	cmd := &cobra.Command{
		Use:   "down NAME",
		Short: "Count a latch down",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if times < 1 {
				return cli.Usagef("--times is %d, must be at least 1", times)
			}
			return t.latch(cmd, args[0], func(ctx context.Context, l *latch.Latch) error {
				left, err := count(ctx, l)
				counted := 0
				for err == nil && counted < times && left > 0 {
					if err = ctx.Err(); err == nil {
						err = l.CountDown(ctx)
					}
					if err == nil {
						counted++
						left, err = count(ctx, l)
					}
				}
				if err == nil {
					err = t.sayLatch(cmd, args[0], left)
				}
				if err != nil && counted > 0 {
					return cli.Exit(cli.ExitTempFail, fmt.Errorf("after %d of %d times: %w", counted, times, err))
				}
				return err
			})
		},
	}
	cmd.Flags().IntVarP(&times, "times", "n", 1, "how many `times`")
	return cmd
}

func latchCount(t *task) *cobra.Command {
	return &cobra.Command{
		Use:   "count NAME",
		Short: "Print how many have yet to count down",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.latch(cmd, args[0], func(ctx context.Context, l *latch.Latch) error {
				left, err := count(ctx, l)
				if err != nil {
					return err
				}
				return t.sayLatch(cmd, args[0], left)
			})
		},
	}
}

// latch runs a call on a latch.
func (t *task) latch(cmd *cobra.Command, name string, call func(context.Context, *latch.Latch) error) error {
	return t.do(cmd, name, wire.LatchChannel(name), func(ctx context.Context, s *holdfast.Session) error {
		return call(ctx, latch.New(s, name))
	})
}

func count(ctx context.Context, l *latch.Latch) (int, error) {
	left, err := l.Count(ctx)
	return left, unread(err)
}

func (t *task) sayLatch(cmd *cobra.Command, name string, left int) error {
	text := fmt.Sprintf("%s is open", cli.Safe(name))
	if left > 0 {
		text = fmt.Sprintf("%s is closed: %d have yet to count down", cli.Safe(name), left)
	}
	return t.say(cmd.OutOrStdout(), latchState{Name: name, Count: left}, text, strconv.Itoa(left))
}
