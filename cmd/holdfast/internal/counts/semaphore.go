package counts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/semaphore"
)

func semaphoreCommand(redis *cli.Redis) *cobra.Command {
	t := &task{redis: redis}
	cmd := &cobra.Command{
		Use:   "semaphore",
		Short: "Make semaphores, change their size, give permits back",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	t.flags(cmd)
	cmd.AddCommand(semaphoreSet(t), semaphoreAdd(t), semaphoreCount(t), semaphoreRelease(t))
	return cmd
}

// A semaphoreState is what the commands tell of a semaphore.
type semaphoreState struct {
	Name  string `json:"name"`
	Free  int    `json:"free"`
	Taken int    `json:"taken"`         // of permits with ids; of others it is not known
	Done  *bool  `json:"set,omitempty"` // whether it was this call that made it
}

// pools are the two kinds of semaphore that a name may be.
type pools struct {
	counting  *semaphore.Semaphore
	expirable *semaphore.Expirable
}

func semaphoreSet(t *task) *cobra.Command {
	var expirable bool
	cmd := &cobra.Command{
		Use:   "set NAME N",
		Short: "Make a semaphore with N permits",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := number("N", args[1], 0)
			if err != nil {
				return err
			}
			return t.semaphore(cmd, args[0], func(ctx context.Context, p pools) error {
				set := p.counting.TrySetPermits
				if expirable {
					set = p.expirable.TrySetPermits
				}
				made, err := set(ctx, n)
				if err != nil {
					return err
				}
				if made {
					return afterwards(t.say(cmd.OutOrStdout(), semaphoreState{Name: args[0], Free: n, Done: &made},
						fmt.Sprintf("%s has %d permits", cli.Safe(args[0]), n), ""))
				}
				state, err := p.state(ctx, args[0])
				if err != nil {
					return err
				}
				state.Done = &made
				return t.refuse(cmd.OutOrStdout(), state, "semaphore %q is there already, %s; to change its size: holdfast semaphore add", args[0], state)
			})
		},
	}
	cmd.Flags().BoolVar(&expirable, "expirable", false, "make one whose permits have ids and leases")
	return cmd
}

func semaphoreAdd(t *task) *cobra.Command {
	var expirable bool
	cmd := &cobra.Command{
		Use:   "add NAME N",
		Short: "Make a semaphore larger by N, or smaller",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := number("N", args[1], -most)
			if err != nil {
				return err
			}
			return t.semaphore(cmd, args[0], func(ctx context.Context, p pools) error {
				withIDs, err := p.withIDs(ctx)
				if err != nil {
					return err
				}
				add := p.counting.AddPermits
				if expirable || withIDs {
					add = p.expirable.AddPermits
				}
				if err := add(ctx, n); err != nil {
					return err
				}
				return afterwards(t.sayState(ctx, cmd, args[0], p))
			})
		},
	}
	cmd.Flags().BoolVar(&expirable, "expirable", false, "its permits have ids and leases")
	return cmd
}

func semaphoreCount(t *task) *cobra.Command {
	return &cobra.Command{
		Use:   "count NAME",
		Short: "Print how many permits are free",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.semaphore(cmd, args[0], func(ctx context.Context, p pools) error {
				return t.sayState(ctx, cmd, args[0], p)
			})
		},
	}
}

func semaphoreRelease(t *task) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use:   "release NAME [ID...]",
		Short: "Give permits back, by their ids",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, ids := args[0], args[1:]
			counted := cmd.Flags().Changed("permits")
			switch {
			case counted && len(ids) > 0:
				return cli.Usagef("name the ids of permits, or give -n, not both")
			case !counted && len(ids) == 0:
				return cli.Usagef("name the ids of permits, or how many with -n")
			case counted && n < 1:
				return cli.Usagef("--permits is %d, must be at least 1", n)
			}
			for _, id := range ids {
				if _, err := wire.Permit(id); err != nil {
					return cli.Exit(cli.ExitUsage, err)
				}
			}
			return t.semaphore(cmd, name, func(ctx context.Context, p pools) error {
				if err := p.release(ctx, n, ids); err != nil {
					return err
				}
				return afterwards(t.sayState(ctx, cmd, name, p))
			})
		},
	}
	cmd.Flags().IntVarP(&n, "permits", "n", 0, "how `many` permits, of a counting semaphore")
	return cmd
}

// release gives the permits with the ids back, or n without any.
func (p pools) release(ctx context.Context, n int, ids []string) error {
	if len(ids) > 0 {
		return p.expirable.Release(ctx, ids...)
	}
	withIDs, err := p.withIDs(ctx)
	if err != nil {
		return err
	}
	if withIDs {
		return no("the permits of semaphore %q have ids: name them instead of -n", p.counting.Name())
	}
	there, err := p.counting.ReleaseIfExists(ctx, n)
	if err == nil && !there {
		return no("there is no semaphore %q", p.counting.Name())
	}
	return err
}

// withIDs reports whether permits with ids are taken, which shows of what kind the semaphore is.
func (p pools) withIDs(ctx context.Context) (bool, error) {
	taken, err := p.expirable.AcquiredPermits(ctx)
	return taken > 0, unread(err)
}

func (p pools) state(ctx context.Context, name string) (s semaphoreState, err error) {
	s.Name = name
	if s.Taken, err = p.expirable.AcquiredPermits(ctx); err != nil { // first: it has come back what is over
		return s, unread(err)
	}
	s.Free, err = p.counting.AvailablePermits(ctx)
	return s, unread(err)
}

func (s semaphoreState) String() string {
	if s.Taken > 0 {
		return fmt.Sprintf("%d free, %d taken", s.Free, s.Taken)
	}
	return fmt.Sprintf("%d free", s.Free)
}

// semaphore runs a call on a semaphore.
func (t *task) semaphore(cmd *cobra.Command, name string, call func(context.Context, pools) error) error {
	return t.do(cmd, name, wire.SemaphoreChannel(name), func(ctx context.Context, s *holdfast.Session) error {
		return call(ctx, pools{semaphore.New(s, name), semaphore.NewExpirable(s, name, nil)})
	})
}

func (t *task) sayState(ctx context.Context, cmd *cobra.Command, name string, p pools) error {
	state, err := p.state(ctx, name)
	if err != nil {
		return err
	}
	return t.say(cmd.OutOrStdout(), state, fmt.Sprintf("%s: %s", cli.Safe(name), state), strconv.Itoa(state.Free))
}
