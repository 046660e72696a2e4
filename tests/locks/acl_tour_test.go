package locks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/barrier"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// aclTour goes through all kinds and returns what failed first, in calls or in the background.
func aclTour(t *testing.T, servers []*redistest.Server, opt rueidis.ClientOption, tag string) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &aclWalk{ctx: ctx, servers: servers, tag: tag, log: &kit.Journal{}}
	go func() { // some calls wait for what only the background is refused: the tour ends soon after that
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for denied(w.log) == nil {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
		time.AfterFunc(time.Second, cancel)
	}()
	options := &holdfast.Options{Logger: w.log.Logger(), Anonymous: true}
	if w.mine, err = holdfast.Open(opt, options); err != nil {
		return err
	}
	defer w.mine.Close()
	if w.theirs, err = holdfast.Open(opt, options); err != nil {
		return err
	}
	defer w.theirs.Close()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"rlock", w.rlock},
		{"rwlock", w.rwlock},
		{"preferred writers", w.preferred},
		{"setlock", w.setlock},
		{"semaphore", w.semaphore},
		{"permits", w.permits},
		{"barrier", w.barrier},
		{"latch", w.latch},
		{"leader", w.leader},
		{"fairlock", w.fairlock}, // it takes long
		{"multilock", w.multilock},
		{"waits that end", w.outwaited},
		{"close", w.close},
	} {
		if err := errors.Join(w.attempt(step.do), denied(w.log)); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// lock goes through what all locks offer. mine and theirs are the same lock, in two sessions. waits returns when one of
// them waits so that the next release is for it.
func (w *aclWalk) lock(mine, theirs kit.Locker, waits func(next <-chan kit.Result)) {
	hold := w.take(w.ctx, mine.Lock)
	ctx := hold.Context(w.ctx)
	if inner, err := mine.Lock(ctx); !errors.Is(err, holdfast.ErrAlreadyHeld) {
		w.ok(err)
		w.ok(inner.Release())
	}
	w.ok(kit.ErrorOf(mine.Locked(ctx)))
	w.ok(kit.ErrorOf(mine.Held(ctx)))
	w.ok(kit.ErrorOf(mine.HoldCount(ctx)))
	w.ok(kit.ErrorOf(mine.RemainingLease(ctx)))
	w.ok(kit.ErrorOf(mine.Holders(ctx)))
	for _, err := range theirs.(kit.Watchable).Watch(w.ctx) {
		w.ok(err)
		break
	}
	w.ok(hold.Extend(ctx, time.Minute))
	w.is(kit.ErrorOf(theirs.TryLock(w.ctx)), holdfast.ErrBusy)
	next := kit.GoLock(w.ctx, theirs.Lock)
	waits(next)
	w.ok(hold.Release())
	taken := w.granted(next)
	w.ok(kit.ErrorOf(mine.ForceUnlock(w.ctx)))
	w.is(taken.Release(), holdfast.ErrLost)
}

func (w *aclWalk) rlock() {
	for _, opts := range []*rlock.Options{{Fenced: true}, {NonReentrant: true}} {
		w.lock(rlock.New(w.mine, w.name("rlock"), opts), rlock.New(w.theirs, w.name("rlock"), opts),
			w.stands(wire.Line(w.name("rlock"))))
	}
	w.ok(kit.ErrorOf(rlock.New(w.mine, w.name("rlock"), nil).LastToken(w.ctx)))
	spin := &rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 10*time.Millisecond)}
	hold := w.take(w.ctx, rlock.New(w.mine, w.name("spin"), spin).Lock)
	next := kit.GoLock(w.ctx, rlock.New(w.theirs, w.name("spin"), spin).Lock)
	w.ok(hold.Release())
	w.ok(w.granted(next).Release())

	// A waiter in line is dead, so the release takes it out, at any moment.
	name := w.name("dead")
	hold = w.take(w.ctx, rlock.New(w.mine, name, nil).Lock)
	for _, srv := range w.servers {
		_, _ = srv.Try("RPUSH", wire.Line(name), "dead:1 1000") // it is refused where the slot is not
	}
	w.ok(hold.Release())
}

func (w *aclWalk) leader() {
	w.ok(leader.Run(w.ctx, w.mine, w.name("leader"), func(context.Context) error {
		for l, err := range leader.Watch(w.ctx, w.theirs, w.name("leader")) {
			w.ok(err)
			if l.Term != 0 { // it was recorded
				break
			}
		}
		w.ok(kit.ErrorOf(leader.Candidates(w.ctx, w.theirs, w.name("leader"))))
		return nil
	}))
}

func (w *aclWalk) fairlock() {
	queue, due := w.wire("redisson_lock_queue", "fair"), w.wire("redisson_lock_timeout", "fair")
	mine := fairlock.New(w.mine, w.name("fair"), &fairlock.Options{Fenced: true})
	theirs := fairlock.New(w.theirs, w.name("fair"), nil)
	w.lock(mine, theirs, w.listens(wire.FairTold(w.name("fair"))+"*"))

	// Waiters that Java has dropped come back to their places.
	hold := w.take(w.ctx, mine.Lock)
	lively := fairlock.New(w.theirs, w.name("fair"), &fairlock.Options{WaiterLease: 3 * time.Second})
	stand := func(n int, waiting ...<-chan kit.Result) {
		w.until("places", func(srv *redistest.Server) bool {
			length, err := srv.Try("LLEN", queue)
			return err == nil && length == int64(n)
		}, waiting...)
	}
	gone, leave := context.WithCancel(w.ctx)
	defer leave()
	first := kit.GoLock(w.ctx, lively.Lock)
	stand(1, first)
	second := kit.GoLock(gone, lively.Lock)
	stand(2, first, second)
	var waiters []holdfast.Waiter
	w.until("both", func(*redistest.Server) (both bool) {
		var err error
		waiters, err = mine.Waiters(w.ctx)
		w.ok(err)
		return len(waiters) == 2
	}, first, second)
	still := kit.Stillness()
	for _, i := range []int{1, 0} {
		for _, srv := range w.servers {
			_, _ = srv.Try("LREM", queue, "0", waiters[i].ID) // it is refused where the slot is not
			_, _ = srv.Try("ZREM", due, waiters[i].ID)
		}
		w.until("its place", func(*redistest.Server) bool {
			now, err := mine.Waiters(w.ctx)
			w.ok(err)
			// In a process that stands still, a place may be over before its waiter is seen again.
			return len(now) == 2 && (now[0].ID == waiters[0].ID || still() > time.Second)
		}, first, second)
	}
	leave()
	w.is((<-second).Err, context.Canceled)
	stand(1, first)
	w.ok(hold.Release())
	w.ok(w.granted(first).Release())
}

func (w *aclWalk) rwlock() {
	mine, theirs := rwlock.New(w.mine, w.name("rw"), nil), rwlock.New(w.theirs, w.name("rw"), nil)
	w.ok(kit.ErrorOf(mine.Waiters(w.ctx)))
	stands := w.stands(wire.RWLine(w.name("rw")))
	w.lock(mine.Write(), theirs.Write(), stands)

	// There are two readers; one leaves, and a writer waits for the other.
	reading, also := w.take(w.ctx, mine.Read().Lock), w.take(w.ctx, theirs.Read().Lock)
	w.ok(reading.Extend(w.ctx, time.Minute))
	w.ok(kit.ErrorOf(mine.Read().Holders(w.ctx)))
	w.is(kit.ErrorOf(mine.Write().TryLock(w.ctx)), holdfast.ErrBusy)
	w.ok(reading.Release())
	next := kit.GoLock(w.ctx, mine.Write().Lock)
	stands(next)
	w.ok(also.Release())
	writing := w.granted(next)

	// A reader waits for a writer.
	next = kit.GoLock(w.ctx, theirs.Read().Lock)
	w.listened(w.wire("redisson_rwlock", "rw"), next)
	w.ok(writing.Release())
	w.ok(w.granted(next).Release())
	writing = w.take(w.ctx, mine.Write().Lock)

	// A downgrade; then all readers are removed.
	reading = w.take(writing.Context(w.ctx), mine.Read().Lock)
	w.ok(writing.Release())
	w.ok(reading.Release())
	reading = w.take(w.ctx, mine.Read().Lock)
	w.ok(kit.ErrorOf(theirs.Read().ForceUnlock(w.ctx)))
	w.is(reading.Release(), holdfast.ErrLost)
}

func (w *aclWalk) preferred() {
	opts := &rwlock.Options{PreferWriter: true}
	mine, theirs := rwlock.New(w.mine, w.name("pw"), opts), rwlock.New(w.theirs, w.name("pw"), opts)
	reading := w.take(w.ctx, mine.Read().Lock)
	next := kit.GoLock(w.ctx, theirs.Write().Lock)
	w.until("a writer waits", func(*redistest.Server) bool {
		hold, err := mine.Read().TryLock(w.ctx)
		if err == nil {
			w.ok(hold.Release())
		}
		return errors.Is(err, holdfast.ErrBusy)
	}, next)
	w.ok(reading.Release())
	w.ok(w.granted(next).Release())
}

func (w *aclWalk) setlock() {
	mine, theirs := setlock.New(w.mine, w.name("set"), nil), setlock.New(w.theirs, w.name("set"), nil)
	w.lock(mine, theirs, w.listens(w.wire("holdfast_setlock", "set")))
	hold := w.take(w.ctx, mine.Lock)
	w.ok(kit.ErrorOf(theirs.Query(w.ctx)))
	w.ok(hold.Detach())
	adopted, err := theirs.Adopt(w.ctx, hold.ID())
	w.ok(err)
	w.ok(adopted.Release())
}

func (w *aclWalk) multilock() {
	all := func(s *holdfast.Session) *multilock.MultiLock {
		return multilock.New(rlock.New(s, w.name("a"), nil), rlock.New(s, w.name("b"), nil),
			rlock.New(s, w.name("c"), nil))
	}
	hold := w.take(w.ctx, all(w.mine).Lock)
	w.ok(hold.Extend(w.ctx, time.Minute))
	w.is(kit.ErrorOf(all(w.theirs).TryLock(w.ctx)), holdfast.ErrBusy)
	next := kit.GoLock(w.ctx, all(w.theirs).Lock)
	w.listened(w.wire("*", "[abc]")+"*", next) // for all together, or in the line of one
	w.ok(hold.Release())
	w.ok(w.granted(next).Release())

	mixed := multilock.New(rlock.New(w.mine, w.name("a"), nil), fairlock.New(w.mine, w.name("fair"), nil),
		setlock.New(w.mine, w.name("set"), nil))
	w.ok(w.take(w.ctx, mixed.Lock).Release())
}

func (w *aclWalk) semaphore() {
	mine, theirs := semaphore.New(w.mine, w.name("sem")), semaphore.New(w.theirs, w.name("sem"))
	w.ok(kit.ErrorOf(mine.TrySetPermits(w.ctx, 2)))
	w.ok(mine.Acquire(w.ctx, 2))
	w.is(theirs.TryAcquire(w.ctx, 1), holdfast.ErrBusy)
	next := make(chan kit.Result, 1)
	go func() { next <- kit.Result{Err: theirs.Acquire(w.ctx, 1)} }()
	w.listened(w.wire("redisson_sc", "sem"), next)
	w.ok(mine.Release(w.ctx, 1))
	w.granted(next)
	w.ok(kit.ErrorOf(mine.ReleaseIfExists(w.ctx, 1)))
	w.ok(mine.AddPermits(w.ctx, -1))
	w.ok(kit.ErrorOf(mine.AvailablePermits(w.ctx)))
	w.ok(kit.ErrorOf(mine.DrainPermits(w.ctx)))
	w.ok(mine.AddPermits(w.ctx, 1))
	w.ok(kit.ErrorOf(mine.DrainPermits(w.ctx)))
	w.ok(kit.ErrorOf(mine.Delete(w.ctx)))
	w.ok(kit.ErrorOf(mine.TrySetPermitsFor(w.ctx, 1, time.Minute)))
	w.ok(kit.ErrorOf(mine.Expire(w.ctx, time.Hour)))
	w.ok(kit.ErrorOf(mine.ClearExpire(w.ctx)))
	w.ok(kit.ErrorOf(mine.RemainingTTL(w.ctx)))
	w.ok(kit.ErrorOf(mine.Exists(w.ctx)))
	w.ok(kit.ErrorOf(mine.Delete(w.ctx)))
}

func (w *aclWalk) permits() {
	mine, theirs := semaphore.NewExpirable(w.mine, w.name("permits"), nil),
		semaphore.NewExpirable(w.theirs, w.name("permits"), nil)
	w.ok(kit.ErrorOf(mine.TrySetPermits(w.ctx, 1)))
	w.ok(mine.AddPermits(w.ctx, 1))
	w.ok(mine.SetPermits(w.ctx, 1))
	hold := w.take(w.ctx, mine.Acquire)
	w.ok(hold.Extend(w.ctx, time.Minute))
	w.ok(kit.ErrorOf(theirs.RemainingLease(w.ctx, hold.ID())))
	w.ok(theirs.UpdateLease(w.ctx, hold.ID(), time.Hour))
	w.is(kit.ErrorOf(theirs.TryAcquire(w.ctx)), holdfast.ErrBusy)
	next := kit.GoLock(w.ctx, theirs.Acquire)
	w.listened(w.wire("redisson_sc", "permits"), next)
	w.ok(hold.Release())
	hold = w.granted(next)
	w.ok(mine.Release(w.ctx, hold.ID()))

	left := w.take(w.ctx, mine.Acquire)
	w.ok(left.Detach())
	w.ok(theirs.UpdateLease(w.ctx, left.ID(), 10*time.Millisecond))
	w.ok(w.take(w.ctx, theirs.Acquire).Release()) // once its lease has ended
	w.ok(kit.ErrorOf(mine.Permits(w.ctx)))
	w.ok(kit.ErrorOf(mine.AvailablePermits(w.ctx)))
	w.ok(kit.ErrorOf(mine.AcquiredPermits(w.ctx)))
	w.ok(kit.ErrorOf(mine.ExpireAt(w.ctx, time.Now().Add(time.Hour))))
	w.ok(kit.ErrorOf(mine.ClearExpire(w.ctx)))
	w.ok(kit.ErrorOf(mine.Delete(w.ctx)))
}

func (w *aclWalk) barrier() {
	mine, theirs := barrier.New(w.mine, w.name("barrier"), 2, nil), barrier.New(w.theirs, w.name("barrier"), 2, nil)
	first, err := mine.Join(w.ctx)
	w.ok(err)
	second, err := theirs.Join(w.ctx)
	w.ok(err)
	next := make(chan kit.Result, 1)
	go func() { next <- kit.Result{Err: kit.ErrorOf(second.Await(w.ctx))} }()
	w.listened(wire.BarrierKey(w.name("barrier")), next)
	w.ok(kit.ErrorOf(first.Await(w.ctx)))
	w.granted(next)
	w.ok(first.Release())
	third, err := mine.Join(w.ctx) // in place of the first one, which is forgotten
	w.ok(err)
	w.ok(second.Release())
	w.ok(third.Release())
	w.ok(kit.ErrorOf(mine.Delete(w.ctx)))
}

func (w *aclWalk) latch() {
	mine, theirs := latch.New(w.mine, w.name("latch")), latch.New(w.theirs, w.name("latch"))
	w.ok(kit.ErrorOf(mine.TrySetCount(w.ctx, 2)))
	next := make(chan kit.Result, 1)
	go func() { next <- kit.Result{Err: theirs.Wait(w.ctx)} }()
	w.listened("redisson_countdownlatch__channel__{"+w.name("latch")+"}", next)
	w.ok(mine.CountDown(w.ctx))
	w.ok(kit.ErrorOf(mine.Count(w.ctx)))
	w.ok(kit.ErrorOf(mine.Exists(w.ctx)))
	w.ok(mine.CountDown(w.ctx))
	w.granted(next)
	w.ok(kit.ErrorOf(mine.TrySetCount(w.ctx, 1)))
	w.ok(kit.ErrorOf(mine.Delete(w.ctx)))
}

// outwaited goes through waits whose time ends. It comes for all at once, and later than a busy machine's answers.
func (w *aclWalk) outwaited() {
	var holds []*holdfast.Hold
	var waits []<-chan kit.Result
	for _, kind := range []string{"rlock fenced", "rlock non-reentrant", "fairlock", "rwlock write", "setlock"} {
		k := kit.KindOf(kind)
		holds = append(holds, w.take(w.ctx, k.Make(w.mine, w.name(kind), 0).Lock))
		waits = append(waits, kit.GoLock(w.ctx, func(ctx context.Context) (*holdfast.Hold, error) {
			return k.Make(w.theirs, w.name(kind), 0).TryLockFor(ctx, 2*time.Second)
		}))
	}
	for i, wait := range waits {
		w.is((<-wait).Err, holdfast.ErrBusy)
		w.ok(holds[i].Release())
	}
}

// close leaves a lock to the end of its session.
func (w *aclWalk) close() {
	l := rlock.New(w.theirs, w.name("closing"), nil)
	hold := w.take(w.ctx, rlock.New(w.mine, w.name("closing"), nil).Lock)
	w.ok(w.mine.Close())
	w.is(hold.Err(), holdfast.ErrClosed)
	w.ok(w.take(w.ctx, l.TryLock).Release())
	w.ok(w.theirs.Close())
}
