package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
)

// A counting is one goroutine of a worker process: again and again it adds one to a number in
// a file, which nothing but the lock protects. In Java, with Redisson:
//
//	RLock lock = redisson.getLock(name); // or getFairLock
//
//	void increment() {                    void save(int n) {
//	    lock.lock();                          lock.lock(); // ours already: re-enters
//	    try {                                 try {
//	        int n = read();                       compute();
//	        save(n + 1);                          write(n);
//	    } finally {                           } finally {
//	        lock.unlock();                        lock.unlock();
//	    }                                     }
//	}                                     }
//
// The question before the write, whether the lock is still ours, Java would have to ask the
// server (lock.isHeldByCurrentThread()); a hold answers it from its own clock.
type counting struct {
	*worker
	lock      holdfast.Locker
	counter   counter
	goroutine int
}

func (c *counting) increment(ctx context.Context) error {
	asked := time.Now()
	hold, err := c.lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)

	waited := time.Since(asked)
	n, err := c.counter.read()
	if err != nil {
		return err
	}
	if err := c.tell(event{What: holds, Value: n, Waited: waited, Text: hold.ID()}); err != nil {
		return err
	}
	return c.save(ctx, n+1)
}

func (c *counting) save(ctx context.Context, n int) error {
	hold, err := c.lock.Lock(ctx) // ours already: re-enters
	if err != nil {
		return err
	}
	defer hold.Release()

	if err := c.compute(ctx, n); err != nil {
		return err
	}
	if err := hold.Err(); err != nil { // is the lock still ours?
		return fmt.Errorf("did not write %d: %w", n, err)
	}
	if err := c.counter.write(n); err != nil {
		return err
	}
	return c.tell(event{What: wrote, Value: n})
}

// compute is what takes time between reading and writing: without the lock, others would read
// the same number now. On the coordinator's order it takes until further notice.
func (c *counting) compute(ctx context.Context, n int) error {
	select {
	case <-c.linger:
		if err := c.tell(event{What: lingers, Value: n - 1}); err != nil {
			return err
		}
		select {
		case <-c.proceed:
		case <-c.over:
		}
	case <-time.After(c.Pace):
	case <-ctx.Done():
	}
	return nil
}

func (c *counting) tell(e event) error {
	e.Goroutine = c.goroutine
	return c.worker.tell(e)
}

// errGaveUp is why a goroutine stops waiting that was told to.
var errGaveUp = errors.New("gave up")

// run counts until it is told to finish, or ctx ends. Who finds out that it has lost its lock
// goes on: it has not written, and asks again. So does who has given up.
func (c *counting) run(ctx context.Context) error {
	for {
		select {
		case <-c.finish:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		if err := c.tell(event{What: waiting}); err != nil {
			return err
		}
		err := c.increment(ctx)
		switch {
		case errors.Is(err, holdfast.ErrLost):
			err = c.tell(event{What: lost, Text: err.Error()})
		case errors.Is(err, errGaveUp):
			err = c.tell(event{What: left})
		}
		if err == nil && c.Rest > 0 {
			err = c.rest(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// rest is for a time that nobody can foresee, so that the goroutines do not ask in turn.
func (c *counting) rest(ctx context.Context) error {
	if err := c.tell(event{What: rests}); err != nil {
		return err
	}
	select {
	case <-time.After(rand.N(c.Rest)):
	case <-ctx.Done():
	}
	return nil
}

// count is the work of a process: several goroutines count under the lock that newLock makes.
func (w *worker) count(ctx context.Context, newLock func(*holdfast.Session) holdfast.Locker) error {
	session, err := open(w.Redis, w.Lease)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // what it could not give back ends with its lease
	if err := w.tell(event{What: ready, Text: session.ID()}); err != nil {
		return err
	}
	select {
	case <-w.started:
	case <-ctx.Done():
		return nil
	}

	all, ctx := errgroup.WithContext(ctx)
	for i := range w.Goroutines {
		c := &counting{worker: w, lock: newLock(session), counter: counter(w.File), goroutine: i}
		all.Go(func() error { return c.run(ctx) })
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
