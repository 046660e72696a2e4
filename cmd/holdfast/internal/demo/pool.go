package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
)

// poolScene shows the semaphore whose permits have leases, between two latches: several processes
// start together, do jobs of which few may be in work at once, and one of them is killed in the
// midst of a job.
var poolScene = scene{
	name:  "pool",
	short: "at most three of many work at once",
	play:  func(ctx context.Context, s *stage) error { return newPoolStory(s).tell(ctx) },
	work:  workPool,
}

const (
	poolProcesses  = 4
	poolGoroutines = 2 // one dies at work, the other beside
	poolAll        = poolProcesses * poolGoroutines
	poolPermits    = 3
	poolJobs       = 120
	poolLease      = 3 * time.Second
	poolPace       = 300 * time.Millisecond // of a job, at most
	poolWarmUp     = 800 * time.Millisecond // until somebody is ready, at most

	// When what happens, from the beginning.
	killWorkerAt = 2500 * time.Millisecond
)

// A pool is what all share: the permits, the latch that opens when all are ready, and the one that
// opens when all jobs are done.
type pool struct {
	permits     *semaphore.Expirable
	start, done *latch.Latch
}

func poolOf(s *holdfast.Session, name string) pool {
	return pool{
		permits: semaphore.NewExpirable(s, name, nil),
		start:   latch.New(s, name+":start"),
		done:    latch.New(s, name+":done"),
	}
}

// A poolStory is one telling of the scene.
type poolStory struct {
	*crew
	pool       pool // the coordinator's
	jobs       *jobs
	journal    journal
	read       int64 // of the journal
	attendance *attendance

	begins bool        // all are ready
	opened bool        // the latch that the story waits for
	dead   *deadWorker // nil if there is none yet
}

// A deadWorker is a worker that was killed in the midst of a job.
type deadWorker struct {
	worker int
	job    int
	at     time.Time
	before int // how many jobs were done by then

	back      time.Duration // after which as many worked as there are permits; 0 if they do not yet
	meanwhile int           // how many jobs the others finished until then
}

func newPoolStory(s *stage) *poolStory {
	p := &poolStory{
		crew: newCrew(s, poolProcesses, poolGoroutines), jobs: newJobs(poolJobs),
		journal: journal(s.file), attendance: newAttendance(),
	}
	s.story = p
	return p
}

func (p *poolStory) tell(ctx context.Context) error {
	session, err := open(p.redis[0], poolLease)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // it holds nothing
	p.pool = poolOf(session, p.name)
	defer p.tidy(ctx)
	if err := p.prepare(ctx); err != nil {
		return err
	}
	if err := p.launch(ctx, poolProcesses, setup{Lease: poolLease, Pace: poolPace, Goroutines: poolGoroutines}); err != nil {
		return err
	}
	p.note("%d goroutines in each of %d processes have %d jobs to do, with %d permits; the lease is %s",
		poolGoroutines, poolProcesses, poolJobs, poolPermits, human(poolLease))
	for _, act := range []func(context.Context) error{p.startTogether, p.killWorker, p.check} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the semaphore and closes the latches.
func (p *poolStory) prepare(ctx context.Context) error {
	if _, err := p.pool.permits.TrySetPermits(ctx, poolPermits); err != nil {
		return err
	}
	if _, err := p.pool.start.TrySetCount(ctx, poolAll); err != nil {
		return err
	}
	_, err := p.pool.done.TrySetCount(ctx, poolJobs)
	return err
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

// startTogether waits until all are ready.
func (p *poolStory) startTogether(ctx context.Context) error {
	p.note("each gets ready for up to %s, counts down the latch at the start, and waits for it", human(poolWarmUp))
	if err := p.opening(ctx, p.pool.start, "all to be ready"); err != nil {
		return err
	}
	p.begins = true
	p.note(p.green("the latch at the start is open")+": %d of %d are ready, and begin", p.attendance.arrived, poolAll)
	return nil
}

// killWorker kills a worker in the midst of a job, and waits until its permit is another's.
func (p *poolStory) killWorker(ctx context.Context) error {
	if err := p.at(ctx, killWorkerAt); err != nil {
		return err
	}
	victim, job, err := p.single(ctx)
	if err != nil {
		return err
	}
	d := &deadWorker{worker: victim, job: job, at: time.Now(), before: p.attendance.done()}
	p.dead = d
	if err := p.kill(victim); err != nil {
		return err
	}
	p.note(p.red("SIGKILL")+" to worker %d, which has a permit, in the midst of job %d", victim, job)
	if err := p.until(ctx, "the dead worker's permit to come back", func() bool { return d.back > 0 }); err != nil {
		return err
	}
	d.meanwhile = p.attendance.done() - d.before
	if err := p.attendance.limit(); err != nil {
		return err
	}
	p.note(p.green("its permit has come back by itself")+", after %s; until then the others had %d, and did %d jobs",
		human(d.back), poolPermits-1, d.meanwhile)
	return timely("worker", d.back, poolLease)
}

// single waits until one goroutine of a worker is in the midst of a job, until further notice, and
// the other one stands aside: so the worker has one permit, and nothing is half told.
func (p *poolStory) single(ctx context.Context) (worker, job int, err error) {
	if worker, job, err = p.detain(ctx); err != nil {
		return 0, 0, err
	}
	if err := errors.Join(
		p.process(worker).order(order{Do: pause}),
		p.process(worker).order(order{Do: leave}), // and does not wait until it had a permit
	); err != nil {
		return 0, 0, err
	}
	return worker, job, p.until(ctx, "the other goroutine to stand aside", func() bool {
		return p.doing(pauses, worker) == poolGoroutines-1
	})
}

// check waits for the end of all jobs, and holds the journal against what was promised.
func (p *poolStory) check(ctx context.Context) error {
	if err := p.opening(ctx, p.pool.done, "all jobs to be done"); err != nil {
		return err
	}
	done := p.attendance.done()
	p.note(p.green("the latch at the end is open")+": %d of %d jobs are done", done, poolJobs)
	if err := p.finish(ctx); err != nil {
		return err
	}
	free, err := p.pool.permits.AvailablePermits(ctx)
	if err != nil {
		return err
	}
	p.clear()
	p.sumUp(free)
	switch {
	case done != poolJobs:
		return fmt.Errorf("the latch at the end opened when %d of %d jobs were done", done, poolJobs)
	case free != poolPermits:
		return fmt.Errorf("%d of %d permits are free in the end", free, poolPermits)
	}
	return p.attendance.audit()
}

// opening waits until a latch is open.
func (p *poolStory) opening(ctx context.Context, l *latch.Latch, what string) error {
	p.opened = false
	stop := aside(ctx, func(ctx context.Context) { p.fleet.tell(ctx, event{What: opened, err: l.Wait(ctx)}) })
	defer stop()
	return p.until(ctx, what, func() bool { return p.opened })
}

// take takes in what a worker tells, or that a latch is open, with what the journal says by then.
func (p *poolStory) take(e event) error {
	if e.What == opened {
		p.opened = true
		return errors.Join(e.err, p.look(e.at))
	}
	p.crew.take(e)
	switch e.What {
	case idle:
		p.jobs.ask(e.worker)
	case wrote:
		p.jobs.done(e.Value)
	case exited:
		p.jobs.bury(e.worker)
		if err := p.journal.write(e.worker, e); err != nil {
			return err
		}
	}
	return errors.Join(p.look(e.at), p.deal())
}

// look reads on in the journal.
func (p *poolStory) look(at time.Time) error {
	events, read, err := p.journal.read(p.read)
	if err != nil {
		return err
	}
	p.read = read
	for _, e := range events {
		p.attendance.take(e)
		if d := p.dead; d != nil && d.back == 0 && p.attendance.gone[d.worker] && p.attendance.working() == poolPermits {
			d.back = at.Sub(d.at)
		}
	}
	return nil
}

// deal gives jobs to those who have none.
func (p *poolStory) deal() error {
	for {
		worker, job := p.jobs.deal()
		if job == 0 {
			return nil
		}
		if err := p.process(worker).order(order{Do: deal, Job: job}); err != nil {
			return err
		}
	}
}

// doing is how many goroutines of a worker are doing that.
func (p *poolStory) doing(does what, worker int) (n int) {
	for _, seat := range p.seats[worker-1] {
		if seat.does == does {
			n++
		}
	}
	return n
}
