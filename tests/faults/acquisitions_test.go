package faults

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
)

var operations = slices.Concat(acquisitions, others)

// acquisitions take the lock in every way, outermost or nested.
var acquisitions = []operation{
	outermost("TryLock", kit.Locker.TryLock),
	outermost("TryLockFor", tryLockFor).timed(),
	outermost("Lock", kit.Locker.Lock).waiting(),
	nested("re-entry by TryLock", kit.Locker.TryLock),
	nested("re-entry by TryLockFor", tryLockFor).timed(),
	nested("re-entry by Lock", kit.Locker.Lock).waiting(),
}

// tryLockFor waits under a ctx that does not end. If the given one does, it waits for less time than it takes to notice
// a silent connection.
func tryLockFor(l kit.Locker, ctx context.Context) (*holdfast.Hold, error) {
	wait := 10 * time.Second
	if _, ends := ctx.Deadline(); ends {
		wait = 800 * time.Millisecond
	}
	return l.TryLockFor(context.WithoutCancel(ctx), wait)
}

// timed marks an operation whose time is limited by something other than its ctx.
func (o operation) timed() operation {
	o.brief = true
	o.stalled = outcomes{"unknown", "unknown"}
	return o
}

// taking is an operation that takes the lock. TryLock repeats its attempt until it may no longer be executed.
func taking(name string, do act) operation {
	return operation{
		name: name, verb: "acquire", do: []act{do},
		lost: outcomes{"done", "unknown"}, reset: outcomes{"done", "unknown"},
		stalled: outcomes{"unknown deadline", "unknown deadline"},
	}
}

// waiting marks an operation that is repeated until its ctx ends.
func (o operation) waiting() operation {
	o.patience = 2700 * time.Millisecond
	o.lost.every, o.reset.every = "unknown deadline", "unknown deadline"
	return o
}

// outermost takes the lock under a new owner and, if it gets the lock, releases it.
func outermost(name string, take func(kit.Locker, context.Context) (*holdfast.Hold, error)) operation {
	o := taking(name, func(c *cell, ctx context.Context, _ fault) error {
		err := c.take(ctx, func(ctx context.Context) (*holdfast.Hold, error) { return take(c.mine, ctx) })
		if err != nil {
			return err
		}
		c.believes()
		require.Equal(c, 1, c.count())
		return c.giveBack()
	})
	o.highest = 1
	return o
}

// nested takes a lock that is already held, and keeps it.
func nested(name string, take func(kit.Locker, context.Context) (*holdfast.Hold, error)) operation {
	o := taking(name, func(c *cell, ctx context.Context, _ fault) error {
		return c.take(c.holds[0].Context(ctx),
			func(ctx context.Context) (*holdfast.Hold, error) { return take(c.mine, ctx) })
	})
	o.highest, o.owners, o.apart = 3, true, true
	o.prepare = func(c *cell) { require.NoError(c, c.take(c.Context(), c.mine.Lock)) }
	o.always = func(k kit.Kind) string {
		if k.Reentrant {
			return ""
		}
		return "already held"
	}
	return o
}
