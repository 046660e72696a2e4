package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
)

func workRW(ctx context.Context, w *worker) error {
	if rwWrites(w.Number) {
		w.Pace, w.Rest = rwWriting, rwRest
		w.pause <- struct{}{} // writers begin when they are told to
	}
	return w.employ(ctx, func(s *holdfast.Session, g goroutine) job {
		c := &clerk{goroutine: g, lock: rwlock.New(s, w.Name, &rwlock.Options{PreferWriter: true}), document: documentIn(w.File)}
		if rwWrites(w.Number) {
			return c.write
		}
		return c.read
	})
}

// A clerk is one goroutine of a worker process that reads a document, again and again, or
// writes it. In Java, with Redisson:
//
//	RReadWriteLock lock = redisson.getReadWriteLock(name);
//
//	void read() {                         void write() {
//	    lock.readLock().lock();               lock.writeLock().lock();
//	    try {                                 try {
//	        int head = readHead();                int n = readHead() + 1;
//	        compute();                            writeHead(n);
//	        int foot = readFoot();                compute();
//	        assert head == foot;                  writeFoot(n);
//	    } finally {                           } finally {
//	        lock.readLock().unlock();             lock.writeLock().unlock();
//	    }                                     }
//	}                                     }
type clerk struct {
	goroutine
	lock     *rwlock.RWMutex
	document document
}

// begin takes a half of the lock and reads the head.
func (c *clerk) begin(ctx context.Context, half *rwlock.Half) (hold *holdfast.Hold, n int, err error) {
	asked := time.Now()
	if hold, err = half.Lock(ctx); err != nil {
		return nil, 0, err
	}
	waited := time.Since(asked)
	if n, err = c.document.head.read(); err == nil {
		err = c.tell(event{What: holds, Value: n, Waited: waited})
	}
	if err != nil {
		hold.Release()
		return nil, 0, err
	}
	return hold, n, nil
}

func (c *clerk) read(ctx context.Context) error {
	hold, n, err := c.begin(ctx, c.lock.Read())
	if err != nil {
		return err
	}
	defer hold.Release()

	// For how long nobody can foresee: readers that came together do not all go together.
	if err := c.compute(hold.Context(ctx), n, rand.N(c.Pace)); err != nil {
		return err
	}
	return c.compare(hold, n)
}

// compare reads the foot, which must agree with the head.
func (c *clerk) compare(hold *holdfast.Hold, head int) error {
	foot, err := c.document.foot.read()
	if err != nil {
		return err
	}
	if err := hold.Err(); err != nil { // was the lock ours until now?
		return fmt.Errorf("did not trust what it has read: %w", err)
	}
	if foot != head {
		return c.tell(event{What: torn, Text: differ(head, foot)})
	}
	return c.tell(event{What: saw, Value: head})
}

func (c *clerk) write(ctx context.Context) error {
	hold, n, err := c.begin(ctx, c.lock.Write())
	if err != nil {
		return err
	}
	defer hold.Release()

	if err := c.document.head.write(n + 1); err != nil {
		return err
	}
	if err := c.compute(hold.Context(ctx), n, c.Pace); err != nil { // the document is half-written now
		return err
	}
	if err := hold.Err(); err != nil {
		return fmt.Errorf("did not write the foot of %d: %w", n+1, err)
	}
	if err := c.document.foot.write(n + 1); err != nil {
		return err
	}
	if err := c.tell(event{What: wrote, Value: n + 1}); err != nil {
		return err
	}
	select {
	case <-c.keep:
		return c.downgrade(ctx, hold, n+1)
	default:
		return nil
	}
}

// downgrade goes on reading what was written, without anybody writing in between.
func (c *clerk) downgrade(ctx context.Context, writing *holdfast.Hold, n int) error {
	reading, err := c.lock.Read().Lock(writing.Context(ctx)) // the same owner's
	if err != nil {
		return err
	}
	defer reading.Release()
	if err := c.tell(event{What: keeps, Value: n}); err != nil {
		return err
	}
	if err := writing.Release(); err != nil {
		return err
	}
	c.await(ctx)
	head, err := c.document.head.read()
	if err != nil {
		return err
	}
	return c.compare(reading, head)
}
