// Package holdfastgocron lets schedulers of gocron on several machines share their jobs.
//
// With an [Elector] all jobs run where the leader is; with a [Locker] each run of a job is on whichever machine comes
// first:
//
//	elector := holdfastgocron.NewElector(session, "billing")
//	defer elector.Close()
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
package holdfastgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/rlock"
)

// ErrNotLeader is why a job does not run here: another process leads, or nobody does for the moment.
var ErrNotLeader = errors.New("holdfastgocron: this process does not lead")

// An Elector is a candidate of an election, for gocron.WithDistributedElector. It is safe for concurrent use.
type Elector struct {
	term  atomic.Pointer[context.Context]
	stop  context.CancelFunc
	stood sync.WaitGroup
	err   atomic.Pointer[error] // why it does not stand
}

var (
	_ gocron.Elector = (*Elector)(nil)
	_ gocron.Locker  = (*Locker)(nil)
)

// NewElector stands for election in package leader under that name, from now until Close or the end of the session. If
// it is refused, it stands again after a pause of up to 10 s.
func NewElector(s *holdfast.Session, name string) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop}
	e.stood.Go(func() {
		for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
			e.err.Store(nil)
			err := leader.Run(ctx, s, name, func(ctx context.Context) error {
				e.term.Store(&ctx)
				<-ctx.Done()
				return ctx.Err()
			})
			e.err.Store(&err)
			if errors.Is(err, holdfast.ErrClosed) {
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	})
	return e
}

// IsLeader returns nil while this process leads, and otherwise [ErrNotLeader], with the reason if it does not stand.
// It reads the clock, sends nothing and does not block. A job that has begun is not stopped when the term ends:
// let it work with the context of [Elector.Term].
func (e *Elector) IsLeader(context.Context) error {
	if _, leads := e.Term(); leads {
		return nil
	}
	if err := e.err.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, *err)
	}
	return ErrNotLeader
}

// Term returns the context of the present term, which ends with it and has its number, leader.Term; false if this
// process does not lead.
func (e *Elector) Term() (context.Context, bool) {
	term := e.term.Load()
	if term == nil || (*term).Err() != nil {
		return nil, false
	}
	return *term, true
}

// Close resigns, and stands no more. It blocks for at most a third of the lease, and 5 s, and a second more.
func (e *Elector) Close() {
	e.stop()
	e.stood.Wait()
}

// A Locker takes an rlock for each run of a job, named like the job, for gocron.WithDistributedLocker.
type Locker struct {
	session *holdfast.Session
	atLeast time.Duration
}

// NewLocker returns a Locker whose locks keep other machines out for at least that time, also when the job has ended:
// make it longer than the clocks of the machines differ by, and shorter than the time between two runs. It must be 0 or
// at least 10 ms.
func NewLocker(s *holdfast.Session, atLeast time.Duration) *Locker { return &Locker{s, atLeast} }

// Lock makes one attempt, for an owner of its own. [holdfast.ErrBusy] says that the job runs, here or elsewhere, or has
// just run.
func (l *Locker) Lock(ctx context.Context, key string) (_ gocron.Lock, err error) {
	if least := 10 * time.Millisecond; l.atLeast != 0 && l.atLeast < least {
		return nil, fmt.Errorf("holdfastgocron: atLeast is %v, must be 0 or at least %v", l.atLeast, least)
	}
	hold, err := rlock.New(l.session, key, nil).TryLock(holdfast.NewOwner(ctx))
	if err != nil {
		return nil, err //nolint:wrapcheck // it says which lock it is
	}
	locked := false
	defer func() { // also if an observer panics
		if locked {
			return
		}
		if end := hold.Release(); !errors.Is(err, end) {
			err = errors.Join(err, end)
		}
	}()
	if l.atLeast != 0 { // a hold of its own, which nobody releases
		short, err := rlock.New(l.session, key, &rlock.Options{FixedLease: l.atLeast}).Lock(hold.Context(ctx))
		if err == nil {
			err = short.Detach()
		}
		if lost := hold.Err(); err != nil && lost != nil {
			err = lost // rather than that a ctx has ended, which is not the caller's
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // as above
		}
	}
	locked = true
	return lock{hold}, nil
}

type lock struct{ hold *holdfast.Hold }

// Unlock releases the lock when the job has ended.
func (l lock) Unlock(context.Context) error {
	return l.hold.Release() //nolint:wrapcheck // it says which lock it is
}
