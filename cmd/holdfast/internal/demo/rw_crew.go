package demo

import (
	"context"
	"time"
)

// readers are the workers that read, without the one that is dead.
func (r *rwStory) readers() (workers []int) {
	for w := rwWriters + 1; w <= rwWriters+rwReaders; w++ {
		if !r.away[w] {
			workers = append(workers, w)
		}
	}
	return workers
}

// order tells the workers what to do.
func (r *rwStory) order(do verb, workers ...int) error {
	for _, w := range workers {
		if err := r.process(w).order(order{Do: do}); err != nil {
			return err
		}
	}
	return nil
}

// linger waits until all these are in the midst of reading and stay there.
func (r *rwStory) linger(ctx context.Context, workers ...int) error {
	if err := r.order(linger, workers...); err != nil {
		return err
	}
	return r.until(ctx, "readers to linger", func() bool { return r.count(lingers, workers) == len(workers) })
}

// standAside waits for the moment, and then until these writers do not ask any more.
func (r *rwStory) standAside(ctx context.Context, moment time.Duration, workers ...int) error {
	if err := r.at(ctx, moment); err != nil {
		return err
	}
	if err := r.order(pause, workers...); err != nil {
		return err
	}
	return r.until(ctx, "writers to stand aside", func() bool { return r.count(pauses, workers) == len(workers) })
}

// count is how many of the workers are doing that.
func (r *rwStory) count(does what, workers []int) (n int) {
	for _, w := range workers {
		if r.seats[w-1][0].does == does {
			n++
		}
	}
	return n
}

// atNumber is how many readers have last found that number in the document.
func (r *rwStory) atNumber(number int) (n int) {
	for _, w := range r.readers() {
		if r.seats[w-1][0].read == number {
			n++
		}
	}
	return n
}
