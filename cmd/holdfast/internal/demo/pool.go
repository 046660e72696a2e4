package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/semaphore"
)

// poolScene shows permits with leases: more processes than permits do jobs that need one, and one process
// is killed in the middle of a job. Its permit has to come back when its lease ends, and not before.
var poolScene = scene{
	name:  "pool",
	short: "six processes share three permits; one dies with a permit",
	story: func(s *stage) story {
		return &poolStory{s, semaphore.NewExpirable(s.session, s.name, nil)}
	},
	work: func(w *worker, s *holdfast.Session) func(context.Context) error {
		permits, jobs := semaphore.NewExpirable(s, w.Name, nil), journal(w.File)
		return func(ctx context.Context) error { return w.job(ctx, permits, jobs) }
	},
}

const (
	poolProcesses = 6
	poolPermits   = 3
	poolLease     = 2 * time.Second
	poolPace      = 200 * time.Millisecond // of a job, at most
)

// job does one job with a permit, which is renewed while the process lives. With Redisson nothing renews it:
// there the lease must be longer than any job, and a dead worker keeps its permit for as long.
func (w *worker) job(ctx context.Context, permits *semaphore.Expirable, jobs journal) error {
	hold, err := permits.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	if err := jobs.write(began, w.Number); err != nil {
		return err
	}
	if err := w.compute(hold.Context(ctx), hold, 0, rand.N(w.Pace)); err != nil {
		return err
	}
	return errors.Join(hold.Err(), jobs.write(ended, w.Number))
}

// A poolStory is one telling of the scene.
type poolStory struct {
	*stage
	permits *semaphore.Expirable // the coordinator's own
}

func (p *poolStory) tell(ctx context.Context) error {
	if _, err := p.permits.TrySetPermits(ctx, poolPermits); err != nil {
		return err
	}
	defer func() { // permits have no expiry, and the server may be somebody's own
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), allowance)
		defer cancel()
		_, _ = p.permits.Delete(ctx)
	}()
	if err := p.launch(ctx, poolProcesses, setup{Goroutines: 1, Lease: poolLease, Pace: poolPace}); err != nil {
		return err
	}
	p.note("%d processes do jobs that need one of %d permits", poolProcesses, poolPermits)
	return p.acts(ctx, p.pause, p.killWorker, p.pause, p.finish, p.check)
}

// killWorker kills a worker in the middle of a job, and waits until its permit has come back.
func (p *poolStory) killWorker(ctx context.Context) error {
	detained, err := p.detain(ctx, 1)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := errors.Join(p.process(1).kill(), journal(p.file).write(died, 1)); err != nil {
		return err
	}
	p.note("%s to worker 1, which has a permit, in the middle of a job", p.red("SIGKILL"))
	gone := func() bool {
		_, err = p.permits.RemainingLease(ctx, detained.Text)
		return err != nil
	}
	if err := p.until(ctx, "a dead worker's permit to come back", gone); err != nil {
		return err
	}
	back := time.Since(killed)
	switch {
	case !errors.Is(err, holdfast.ErrNotHeld):
		return err
	case back < poolLease/2, back > poolLease+allowance: // it was renewed a third of the lease before at the latest
		return fmt.Errorf("a dead worker's permit came back after %s, and its lease was %s", cli.Roughly(back), poolLease)
	}
	p.note("%s, after %s; its lease was %s", p.green("its permit has come back by itself"), cli.Roughly(back), poolLease)
	return nil
}

// check compares the journal and the permits with what was promised.
func (p *poolStory) check(ctx context.Context) error {
	most, done, err := journal(p.file).audit()
	free, err2 := p.permits.AvailablePermits(ctx)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	p.say(fmt.Sprintf("  %d jobs done, at most %d at once; %d of %d permits are free again",
		done, most, free, poolPermits))
	switch {
	case most > poolPermits:
		return fmt.Errorf("%d worked at once, with %d permits", most, poolPermits)
	case free != poolPermits:
		return fmt.Errorf("%d of %d permits are free in the end", free, poolPermits)
	}
	return nil
}

func (p *poolStory) take(event) {} // the journal has more

func (p *poolStory) progress() string {
	_, done, _ := journal(p.file).audit()
	return fmt.Sprintf("%d jobs done", done)
}

// A journal is a file to which all processes append a line for each thing they do. A line is written in one
// step, so the lines stand in the order in which things happened.
type journal string

// The lines of a journal end with the number of the worker.
const (
	began = '+' // a job, with a permit
	ended = '-' // the job; the permit is still held
	died  = 'x'
)

func (j journal) write(what byte, worker int) error {
	file, err := os.OpenFile(string(j), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%c%d\n", what, worker)
	return errors.Join(err, file.Close())
}

// audit returns how many living workers worked at once, at most, and how many jobs were done.
func (j journal) audit() (most, done int, err error) {
	text, err := os.ReadFile(string(j))
	working := map[string]bool{}
	for line := range bytes.Lines(text) {
		worker := string(line[1:])
		if line[0] == began {
			working[worker] = true
			most = max(most, len(working))
			continue
		}
		delete(working, worker)
		if line[0] == ended {
			done++
		}
	}
	return most, done, err
}
