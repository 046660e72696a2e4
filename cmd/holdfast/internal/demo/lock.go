package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// lockScene shows the reentrant lock: several processes count in one file, while one of them
// is killed and another is stopped, each while it holds the lock.
var lockScene = scene{
	name:  "lock",
	short: "four processes, one reentrant lock",
	play:  func(ctx context.Context, s *stage) error { return newLockStory(s).tell(ctx) },
	work:  workLock,
}

const (
	lockProcesses  = 4
	lockGoroutines = 3
	lockLease      = time.Second

	// When what happens, from the beginning.
	killAt   = 2 * time.Second
	stopAt   = 4500 * time.Millisecond
	stopFor  = 2 * lockLease
	finishAt = 9 * time.Second
)

// A lockStory is one telling of the scene.
type lockStory struct {
	*stage
	ledger *ledger
	seats  [lockProcesses][lockGoroutines]seat
	faults []*fault // in order
}

// A seat is what one goroutine of a worker is doing, as far as it has told.
type seat struct {
	does what
	read int // last
}

func newLockStory(s *stage) *lockStory {
	l := &lockStory{stage: s, ledger: newLedger(lockProcesses)}
	s.story = l
	return l
}

func (l *lockStory) tell(ctx context.Context) error {
	if err := counter(l.file).write(0); err != nil {
		return err
	}
	if err := l.launch(ctx, lockProcesses, setup{
		Lease: lockLease, Goroutines: lockGoroutines, Name: "holdfast-demo:" + rand.Text()[:8],
	}); err != nil {
		return err
	}
	l.note("%d goroutines in each process count in one file; the lease is %s", lockGoroutines, human(lockLease))
	for _, act := range []func(context.Context) error{l.kill, l.stop, l.check} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill kills a worker that holds the lock.
func (l *lockStory) kill(ctx context.Context) error {
	victim, f, err := l.pick(ctx, killAt, "killed")
	if err != nil {
		return err
	}
	if err := victim.kill(); err != nil {
		return err
	}
	l.note(l.red("SIGKILL")+" to worker %d, which holds the lock", f.worker)
	return l.takeover(ctx, f)
}

// stop stops a worker that holds the lock until its lease is long over, and has it go on.
func (l *lockStory) stop(ctx context.Context) error {
	victim, f, err := l.pick(ctx, stopAt, "stopped")
	if err != nil {
		return err
	}
	if err := victim.suspend(); err != nil {
		return err
	}
	l.note(l.red("SIGSTOP")+" to worker %d, which holds the lock and is about to write %d", f.worker, f.read+1)
	if err := l.takeover(ctx, f); err != nil {
		return err
	}
	if err := l.at(ctx, f.at.Add(stopFor).Sub(l.begun)); err != nil {
		return err
	}

	f.resumed, f.counter = time.Now(), l.ledger.highest
	if err := errors.Join(victim.order(order{Do: proceed}), victim.wake()); err != nil {
		return err
	}
	l.note(l.red("SIGCONT")+" to worker %d, %s later; the counter is %d by now",
		f.worker, human(f.resumed.Sub(f.at)), f.counter)
	if err := l.until(ctx, "the resumed worker to learn its loss", func() bool { return f.learned != "" }); err != nil {
		return err
	}
	l.note(l.green("worker %d has learned its loss")+" before writing, %s after SIGCONT:", f.worker, human(f.delay))
	l.say("         " + f.learned)
	return nil
}

// pick waits for the moment, and then for the worker that holds the lock to take it once more
// and to linger: then it holds the lock, has read the counter and has not written it.
func (l *lockStory) pick(ctx context.Context, moment time.Duration, done string) (*process, *fault, error) {
	if err := l.at(ctx, moment); err != nil {
		return nil, nil, err
	}
	holder := 0
	if err := l.until(ctx, "somebody to hold the lock", func() bool {
		holder, _ = l.holder()
		return holder > 0
	}); err != nil {
		return nil, nil, err
	}
	victim := l.fleet.processes[holder-1]
	if err := victim.order(order{Do: linger}); err != nil {
		return nil, nil, err
	}
	f := &fault{done: done, worker: holder}
	if err := l.until(ctx, "the victim to hold the lock", func() bool {
		for _, seat := range l.seats[holder-1] {
			if seat.does == lingers {
				f.read, f.at = seat.read, time.Now()
				return true
			}
		}
		return false
	}); err != nil {
		return nil, nil, err
	}
	l.faults = append(l.faults, f)
	return victim, f, nil
}

// takeover waits until another worker has the lock.
func (l *lockStory) takeover(ctx context.Context, f *fault) error {
	if err := l.until(ctx, "another worker to take over", func() bool { return f.heir != 0 }); err != nil {
		return err
	}
	l.note(l.green("worker %d has taken over")+", after %s", f.heir, human(f.after))
	return nil
}

// check ends the work and holds the ledger against the counter.
func (l *lockStory) check(ctx context.Context) error {
	if err := l.at(ctx, finishAt); err != nil {
		return err
	}
	if err := l.finish(ctx); err != nil {
		return err
	}
	count, err := counter(l.file).read()
	if err != nil {
		return err
	}
	l.clear()
	l.summary(count)
	if err := l.ledger.audit(count); err != nil {
		return err
	}
	l.say("")
	l.say(l.green("Everything held."))
	return nil
}

// take takes in what a worker tells.
func (l *lockStory) take(e event) error {
	l.ledger.take(e)
	mine := &l.seats[e.worker-1][e.Goroutine]
	before := mine.does
	mine.does = e.What
	switch e.What {
	case holds, lingers:
		mine.read = e.Value
	case exited:
		l.seats[e.worker-1] = [lockGoroutines]seat{}
	}
	for _, f := range l.faults {
		if err := f.take(e, before); err != nil {
			return err
		}
	}
	return nil
}

// holder is the worker and the goroutine that hold the lock, or had it last; 0 if that one is
// gone. Events of several workers may overtake one another, but who comes later reads more.
func (l *lockStory) holder() (worker, goroutine int) {
	last := -1
	for w, seats := range l.seats {
		for g, seat := range seats {
			switch seat.does {
			case holds, lingers, wrote:
				if seat.read > last && !l.gone(w+1) {
					worker, goroutine, last = w+1, g, seat.read
				}
			}
		}
	}
	return worker, goroutine
}

// orphaned is the fault whose victim still has the lock on the server, nil if there is none.
func (l *lockStory) orphaned() *fault {
	for _, f := range l.faults {
		if f.heir == 0 {
			return f
		}
	}
	return nil
}

// learned is how many of the victims have learned that they had lost the lock.
func (l *lockStory) learned() (n int) {
	for _, f := range l.faults {
		if f.learned != "" {
			n++
		}
	}
	return n
}

// gone reports whether the worker was killed, or is stopped.
func (l *lockStory) gone(worker int) bool {
	for _, f := range l.faults {
		if f.worker == worker && f.resumed.IsZero() {
			return true
		}
	}
	return false
}
