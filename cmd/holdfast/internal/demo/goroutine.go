package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
)

// A goroutine is one of those in a worker process that use the lock of the scene.
type goroutine struct {
	*worker
	number int // from 0
}

// A job is what a goroutine does again and again: it takes the lock, works, and releases.
type job func(ctx context.Context) error

// errGaveUp is why a goroutine stops waiting that was told to.
var errGaveUp = errors.New("gave up")

// employ is the work of a process: several goroutines, each with a job of the session.
func (w *worker) employ(ctx context.Context, newJob func(*holdfast.Session, goroutine) job) error {
	return w.employOnAll(ctx, func(s []*holdfast.Session, g goroutine) job { return newJob(s[0], g) })
}

// employOnAll is employ with a session on each server.
func (w *worker) employOnAll(ctx context.Context, newJob func([]*holdfast.Session, goroutine) job) error {
	sessions, err := openAll(w.Redis, w.Lease)
	defer closeAll(sessions) // what they could not give back ends with its lease
	if err != nil {
		return err
	}
	if err := w.tell(event{What: ready, Text: sessions[0].ID()}); err != nil {
		return err
	}
	select {
	case <-w.started:
	case <-ctx.Done():
		return nil
	}

	all, ctx := errgroup.WithContext(ctx)
	for i := range w.Goroutines {
		g := goroutine{worker: w, number: i}
		do := newJob(sessions, g)
		all.Go(func() error { return g.run(ctx, do) })
	}
	return all.Wait()
}

func open(redis string, lease time.Duration) (*holdfast.Session, error) {
	option, err := rueidis.ParseURL(redis)
	if err != nil {
		return nil, err
	}
	return holdfast.Open(option, &holdfast.Options{Lease: lease})
}

// openAll opens a session on each server. Close them, also after an error.
func openAll(redis []string, lease time.Duration) (sessions []*holdfast.Session, err error) {
	for _, url := range redis {
		session, err := open(url, lease)
		if err != nil {
			return sessions, err
		}
		sessions = append(sessions, session)
	}
	return sessions, nil
}

// closeAll closes all at once: each may take its time if its server is gone.
func closeAll(sessions []*holdfast.Session) {
	var closing sync.WaitGroup
	for _, s := range sessions {
		closing.Go(func() { _ = s.Close() })
	}
	closing.Wait()
}

// run does the job until it is told to finish, or ctx ends. Who finds out that it has lost its
// lock goes on: it has not written, and asks again. So does who has given up.
func (g *goroutine) run(ctx context.Context, do job) error {
	for {
		if err := g.stayAway(ctx); err != nil {
			return err
		}
		select {
		case <-g.finish:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		if err := g.tell(event{What: waiting}); err != nil {
			return err
		}
		err := do(ctx)
		switch {
		case errors.Is(err, holdfast.ErrLost):
			err = g.tell(event{What: lost, Text: err.Error()})
		case errors.Is(err, errGaveUp):
			err = g.tell(event{What: left})
		}
		if err == nil && g.Rest > 0 {
			err = g.rest(ctx, g.Rest)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// orGiveUp takes something, but stops waiting for it on the coordinator's order, which is for one.
func (w *worker) orGiveUp(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) (*holdfast.Hold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-w.leave:
			cancel(errGaveUp)
		case <-ctx.Done():
		}
	}()
	return take(ctx)
}

// compute is what takes time under the lock, after the number was read: without the lock, others
// would come in now. On the coordinator's order it takes until further notice, or until ctx ends.
func (g *goroutine) compute(ctx context.Context, read int, takes time.Duration) error {
	select {
	case <-g.linger:
		if err := g.tell(event{What: lingers, Value: read}); err != nil {
			return err
		}
		g.await(ctx)
	case <-time.After(takes):
	case <-ctx.Done():
	}
	return nil
}

// stayAway has the goroutine not ask for the lock, on the coordinator's order, until further
// notice.
func (g *goroutine) stayAway(ctx context.Context) error {
	select {
	case <-g.pause:
		if err := g.tell(event{What: pauses}); err != nil {
			return err
		}
		g.await(ctx)
	default:
	}
	return nil
}

// await waits for the coordinator's order to go on, or to end.
func (g *goroutine) await(ctx context.Context) {
	select {
	case <-g.proceed:
	case <-g.finish:
	case <-ctx.Done():
	}
}

// rest is for a time that nobody can foresee, so that the goroutines do not ask in turn.
func (g *goroutine) rest(ctx context.Context, most time.Duration) error {
	if err := g.tell(event{What: rests}); err != nil {
		return err
	}
	select {
	case <-time.After(rand.N(most)):
	case <-ctx.Done():
	}
	return nil
}

func (g *goroutine) tell(e event) error {
	e.Goroutine = g.number
	return g.worker.tell(e)
}
