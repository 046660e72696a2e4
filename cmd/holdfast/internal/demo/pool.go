package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
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
		return &poolStory{stage: s, permits: semaphore.NewExpirable(s.session, s.name, nil)}
	},
	work: func(w *worker, s *holdfast.Session) func(context.Context) error {
		permits := semaphore.NewExpirable(s, w.Name, nil)
		return func(ctx context.Context) error { return w.job(ctx, permits) }
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
func (w *worker) job(ctx context.Context, permits *semaphore.Expirable) error {
	hold, err := permits.Acquire(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	at, err := enter(w.File, w.Number)
	if err != nil {
		return err
	}
	if err := w.tell(event{What: holds, Value: at}); err != nil {
		return err
	}
	if err := w.compute(hold.Context(ctx), hold, 0, rand.N(w.Pace)); err != nil {
		return err
	}
	return errors.Join(hold.Err(), leave(w.File, w.Number), w.tell(event{What: did}))
}

// A worker at work is a file in a folder. enter returns how many are at work, this one included.
func enter(folder string, worker int) (int, error) {
	if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(worker)), nil, 0o600); err != nil {
		return 0, err
	}
	all, err := os.ReadDir(folder)
	return len(all), err
}

func leave(folder string, worker int) error {
	return os.Remove(filepath.Join(folder, strconv.Itoa(worker)))
}

// A poolStory is one telling of the scene.
type poolStory struct {
	*stage
	permits    *semaphore.Expirable // the coordinator's own
	most, done int                  // jobs: at once, and in all
}

func (p *poolStory) tell(ctx context.Context) error {
	if err := os.Mkdir(p.file, 0o700); err != nil {
		return err
	}
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
	if err := errors.Join(p.process(1).Kill(), leave(p.file, 1)); err != nil {
		return err
	}
	p.note("%s to worker 1, which has a permit, in the middle of a job", p.Color(cli.Red, "SIGKILL"))
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
	returned := p.Color(cli.Green, "its permit has come back by itself")
	p.note("%s, after %s; its lease was %s", returned, cli.Roughly(back), poolLease)
	return nil
}

// check compares the jobs and the permits with what was promised.
func (p *poolStory) check(ctx context.Context) error {
	free, err := p.permits.AvailablePermits(ctx)
	if err != nil {
		return err
	}
	p.Say(fmt.Sprintf("  %d jobs done, at most %d at once; %d of %d permits are free again",
		p.done, p.most, free, poolPermits))
	switch {
	case p.most > poolPermits:
		return fmt.Errorf("%d worked at once, with %d permits", p.most, poolPermits)
	case free != poolPermits:
		return fmt.Errorf("%d of %d permits are free in the end", free, poolPermits)
	}
	return nil
}

// take handles an event of a worker.
func (p *poolStory) take(e event) {
	switch e.What {
	case holds:
		p.most = max(p.most, e.Value)
	case did:
		p.done++
	}
}

func (p *poolStory) progress() string { return fmt.Sprintf("%d jobs done", p.done) }
