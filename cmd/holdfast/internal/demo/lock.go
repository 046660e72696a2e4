package demo

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// lockScene shows the reentrant lock: several processes count in one file, while one of them
// is killed and another is stopped, each while it holds the lock.
var lockScene = scene{
	name:  "lock",
	short: "four processes, one reentrant lock",
	play:  func(ctx context.Context, s *stage) error { return newLockStory(s).tell(ctx) },
	work: func(ctx context.Context, w *worker) error {
		return w.count(ctx, func(s *holdfast.Session) holdfast.Locker { return rlock.New(s, w.Name, nil) })
	},
}

const (
	lockProcesses  = 4
	lockGoroutines = 3
	lockLease      = time.Second
	lockPace       = 2 * time.Millisecond

	// When what happens, from the beginning.
	killAt   = 2 * time.Second
	stopAt   = 4500 * time.Millisecond
	stopFor  = 2 * lockLease
	finishAt = 9 * time.Second
)

// A lockStory is one telling of the scene.
type lockStory struct {
	*crew
	faults []*fault // in order
}

func newLockStory(s *stage) *lockStory {
	l := &lockStory{crew: newCrew(s, lockProcesses, lockGoroutines)}
	s.story = l
	return l
}

func (l *lockStory) tell(ctx context.Context) error {
	if err := l.begin(ctx, setup{Lease: lockLease, Pace: lockPace}); err != nil {
		return err
	}
	l.note("%d goroutines in each process count in one file; the lease is %s", lockGoroutines, human(lockLease))
	for _, act := range []func(context.Context) error{l.killHolder, l.stopHolder, l.check} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killHolder kills a worker that holds the lock.
func (l *lockStory) killHolder(ctx context.Context) error {
	f, err := l.pick(ctx, killAt, "killed")
	if err != nil {
		return err
	}
	if err := l.kill(f.worker); err != nil {
		return err
	}
	l.note(l.red("SIGKILL")+" to worker %d, which holds the lock", f.worker)
	return l.takeover(ctx, f)
}

// stopHolder stops a worker that holds the lock until its lease is long over, and has it go on.
func (l *lockStory) stopHolder(ctx context.Context) error {
	f, err := l.pick(ctx, stopAt, "stopped")
	if err != nil {
		return err
	}
	if err := l.suspend(f.worker); err != nil {
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
	if err := errors.Join(l.process(f.worker).order(order{Do: proceed}), l.resume(f.worker)); err != nil {
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

// pick waits for the moment, and then for a victim: a worker that is about to write.
func (l *lockStory) pick(ctx context.Context, moment time.Duration, done string) (*fault, error) {
	if err := l.at(ctx, moment); err != nil {
		return nil, err
	}
	worker, read, err := l.detain(ctx)
	if err != nil {
		return nil, err
	}
	f := &fault{done: done, worker: worker, read: read, at: time.Now()}
	l.faults = append(l.faults, f)
	return f, nil
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
	count, err := l.end(ctx, finishAt)
	if err != nil {
		return err
	}
	l.sumUp(count)
	return l.ledger.audit(count)
}

// take takes in what a worker tells.
func (l *lockStory) take(e event) error {
	before := l.crew.take(e)
	for _, f := range l.faults {
		if err := f.take(e, before); err != nil {
			return err
		}
	}
	return nil
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
