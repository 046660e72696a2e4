package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
)

// poolScene shows permits with leases between two latches: several processes start together, do
// jobs of which few may run at once, and one process is killed in the middle of a job.
var poolScene = scene{
	name:  "pool",
	short: "six processes share three permits; one dies with a permit",
	play:  func(ctx context.Context, s *stage) error { return (&poolStory{stage: s}).tell(ctx) },
	work:  workPool,
}

const (
	poolProcesses = 6
	poolPermits   = 3
	poolJobs      = 90
	poolLease     = 2 * time.Second
	poolPace      = 200 * time.Millisecond // of a job, at most
	poolKillAt    = time.Second
)

// A pool is what all share: the permits, a latch that opens when all workers are ready, and one that
// opens when all jobs are done.
type pool struct {
	permits     *semaphore.Expirable
	start, done *latch.Latch
}

func poolOf(s *holdfast.Session, name string) pool {
	return pool{semaphore.NewExpirable(s, name, nil), latch.New(s, name+":start"), latch.New(s, name+":done")}
}

// workPool is the work of a worker. In Java, with Redisson:
//
//	start.countDown();
//	start.await();
//	for (;;) {
//	    String permit = permits.acquire(60, SECONDS);
//	    try {
//	        job.run();
//	    } finally {
//	        permits.release(permit);
//	    }
//	    done.countDown();
//	}
//
// There a permit needs a lease that is longer than any job, since nothing renews it, and a dead
// worker keeps it for as long. Here it is renewed while its holder lives, so the lease may be short.
func workPool(w *worker, s *holdfast.Session) func(ctx context.Context) error {
	p, journal, ready := poolOf(s, w.Name), journal(w.File), false
	return func(ctx context.Context) error {
		if !ready {
			if err := errors.Join(p.start.CountDown(ctx), p.start.Wait(ctx)); err != nil {
				return err
			}
			ready = true
		}
		hold, err := p.permits.Acquire(ctx)
		if err != nil {
			return err
		}
		defer hold.Release()
		if err := journal.write(began, w.Number); err != nil {
			return err
		}
		if err := w.compute(hold.Context(ctx), hold, 0, rand.N(w.Pace)); err != nil {
			return err
		}
		if err := errors.Join(hold.Err(), journal.write(ended, w.Number)); err != nil {
			return err
		}
		return p.done.CountDown(ctx)
	}
}

// A poolStory is one telling of the scene.
type poolStory struct {
	*stage
	pool    pool // the coordinator's
	journal journal
}

func (p *poolStory) tell(ctx context.Context) error {
	p.story, p.journal = p, journal(p.file)
	session, err := open(p.redis, poolLease)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // it holds nothing
	p.pool = poolOf(session, p.name)
	defer p.tidy(ctx)
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.launch(ctx, poolProcesses, setup{Goroutines: 1, Lease: poolLease, Pace: poolPace}); err != nil {
		return err
	}
	if err := p.opening(ctx, p.pool.start, "all workers to be ready"); err != nil {
		return err
	}
	p.note("the latch at the start is open: %d processes begin on %d jobs, with %d permits", poolProcesses, poolJobs, poolPermits)
	if err := p.killWorker(ctx); err != nil {
		return err
	}
	return p.check(ctx)
}

// prepare makes the semaphore and closes the latches.
func (p *poolStory) prepare(ctx context.Context) error {
	_, err := p.pool.permits.TrySetPermits(ctx, poolPermits)
	_, err2 := p.pool.start.TrySetCount(ctx, poolProcesses)
	_, err3 := p.pool.done.TrySetCount(ctx, poolJobs)
	return errors.Join(err, err2, err3)
}

// tidy removes what has no expiry: the server may be somebody's own.
func (p *poolStory) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), allowance)
	defer cancel()
	for _, remove := range []func(context.Context) (bool, error){
		p.pool.permits.Delete, p.pool.start.Delete, p.pool.done.Delete,
	} {
		_, _ = remove(ctx) // nobody is left who could do more
	}
}

// killWorker kills a worker in the middle of a job, and waits until its permit has come back.
func (p *poolStory) killWorker(ctx context.Context) error {
	if err := p.at(ctx, poolKillAt); err != nil {
		return err
	}
	_, permit, err := p.detain(ctx, 1)
	if err != nil {
		return err
	}
	if err := errors.Join(p.process(1).kill(), p.journal.write(died, 1)); err != nil {
		return err
	}
	killed := time.Now()
	p.note("%s to worker 1, which has a permit, in the middle of a job", p.red("SIGKILL"))
	for {
		_, err := p.pool.permits.RemainingLease(ctx, permit)
		if errors.Is(err, holdfast.ErrNotHeld) {
			break
		} else if err != nil {
			return err
		}
		if err := p.wait(ctx, framePeriod/4); err != nil {
			return err
		}
		if time.Since(killed) > poolLease+allowance {
			return fmt.Errorf("a dead worker has kept its permit for more than its lease of %s", human(poolLease))
		}
	}
	back := time.Since(killed)
	if back < poolLease/2 { // it was renewed a third of the lease before at the latest
		return fmt.Errorf("a dead worker's permit came back after %s, too early for a lease of %s", human(back), human(poolLease))
	}
	p.note("%s, after %s; its lease was %s", p.green("its permit has come back by itself"), human(back), human(poolLease))
	return nil
}

// check waits until all jobs are done, and holds the journal against what was promised.
func (p *poolStory) check(ctx context.Context) error {
	if err := p.opening(ctx, p.pool.done, "all jobs to be done"); err != nil {
		return err
	}
	p.note("%s: all jobs are done", p.green("the latch at the end is open"))
	if err := p.finish(ctx); err != nil {
		return err
	}
	most, done, err := p.journal.audit()
	if err != nil {
		return err
	}
	free, err := p.pool.permits.AvailablePermits(ctx)
	if err != nil {
		return err
	}
	p.say(fmt.Sprintf("  %d jobs done, %d at once at the most; %d of %d permits are free again", done, most, free, poolPermits))
	switch {
	case most > poolPermits:
		return fmt.Errorf("%d worked at once, with %d permits", most, poolPermits)
	case done < poolJobs:
		return fmt.Errorf("the latch at the end opened when %d of %d jobs were done", done, poolJobs)
	case free != poolPermits:
		return fmt.Errorf("%d of %d permits are free in the end", free, poolPermits)
	}
	return nil
}

// opening waits until a latch is open.
func (p *poolStory) opening(ctx context.Context, l *latch.Latch, what string) error {
	ctx, cancel := context.WithCancel(ctx)
	opened := make(chan error, 1)
	go func() { opened <- l.Wait(ctx) }()
	err := p.until(ctx, what, func() bool { return len(opened) > 0 })
	cancel()
	return cmp.Or(err, <-opened)
}

func (p *poolStory) take(event) error { return nil } // the journal tells more

func (p *poolStory) progress() string {
	_, done, _ := p.journal.audit()
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

// audit returns how many living workers worked at once at the most, and how many jobs were done.
func (j journal) audit() (most, done int, err error) {
	text, err := os.ReadFile(string(j))
	if errors.Is(err, os.ErrNotExist) { // nobody has begun
		return 0, 0, nil
	}
	working := map[string]bool{}
	for line := range bytes.Lines(text) {
		switch worker := string(line[1:]); line[0] {
		case began:
			working[worker] = true
			most = max(most, len(working))
		case ended:
			done++
			delete(working, worker)
		case died:
			delete(working, worker)
		}
	}
	return most, done, err
}
