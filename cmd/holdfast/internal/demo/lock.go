package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/rlock"
)

// lockScene shows the reentrant lock: several processes count in one file. One is killed and
// another is stopped, each while it holds the lock and is about to write.
var lockScene = scene{
	name:  "lock",
	short: "four processes share a reentrant lock; one is killed, one is stopped",
	story: func(s *stage) story { return &lockStory{stage: s} },
	work: func(w *worker, s *holdfast.Session) func(context.Context) error {
		return counting{w, rlock.New(s, w.Name, nil)}.increment
	},
}

const (
	lockProcesses  = 4
	lockGoroutines = 3
	lockLease      = time.Second

	killAt   = 1500 * time.Millisecond // from the beginning
	stopAt   = 4 * time.Second
	stopFor  = 2 * lockLease
	finishAt = 7 * time.Second
)

// A lockStory is one telling of the scene.
type lockStory struct {
	*stage
	victim victim
}

// A victim is a worker that something happens to while it holds the lock.
type victim struct {
	worker int
	read   int // the number it had read, and not yet written again
	at     time.Time

	heir    int // the worker that got the lock next; 0: none so far
	after   time.Duration
	learned string // the victim's words when it found out; "": it has not
}

func (l *lockStory) tell(ctx context.Context) error {
	if err := counter(l.file).write(0); err != nil {
		return err
	}
	with := setup{Goroutines: lockGoroutines, Lease: lockLease, Pace: 2 * time.Millisecond}
	if err := l.launch(ctx, lockProcesses, with); err != nil {
		return err
	}
	l.note("%d goroutines in each process count in one file; the lease is %s", lockGoroutines, cli.Roughly(lockLease))
	work := func(ctx context.Context) error { return l.at(ctx, finishAt) }
	return l.acts(ctx, l.killHolder, l.stopHolder, work, l.finish, l.audit)
}

func (l *lockStory) killHolder(ctx context.Context) error {
	if err := l.strike(ctx, killAt, 1); err != nil {
		return err
	}
	if err := l.process(1).Kill(); err != nil {
		return err
	}
	l.note("%s to worker 1, which holds the lock", l.Color(cli.Red, "SIGKILL"))
	return l.takeover(ctx)
}

// stopHolder stops a worker until its lease is long over, and then lets it go on.
func (l *lockStory) stopHolder(ctx context.Context) error {
	if err := l.strike(ctx, stopAt, 2); err != nil {
		return err
	}
	if err := l.process(2).Suspend(); err != nil {
		return err
	}
	l.note("%s to worker 2, which holds the lock and is about to write %d", l.Color(cli.Red, "SIGSTOP"), l.victim.read+1)
	if err := l.takeover(ctx); err != nil {
		return err
	}
	if err := l.at(ctx, l.victim.at.Add(stopFor).Sub(l.begun)); err != nil {
		return err
	}
	counted := len(l.ledger)
	l.process(2).Order(proceed)
	if err := l.process(2).Wake(); err != nil {
		return err
	}
	resumed := l.Color(cli.Red, "SIGCONT")
	l.note("%s to worker 2, %s later; the counter is %d by now", resumed, cli.Roughly(stopFor), counted)
	learned := func() bool { return l.victim.learned != "" }
	if err := l.until(ctx, "the resumed worker to learn of its loss", learned); err != nil {
		return err
	}
	l.note("%s, before it writes:", l.Color(cli.Green, "worker 2 knows of its loss"))
	l.Say("         " + l.victim.learned)
	return nil
}

// strike waits for the moment, and then until the worker holds the lock, has read and has not written.
func (l *lockStory) strike(ctx context.Context, moment time.Duration, worker int) error {
	if err := l.at(ctx, moment); err != nil {
		return err
	}
	detained, err := l.detain(ctx, worker)
	l.victim = victim{worker: worker, read: detained.Value, at: time.Now()}
	return err
}

// takeover waits until another worker has the lock.
func (l *lockStory) takeover(ctx context.Context) error {
	if err := l.until(ctx, "another worker to take over", func() bool { return l.victim.heir != 0 }); err != nil {
		return err
	}
	over := fmt.Sprintf("worker %d has taken over", l.victim.heir)
	l.note("%s, after %s", l.Color(cli.Green, over), cli.Roughly(l.victim.after))
	return nil
}

// take handles an event of a worker.
func (l *lockStory) take(e event) {
	v := &l.victim
	switch {
	case e.What == holds && e.worker != v.worker && v.worker > 0 && v.heir == 0 && e.Value >= v.read:
		v.heir, v.after = e.worker, e.at.Sub(v.at) // one that read less had it before the victim
	case e.What == lost && e.worker == v.worker:
		v.learned = e.Text
	}
}

func (l *lockStory) progress() string { return fmt.Sprintf("the counter is %d", len(l.ledger)) }
