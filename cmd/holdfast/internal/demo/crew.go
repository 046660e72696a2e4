package demo

import (
	"context"
	"time"
)

// A crew is all goroutines of all workers, which count in one file: what each of them is doing,
// as far as it has told, and what it has done.
type crew struct {
	*stage
	ledger *ledger
	seats  [][]seat       // by worker and goroutine, both from 0
	fates  map[int]string // by worker: "killed", "stopped"
	away   map[int]bool   // the workers that are killed, or stopped now
}

// A seat is what one goroutine of a worker is doing, as far as it has told.
type seat struct {
	does what
	read int // last
}

func newCrew(s *stage, processes, goroutines int) *crew {
	c := &crew{stage: s, ledger: newLedger(processes), fates: map[int]string{}, away: map[int]bool{}}
	for range processes {
		c.seats = append(c.seats, make([]seat, goroutines))
	}
	return c
}

// begin has all begin to count, from 0.
func (c *crew) begin(ctx context.Context, with setup) error {
	if err := counter(c.file).write(0); err != nil {
		return err
	}
	with.Goroutines = len(c.seats[0])
	return c.launch(ctx, len(c.seats), with)
}

// end has all end their work at that moment, and returns the counter.
func (c *crew) end(ctx context.Context, moment time.Duration) (count int, err error) {
	if err := c.at(ctx, moment); err != nil {
		return 0, err
	}
	if err := c.finish(ctx); err != nil {
		return 0, err
	}
	c.clear()
	return counter(c.file).read()
}

// take takes in what a worker tells, and returns what its goroutine did before.
func (c *crew) take(e event) (before what) {
	c.ledger.take(e)
	mine := &c.seats[e.worker-1][e.Goroutine]
	before = mine.does
	mine.does = e.What
	switch e.What {
	case holds, lingers:
		mine.read = e.Value
	case exited:
		clear(c.seats[e.worker-1])
	}
	return before
}

// detain waits for the worker that holds the lock to take it once more and to linger: then it
// holds the lock, has read the counter and has not written it.
func (c *crew) detain(ctx context.Context) (worker, read int, err error) {
	if err := c.until(ctx, "somebody to hold the lock", func() bool {
		worker, _ = c.holder()
		return worker > 0
	}); err != nil {
		return 0, 0, err
	}
	if err := c.process(worker).order(order{Do: linger}); err != nil {
		return 0, 0, err
	}
	return worker, read, c.until(ctx, "the holder to linger", func() bool {
		for _, seat := range c.seats[worker-1] {
			if seat.does == lingers {
				read = seat.read
				return true
			}
		}
		return false
	})
}

func (c *crew) kill(worker int) error {
	c.fates[worker], c.away[worker] = "killed", true
	return c.process(worker).kill()
}

func (c *crew) suspend(worker int) error {
	c.fates[worker], c.away[worker] = "stopped", true
	return c.process(worker).suspend()
}

func (c *crew) resume(worker int) error {
	c.away[worker] = false
	return c.process(worker).wake()
}

func (c *crew) process(worker int) *process { return c.fleet.processes[worker-1] }

// holder is the worker and the goroutine that hold the lock, or had it last; 0 if that one is
// gone. Events of several workers may overtake one another, but who comes later reads more.
func (c *crew) holder() (worker, goroutine int) {
	last := -1
	for w, seats := range c.seats {
		for g, seat := range seats {
			switch seat.does {
			case holds, lingers, wrote:
				if seat.read > last && !c.away[w+1] {
					worker, goroutine, last = w+1, g, seat.read
				}
			}
		}
	}
	return worker, goroutine
}

// waiting is how many goroutines wait for the lock.
func (c *crew) waiting() (n int) {
	for w, seats := range c.seats {
		for _, seat := range seats {
			if seat.does == waiting && !c.away[w+1] {
				n++
			}
		}
	}
	return n
}
