package counts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/semaphore"
)

func semaphoreCommand(redis *cli.Redis) *cobra.Command {
	g := newGroup(redis, "semaphore", "Make semaphores, change their size, give permits back", wire.SemaphoreChannel)
	var expirable bool
	set := g.add("set NAME N", "Make a semaphore with N permits", 0, func(c *call) error {
		if expirable {
			return c.setSemaphore(c.expirable().TrySetPermits)
		}
		return c.setSemaphore(c.counting().TrySetPermits)
	})
	set.Flags().BoolVar(&expirable, "expirable", false, "make one whose permits have ids and leases")
	add := g.add("add NAME N", "Make a semaphore larger by N, or smaller", -most, func(c *call) error {
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
		return afterwards(c.saySemaphore())
	})
	add.Flags().BoolVar(&expirable, "expirable", false, "its permits have ids and leases")
	g.add("count NAME", "Print how many permits are free", 0, (*call).saySemaphore)
	var n int
	release := g.add("release NAME [ID...]", "Give permits back, by their ids", 0, func(c *call) error {
		if err := c.release(n); err != nil {
			return err
		}
		return afterwards(c.saySemaphore())
	})
	release.PreRunE = func(cmd *cobra.Command, args []string) error {
		ids, counted := args[1:], cmd.Flags().Changed("permits")
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
		return nil
	}
	release.Flags().IntVarP(&n, "permits", "n", 0, "how `many` permits, of a counting semaphore")
	return g.Command
}

// A semaphoreState is what the commands tell of a semaphore.
type semaphoreState struct {
	Name  string `json:"name"`
	Free  int    `json:"free"`
	Taken int    `json:"taken"`         // of permits with ids; of others it is not known
	Done  *bool  `json:"set,omitempty"` // whether it was this call that made it
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
		return afterwards(c.say(semaphoreState{Name: c.name, Free: c.n, Done: &made},
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
	s.Name = c.name
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
