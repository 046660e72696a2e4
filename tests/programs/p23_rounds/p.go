// Package p23 works in rounds: nobody begins one before all have finished the one before, although workers die.
package p23

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
)

// Rounds works through the rounds, each until no task of it is left. Workers that die count out, and the others do
// their tasks.
func Rounds(
	ctx context.Context, s *holdfast.Session, job string, workers, rounds int,
	task func(ctx context.Context, round int) (more bool, err error),
) error {
	party, err := barrier.New(s, job, workers, nil).Join(ctx)
	if err != nil {
		return err
	}
	defer party.Release()
	work := party.Context(ctx) // ends if the others do not wait any more
	for round := range rounds {
		for more := true; more; {
			if more, err = task(work, round); err != nil {
				return err
			}
		}
		if _, err := party.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Train does steps that need all workers. If one dies, the step counts for nobody: they begin again at the last
// checkpoint, together with a new worker in its place.
func Train(
	ctx context.Context, s *holdfast.Session, job string, workers int,
	checkpoint func(context.Context) (step int, err error), do func(ctx context.Context, step int) (last bool, err error),
) error {
	party, err := barrier.New(s, job, workers, &barrier.Options{Breaks: true}).Join(ctx)
	if err != nil {
		return err
	}
	defer party.Release()
	for {
		step, err := checkpoint(ctx)
		for last := false; err == nil && !last; step++ {
			if last, err = do(party.Context(ctx), step); err == nil {
				_, err = party.Await(ctx)
			}
		}
		if !errors.Is(err, barrier.ErrBroken) {
			return err
		}
	}
}
