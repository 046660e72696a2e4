// Package once runs a job at most once per interval over a whole fleet, whatever the clocks of its machines say.
//
// Each process has a loop, and one of them runs the job when it is due:
//
//	err := once.Every(ctx, session, "cron:report", time.Hour, func(ctx context.Context) error {
//		return report(ctx)
//	})
//
// Where something else has the schedule, such as cron on each machine, [Job.Run] makes one attempt: it runs the job if
// no run has begun within the interval.
//
// A job is an rlock of its name. A run holds the lock, and leaves a hold behind that lasts until the interval is over,
// by the server's clock: that is what keeps others from running the job again. A run that takes longer than the
// interval keeps the lock until it ends, perhaps for a hundredth of the interval and a second more.
//
// "At most once" is as strong as a lease. A server that has forgotten the lock lets the job run again. A run whose
// process was stopped for longer than the lease may go on beside the next one: before an irreversible step ask the
// Err of its ctx.
package once

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/rlock"
)

// Options tune a Job. The zero value of a field means its default.
type Options struct {
	// TakeOver lets the job run again within the interval if a run dies or returns an error: as soon as it has
	// returned the error, or the session's lease after its process has died. The default, false, skips it: the job
	// is due again an interval after the run began, come what may.
	TakeOver bool
}

// A Job is a job of one name, which all processes of a fleet share. It is immutable and safe for concurrent use; make
// it once or at every use, as you like.
type Job struct {
	session  *holdfast.Session
	lock     *rlock.Mutex
	interval time.Duration
	takeOver bool
}

// New returns the job of that name. The interval is from the beginning of one run to the beginning of the next, at
// least 10 ms. It should be the same in all processes: that of the last run decides. If a process dies right after a
// quick run, the job may be due later, by at most the session's lease. New sends nothing and cannot fail: a mistake
// comes back from the first call.
func New(s *holdfast.Session, name string, interval time.Duration, opts *Options) *Job {
	j := &Job{session: s, lock: rlock.New(s, name, &rlock.Options{NonReentrant: true}), interval: interval}
	if opts != nil {
		j.takeOver = opts.TakeOver
	}
	return j
}

// Name is the job's name as it was given to [New].
func (j *Job) Name() string { return j.lock.Name() }

// Every is [Job.Every] of a new job without options.
func Every(
	ctx context.Context, s *holdfast.Session, name string, interval time.Duration, work func(context.Context) error,
) error {
	return New(s, name, interval, nil).Every(ctx, work)
}

// Every calls work whenever the job is due and no other process runs it, until ctx ends or work returns an error. The
// first time is at once, if the job is due. Call it in every process that may run the job; the others wait meanwhile
// as for a lock, and one of them goes on when this one dies.
//
// work gets a ctx that ends when ctx does, or when the run loses its lock. Every returns the error of work, joined with
// the [holdfast.LostError] if the lock was lost before work returned. All other errors are those of
// [holdfast.Mutex.Lock]. To go on after a failure, return nil from work. A lock that is lost before work is called is
// taken again.
func (j *Job) Every(ctx context.Context, work func(context.Context) error) error {
	for {
		if hold := j.kept(); hold != nil { // also from ctx's own owner, who could not wait for it
			<-hold.Context(ctx).Done()
		}
		ran, err := j.run(ctx, j.lock.Lock, work)
		lostBefore := !ran && errors.Is(err, holdfast.ErrLost) && !errors.Is(err, ctx.Err()) // which a loss may have ended
		if err != nil && !lostBefore {
			return err
		}
	}
}

// Run calls work if the job is due and no other process runs it, and reports whether it has. It does not wait: that the
// job is not due is no error. work gets a ctx that ends when ctx does, or when the run loses its lock.
//
// Under a schedule that ticks once per interval, such as cron's, make the interval somewhat shorter than the ticks are
// apart: if one run begins some milliseconds late, the next tick would come too early for it.
//
// The error is that of work, joined with the [holdfast.LostError] if the lock was lost before work returned. If work
// has not run, the errors are those of [holdfast.Mutex.TryLock] and [holdfast.Mutex.Lock]: after [holdfast.ErrUnknown]
// the job may count as run for the interval, and [holdfast.ErrLost] says that the lock was lost before work was called.
func (j *Job) Run(ctx context.Context, work func(context.Context) error) (ran bool, err error) {
	if j.kept() != nil && ctx.Err() == nil {
		return false, nil
	}
	ran, err = j.run(ctx, j.lock.TryLock, work)
	if !ran && errors.Is(err, holdfast.ErrBusy) && !errors.Is(err, ctx.Err()) { // or it is the cause of ctx's end
		return false, nil
	}
	return ran, err
}

// run takes the lock, works, and leaves a hold for the rest of the interval.
func (j *Job) run(
	ctx context.Context, take func(context.Context) (*holdfast.Hold, error), work func(context.Context) error,
) (ran bool, err error) {
	if j.interval < minInterval {
		return false, fmt.Errorf("once %.256q: the interval is %v, must be at least %v", j.Name(), j.interval, minInterval)
	}
	hold, err := take(ctx)
	if err != nil {
		return false, err
	}
	r := run{job: j, hold: hold, began: (*session.Session)(j.session).Now()}
	defer r.end()
	if !j.takeOver {
		if err := r.leave(ctx, j.interval); err != nil {
			return false, err
		}
	}
	err = work(hold.Context(ctx))
	if lost := hold.Err(); lost != nil && !errors.Is(err, lost) {
		return true, errors.Join(err, lost)
	}
	if err == nil && j.takeOver {
		r.finish()
	}
	return true, err
}

const minInterval = 10 * time.Millisecond

// A run is one of the job.
type run struct {
	job   *Job
	hold  *holdfast.Hold
	began time.Duration // the moment of the session, whose time tests may put forward
	kept  bool          // the session keeps the lock, as nothing could be left behind
}

// rest is how long it is until the interval is over.
func (r *run) rest() time.Duration {
	return r.job.interval - ((*session.Session)(r.job.session).Now() - r.began)
}

// leave leaves a hold behind that lasts for d: nested in that of the run, so that each ends at its own time.
func (r *run) leave(ctx context.Context, d time.Duration) error {
	left, err := rlock.New(r.job.session, r.job.Name(), &rlock.Options{FixedLease: d}).Lock(r.hold.Context(ctx))
	if err != nil {
		if lost := r.hold.Err(); lost != nil {
			return lost // err may say that a ctx has ended, which is not the caller's
		}
		return err
	}
	return left.Detach()
}

// finish leaves a hold behind after work has succeeded. If that fails, the session keeps the lock until a hold has been
// left after all, or the interval is over.
func (r *run) finish() {
	if r.rest() < minInterval || r.leaveRest() == nil {
		return
	}
	r.kept = true
	s, jobs, name := (*session.Session)(r.job.session), keptBy(r.job.session), r.job.Name()
	jobs.Store(name, r.hold)
	// Close does not wait for the timer's goroutine: whoever observes the end of the hold may close the session.
	end := time.AfterFunc(r.rest(), func() {
		_ = r.hold.Release()
		jobs.CompareAndDelete(name, r.hold)
	})
	s.Start(func() {
		for delay := time.Second; session.Pause(s.Context(), delay) == nil && r.hold.Err() == nil; {
			if r.leaveRest() == nil {
				end.Reset(0)
				return
			}
			delay = min(2*delay, time.Minute)
		}
	})
}

// leaveRest leaves a hold behind for the rest of the interval.
func (r *run) leaveRest() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.leave(ctx, max(r.rest(), minInterval))
}

// keptJobs are the holds by which a session keeps jobs for the rest of the interval, by the jobs' names.
type keptJobs struct{ sync.Map }

func keptBy(s *holdfast.Session) *keptJobs {
	return session.Attached((*session.Session)(s), func(*session.Session) *keptJobs { return new(keptJobs) })
}

// kept is the hold by which the session keeps the job; nil if it does not.
func (j *Job) kept() *holdfast.Hold {
	hold, _ := keptBy(j.session).Load(j.Name())
	if hold, _ := hold.(*holdfast.Hold); hold != nil && hold.Err() == nil {
		return hold
	}
	return nil
}

// patience is how long a run that has succeeded waits for the server to learn of it.
const patience = 5 * time.Second

// end gives the run's own hold back, also if work panics. The session goes on if the server does not answer.
func (r *run) end() {
	if !r.kept {
		_ = r.hold.Release()
	}
}
