package wait

import (
	"context"
	"time"
)

// A Caller is one call that waits: its attempt, and where it waits between two attempts. (These are methods rather than
// functions in a struct because they stay on the stack for as long as it waits.)
type Caller interface {
	// Attempt tries once. Unless it is done, or fails for good, the next attempt comes after a wake-up, or when
	// retry has passed. It ends with ctx, and its pauses with sleep.
	Attempt(ctx, sleep context.Context) (done bool, retry time.Duration, err error)

	// TakePlace is where the call waits. It is asked for before each sleep, because a call may have to move.
	TakePlace() *Place

	// Overtakes reports whether the call need not wait for its turn: those ahead of it may be waiting for its own
	// owner.
	Overtakes() bool

	// Woken learns why each sleep ended.
	Woken(by Cause)

	// Interrupted makes the error of the call of why its sleep was cut short. If there is none the call goes on, at
	// another place.
	Interrupted(sleep context.Context, why error) error
}

// A Lone is embedded in a [Caller] that is in no line: it supplies but the attempt.
type Lone struct{ Place *Place }

// TakePlace is where the call waits.
func (l Lone) TakePlace() *Place { return l.Place }

// Overtakes reports that nobody is ahead.
func (Lone) Overtakes() bool { return false }

// Woken learns why a sleep ended.
func (Lone) Woken(Cause) {}

// Interrupted makes the error of why a sleep was cut short.
func (Lone) Interrupted(_ context.Context, why error) error { return why }

// Until makes attempts until one is done or fails for good: the first one at once if nobody is ahead, and from then
// on after each sleep at the head of a line, which ends with a wake-up, with the time to retry, or with the context of
// sleeps. Attempts have one of their own. It is the one loop of everything that waits.
func Until(ctx, sleep context.Context, nobodyAhead bool, c Caller) error {
	retry := time.Duration(0)
	for look := nobodyAhead; ; {
		if look {
			done, next, err := c.Attempt(ctx, sleep)
			if done || err != nil {
				return err
			}
			retry = next
		}
		place := c.TakePlace()
		d, sleeps, err := retry, true, error(nil)
		if !c.Overtakes() {
			d, sleeps, err = place.begin(sleep, retry)
		}
		if sleeps { // here, so that those who do have few frames on their stacks
			err = place.Sleep(sleep, d)
		}
		if err != nil {
			if err = c.Interrupted(sleep, err); err != nil {
				return err
			}
			look = false
			continue
		}
		c.Woken(place.Cause())
		look = place.Head() || c.Overtakes()
	}
}
