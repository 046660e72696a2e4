package demo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/multilock"
)

// redLockScene shows one lock on several independent servers: processes count under it, while two
// servers are killed, which does not matter, and then a third, which does.
var redLockScene = scene{
	name:    "redlock",
	short:   "four processes, one lock on servers that die",
	servers: redLockServers,
	play:    func(ctx context.Context, s *stage) error { return newRedLockStory(s).tell(ctx) },
	work:    workRedLock,
}

const (
	redLockServers    = 5
	redLockMajority   = redLockServers/2 + 1
	redLockProcesses  = 4
	redLockGoroutines = 2
	redLockLease      = 2 * time.Second
	redLockPace       = 5 * time.Millisecond
	redLockTimeout    = 200 * time.Millisecond // one that is gone refuses at once, and a busy machine is slow

	// When what happens, from the beginning.
	killTwoAt   = 1500 * time.Millisecond
	killThirdAt = 5 * time.Second
	departAt    = 9500 * time.Millisecond

	// redLockSilence is for how long nobody can have the lock when its last lease is over.
	redLockSilence = 700 * time.Millisecond
)

// A redLockStory is one telling of the scene.
type redLockStory struct {
	*crew
	lock  *multilock.RedLock // the coordinator's
	gone  []int              // servers, from 1
	vigil *vigil             // nil if nobody stays in the midst of its work

	outlived time.Duration // for how long somebody held while two servers were killed
	onThree  int           // acquisitions from three servers
	loss     *vigil        // that ended because three servers were killed
	silent   time.Duration // for which nobody had the lock then
	again    time.Duration // after which somebody had it when all servers were back
}

func newRedLockStory(s *stage) *redLockStory {
	r := &redLockStory{crew: newCrew(s, redLockProcesses, redLockGoroutines)}
	s.story = r
	return r
}

func (r *redLockStory) tell(ctx context.Context) error {
	sessions, err := openAll(r.redis, redLockLease)
	defer closeAll(sessions) // they hold nothing
	if err != nil {
		return err
	}
	r.lock = newRedLock(sessions, r.name)
	if err := r.begin(ctx, setup{Lease: redLockLease, Pace: redLockPace}); err != nil {
		return err
	}
	r.note("%d goroutines in each process count in one file; who has %d of %d servers has the lock; the lease is %s",
		redLockGoroutines, redLockMajority, redLockServers, human(redLockLease))
	for _, act := range []func(context.Context) error{r.killTwo, r.goOn, r.killThird, r.tryInVain, r.comeBack, r.check} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killTwo kills two servers in the midst of somebody's work, who goes on holding the lock.
func (r *redLockStory) killTwo(ctx context.Context) error {
	v, err := r.keepVigil(ctx, killTwoAt)
	if err != nil {
		return err
	}
	r.killServers(2, 5)
	deadline := v.until
	r.note("%s; worker %d has the lock, and is sure of it for %s",
		r.red("servers 2 and 5 are killed"), v.worker, human(time.Until(deadline)))
	if err := r.until(ctx, "the hold to outlive its deadline", func() bool {
		return time.Now().After(deadline) && v.until.After(deadline)
	}); err != nil {
		return err
	}
	r.outlived = time.Since(v.began)
	r.note("%s that deadline: the others have renewed it, and it is sure for another %s",
		r.green("its hold has outlived"), human(time.Until(v.until)))
	r.vigil = nil
	if err := r.process(v.worker).order(order{Do: proceed}); err != nil {
		return err
	}
	return r.until(ctx, "the holder to write", func() bool { return r.ledger.writers[v.read+1] == v.worker })
}

// goOn has all go on with three servers.
func (r *redLockStory) goOn(ctx context.Context) error {
	before := slices.Clone(r.ledger.workers)
	if err := r.changeHands(ctx); err != nil {
		return err
	}
	if err := r.at(ctx, killThirdAt); err != nil {
		return err
	}
	r.onThree = r.acquired() - before[0].acquired
	r.note("%s with %d servers: %d acquisitions since, by %d of %d workers",
		r.green("the work goes on"), r.there(), r.onThree, r.since(before), redLockProcesses)
	return nil
}

// killThird kills a third server in the midst of somebody's work, who learns that it may not be the
// only one.
func (r *redLockStory) killThird(ctx context.Context) error {
	v, err := r.keepVigil(ctx, killThirdAt)
	if err != nil {
		return err
	}
	r.loss, v.doomed = v, true
	r.killServers(3)
	r.note("%s, the third of %d; worker %d has the lock, and is sure of it for %s",
		r.red("server 3 is killed"), redLockServers, v.worker, human(time.Until(v.until)))
	if err := r.until(ctx, "the holder to learn its loss", func() bool { return v.learned != "" }); err != nil {
		return err
	}
	r.note(r.green("worker %d has learned its loss")+" from its clock, before writing, %s its deadline:", v.worker, v.off())
	r.say("         " + v.learned)
	return v.timely()
}

// tryInVain has the coordinator try as well, and gives everybody time to get what nobody can get.
func (r *redLockStory) tryInVain(ctx context.Context) error {
	hold, err := r.lock.TryLock(ctx)
	switch {
	case err == nil:
		return errors.Join(errors.New("the lock was had from two of five servers"), hold.Release())
	case ctx.Err() != nil:
		return err
	}
	r.note("%s any more; an attempt says:", r.green("nobody gets the lock"))
	r.say("         " + err.Error())
	over := r.loss.until
	err = r.at(ctx, over.Add(redLockSilence).Sub(r.begun))
	r.silent = time.Since(over)
	return err
}

// comeBack has all servers come back, and waits until the work goes on.
func (r *redLockStory) comeBack(ctx context.Context) error {
	r.vigil = nil
	before, began := r.acquired(), time.Now()
	if err := r.reviveServers(); err != nil {
		return err
	}
	r.note("%s, with all that they knew", r.yellow("the servers come back"))
	if err := r.until(ctx, "somebody to have the lock", func() bool { return r.acquired() > before }); err != nil {
		return err
	}
	r.again = time.Since(began)
	r.note("%s, after %s", r.green("somebody has the lock again"), human(r.again))
	return r.changeHands(ctx)
}

// check ends the work and holds the ledger against the counter.
func (r *redLockStory) check(ctx context.Context) error {
	count, err := r.end(ctx, departAt)
	if err != nil {
		return err
	}
	r.sumUp(count)
	return r.ledger.audit(count)
}

// keepVigil waits for the moment, and then until somebody stays in the midst of its work and its hold
// was just renewed.
func (r *redLockStory) keepVigil(ctx context.Context, moment time.Duration) (*vigil, error) {
	if err := r.at(ctx, moment); err != nil {
		return nil, err
	}
	worker, read, err := r.detain(ctx)
	if err != nil {
		return nil, err
	}
	goroutine := slices.IndexFunc(r.seats[worker-1], func(s seat) bool { return s.does == lingers })
	v := &vigil{worker: worker, goroutine: goroutine, read: read, began: time.Now()}
	r.vigil = v
	return v, r.until(ctx, "the hold to be renewed", func() bool { return !v.until.IsZero() })
}

// changeHands waits until two workers have had the lock. All will some time, but nobody has promised
// that it goes round.
func (r *redLockStory) changeHands(ctx context.Context) error {
	before := slices.Clone(r.ledger.workers)
	return r.until(ctx, "the lock to change hands", func() bool { return r.since(before) > 1 })
}

// since is how many workers have had the lock since then.
func (r *redLockStory) since(before []account) (n int) {
	for w := 1; w <= redLockProcesses; w++ {
		if r.ledger.workers[w].acquired > before[w].acquired {
			n++
		}
	}
	return n
}

// acquired is how often the lock was had.
func (r *redLockStory) acquired() int { return r.ledger.all().acquired }

// take takes in what a worker tells.
func (r *redLockStory) take(e event) error {
	if e.What != renewed && e.What != expired { // what a hold does, and not its goroutine
		r.crew.take(e)
	}
	if r.vigil == nil {
		return nil
	}
	return r.vigil.take(e)
}
