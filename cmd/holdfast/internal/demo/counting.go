package demo

import (
	"context"
	"fmt"
	"time"

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
	goroutine
	lock    holdfast.Locker
	counter counter
	beside  func(ctx context.Context, hold *holdfast.Hold) // what it does beside computing; nil: nothing
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

	if c.beside != nil {
		defer aside(ctx, func(ctx context.Context) { c.beside(ctx, hold) })()
	}
	if err := c.compute(ctx, n-1, c.Pace); err != nil {
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

// count is the work of a process: several goroutines count under the lock that newLock makes.
func (w *worker) count(ctx context.Context, newLock func(*holdfast.Session) holdfast.Locker) error {
	return w.employ(ctx, func(s *holdfast.Session, g goroutine) job {
		return (&counting{goroutine: g, lock: newLock(s), counter: counter(w.File)}).increment
	})
}
