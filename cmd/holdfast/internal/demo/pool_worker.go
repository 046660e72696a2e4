package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
)

func workPool(ctx context.Context, w *worker) error {
	return w.employ(ctx, func(s *holdfast.Session, g goroutine) job {
		return (&hand{goroutine: g, pool: poolOf(s, w.Name), journal: journal(w.File)}).work
	})
}

// A hand is one goroutine of a worker process that does jobs, each with a permit, as soon as all
// are ready. In Java, with Redisson:
//
//	RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(name);
//	RCountDownLatch start = redisson.getCountDownLatch(name + ":start");
//	RCountDownLatch done = redisson.getCountDownLatch(name + ":done");
//
//	void getReady() {                     void run(Job job) {
//	    warmUp();                             String permit = permits.acquire(60, SECONDS);
//	    start.countDown();                    try {
//	    start.await();                            job.run();
//	}                                         } finally {
//	                                              permits.release(permit);
//	                                          }
//	                                          done.countDown();
//	                                      }
//
// There a permit needs a lease that is longer than any job, since nothing renews it; a dead
// worker's stays taken for as long. Without a lease it would for ever. Here it is renewed while
// its holder lives, so the lease may be short.
type hand struct {
	goroutine
	pool    pool
	journal journal
	ready   bool
	job     int // that it has to do, 0 if none; one that was not finished is tried again
}

func (h *hand) work(ctx context.Context) error {
	if !h.ready {
		if err := h.getReady(ctx); err != nil {
			return err
		}
		h.ready = true
	}
	if h.job == 0 {
		if err := h.ask(ctx); h.job == 0 || err != nil {
			return err
		}
	}
	return h.do(ctx, h.job)
}

// getReady takes its time, and waits for the others.
func (h *hand) getReady(ctx context.Context) error {
	if err := h.rest(ctx, poolWarmUp); err != nil {
		return err
	}
	if err := h.record(event{What: arrived}); err != nil {
		return err
	}
	if err := h.pool.start.CountDown(ctx); err != nil {
		return err
	}
	return h.pool.start.Wait(ctx)
}

// ask asks for a job, and waits for one until there will be none.
func (h *hand) ask(ctx context.Context) error {
	if err := h.tell(event{What: idle}); err != nil {
		return err
	}
	select {
	case h.job = <-h.jobs:
		return h.tell(event{What: waiting})
	case <-h.finish:
	case <-ctx.Done():
	}
	return nil
}

func (h *hand) do(ctx context.Context, n int) error {
	asked := time.Now()
	hold, err := h.orGiveUp(ctx, h.pool.permits.Acquire)
	if err != nil {
		return err
	}
	defer hold.Release()
	if err := h.record(event{What: holds, Value: n, Waited: time.Since(asked)}); err != nil {
		return err
	}
	if err := h.compute(hold.Context(ctx), n, rand.N(h.Pace)); err != nil {
		return err
	}
	if err := hold.Err(); err != nil { // was the permit ours until now?
		err = fmt.Errorf("did not finish job %d: %w", n, err)
		return errors.Join(err, h.journal.write(h.Number, event{What: lost, Goroutine: h.number}))
	}
	if err := h.record(event{What: wrote, Value: n}); err != nil {
		return err
	}
	h.job = 0
	return h.pool.done.CountDown(ctx)
}

// record writes an event into the journal, and tells it.
func (h *hand) record(e event) error {
	e.Goroutine = h.number
	if err := h.journal.write(h.Number, e); err != nil {
		return err
	}
	return h.tell(e)
}
