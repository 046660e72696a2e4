package wait

import (
	"context"
	"time"
)

// A Caller is one call that waits: what it attempts, and where it waits between two attempts.
type Caller struct {
	// Attempt tries once. Unless it is done, or fails for good, the next attempt comes after a wake-up, or when
	// retry has passed.
	Attempt func() (done bool, retry time.Duration, err error)

	// Place is where the call waits. It is asked for before each sleep, because a call may have to move.
	Place func() *Place

	// Overtakes reports whether the call need not wait for its turn: those ahead of it may be waiting for its own
	// owner. It may be nil.
	Overtakes func() bool

	// Woken is told why each sleep ended.
	Woken func(by Cause)

	// Interrupted makes the error of the call of why its sleep was cut short. If there is none the call goes on, at
	// another place.
	Interrupted func(why error) error
}

// Until makes attempts until one is done or fails for good: the first one at once if nobody is ahead, and from then
// on after each sleep at the head of a line, which ends with a wake-up, with the time to retry, or with ctx. It is
// the one loop of everything that waits.
func Until(ctx context.Context, nobodyAhead bool, c Caller) error {
	retry := time.Duration(0)
	for look := nobodyAhead; ; {
		if look {
			done, next, err := c.Attempt()
			if done || err != nil {
				return err
			}
			retry = next
		}
		place := c.Place()
		if err := c.sleep(ctx, place, retry); err != nil {
			if err = c.Interrupted(err); err != nil {
				return err
			}
			look = false
			continue
		}
		c.Woken(place.Cause())
		look = place.Head() || c.overtakes()
	}
}

func (c *Caller) sleep(ctx context.Context, place *Place, retry time.Duration) error {
	if c.overtakes() {
		return place.Sleep(ctx, retry)
	}
	return place.Wait(ctx, retry)
}

func (c *Caller) overtakes() bool { return c.Overtakes != nil && c.Overtakes() }
