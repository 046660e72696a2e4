package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
)

// fairScene shows the fair lock: several processes queue for it, while one that waits gives up,
// another that waits is killed, and somebody tries to overtake.
var fairScene = scene{
	name:  "fair",
	short: "a fair queue served in order",
	play:  func(ctx context.Context, s *stage) error { return newFairStory(s).tell(ctx) },
	work:  workFair,
}

const (
	fairProcesses   = 4
	fairGoroutines  = 3
	fairLease       = 2 * time.Second
	fairWaiterLease = 2 * time.Second
	fairPace        = 15 * time.Millisecond
	fairRest        = 60 * time.Millisecond

	// When what happens, from the beginning.
	giveUpAt = 2 * time.Second
	dieAt    = 4 * time.Second
	closeAt  = 9 * time.Second
)

func newFair(s *holdfast.Session, name string) *fairlock.Mutex {
	return fairlock.New(s, name, &fairlock.Options{WaiterLease: fairWaiterLease})
}

// A fairStory is one telling of the scene.
type fairStory struct {
	*crew
	lock     *fairlock.Mutex // the coordinator's, which looks at the queue and sends the newcomer
	register *register
	sessions map[string]int // the workers, by the ids of their sessions

	gaveUp time.Duration // how long it took somebody to leave the queue; 0 if nobody has yet
	dead   *deadWaiter   // nil if there is none yet
}

// A deadWaiter is a worker that was killed while it waited.
type deadWaiter struct {
	worker int
	place  int // in the queue, from 1
	at     time.Time

	cost time.Duration // in which nobody had the lock because it was the dead one's turn
	gone time.Duration // after which none of its places was left
}

func newFairStory(s *stage) *fairStory {
	f := &fairStory{crew: newCrew(s, fairProcesses, fairGoroutines), register: newRegister(), sessions: map[string]int{}}
	s.story = f
	return f
}

func (f *fairStory) tell(ctx context.Context) error {
	session, err := open(f.redis[0], fairLease)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // it holds nothing
	f.lock = newFair(session, f.name)
	if err := f.begin(ctx, setup{Lease: fairLease, Pace: fairPace, Rest: fairRest}); err != nil {
		return err
	}
	defer f.tidy(ctx)
	defer f.watch(ctx)()

	f.note("%d goroutines in each process queue for one lock; one that dies may cost the others %s",
		fairGoroutines, human(fairWaiterLease))
	for _, act := range []func(context.Context) error{f.giveUp, f.killWaiter, f.check} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// giveUp has somebody in the queue stop waiting.
func (f *fairStory) giveUp(ctx context.Context) error {
	holder, err := f.standstill(ctx, giveUpAt)
	if err != nil {
		return err
	}
	before, asked := f.register.queue, time.Now()
	worker := f.lastToAppear(before)
	if err := f.process(worker).order(order{Do: leave}); err != nil {
		return err
	}
	f.note(f.yellow("a waiter of worker %d gives up"), worker)
	place := 0
	if err := f.until(ctx, "the waiter to leave the queue", func() bool {
		place = leftFrom(before, f.register.queue)
		return place > 0
	}); err != nil {
		return err
	}
	f.gaveUp = time.Since(asked)
	f.note(f.green("number %d of %d has left the queue")+", after %s; the others stand in the same order",
		place, len(before), human(f.gaveUp))
	return f.process(holder).order(order{Do: proceed})
}

// killWaiter kills a worker whose turn it is next, and has a newcomer try the lock, which is
// free while nobody knows that the one in front is dead.
func (f *fairStory) killWaiter(ctx context.Context) error {
	holder, err := f.standstill(ctx, dieAt)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(f.register.queue, func(id string) bool { return f.workerOf(id) != holder })
	victim := f.workerOf(f.register.queue[first])
	f.dead = &deadWaiter{worker: victim, place: first + 1, at: time.Now()}
	if err := f.kill(victim); err != nil {
		return err
	}
	f.note(f.red("SIGKILL")+" to worker %d, which is number %d in the queue and has %d places in all",
		victim, first+1, f.placesOf(victim))
	if err := f.process(holder).order(order{Do: proceed}); err != nil {
		return err
	}
	if err := f.until(ctx, "the dead waiter's turn", f.blocked); err != nil {
		return err
	}
	if err := f.tryToOvertake(ctx); err != nil {
		return err
	}
	if err := f.until(ctx, "the dead waiter's places to be gone", func() bool { return f.placesOf(victim) == 0 }); err != nil {
		return err
	}
	f.dead.gone = time.Since(f.dead.at)
	f.note(f.green("its places are gone")+", %s after its death; they have cost the others %s", human(f.dead.gone), human(f.dead.cost))
	if f.dead.gone > fairWaiterLease+allowance {
		return fmt.Errorf("a dead waiter kept its places for %s, which should be %s at most", human(f.dead.gone), human(fairWaiterLease))
	}
	return nil
}

// tryToOvertake has a newcomer try the lock while it is free and others wait.
func (f *fairStory) tryToOvertake(ctx context.Context) error {
	hold, err := f.lock.TryLock(ctx)
	if err == nil {
		return errors.Join(errors.New("a newcomer has overtaken the queue"), hold.Release())
	}
	if !errors.Is(err, holdfast.ErrBusy) {
		return err
	}
	f.note("%s, though nobody has the lock; its attempt says:", f.green("a newcomer does not overtake"))
	f.say("         " + err.Error())
	return nil
}

// check ends the work and holds the grants against the entries.
func (f *fairStory) check(ctx context.Context) error {
	count, err := f.end(ctx, closeAt)
	if err != nil {
		return err
	}
	f.sumUp(count)
	if err := f.ledger.audit(count); err != nil {
		return err
	}
	return f.register.audit()
}

// tidy waits for the end of the dead waiter's places if the story broke off before: they have
// no expiry, as in Redisson, and the server may be somebody's own.
func (f *fairStory) tidy(ctx context.Context) {
	if f.dead == nil || f.placesOf(f.dead.worker) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fairWaiterLease+allowance)
	defer cancel()
	if hold, err := f.lock.Lock(ctx); err == nil {
		_ = hold.Release()
	}
}

// standstill waits for the moment, and then until one worker holds the lock until further
// notice and everybody else stands in the queue.
func (f *fairStory) standstill(ctx context.Context, moment time.Duration) (holder int, err error) {
	if err := f.at(ctx, moment); err != nil {
		return 0, err
	}
	if holder, _, err = f.detain(ctx); err != nil {
		return 0, err
	}
	fresh := time.Now().Add(4 * glance) // a picture of before may show the holder, still in the queue
	return holder, f.until(ctx, "everybody to queue", func() bool {
		return len(f.register.queue) == fairProcesses*fairGoroutines-1 && f.register.seen.After(fresh)
	})
}

// glance is the time between two looks at the queue.
const glance = 5 * time.Millisecond

// watch tells the story who stands in the queue, again and again, until it is stopped.
func (f *fairStory) watch(ctx context.Context) (stop func()) {
	return aside(ctx, func(ctx context.Context) {
		looks := time.NewTicker(glance)
		defer looks.Stop()
		for {
			f.fleet.tell(ctx, f.look(ctx))
			select {
			case <-looks.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (f *fairStory) look(ctx context.Context) event {
	waiters, err := f.lock.Waiters(ctx)
	if err != nil {
		return event{What: queued, Text: err.Error()}
	}
	e := event{What: queued}
	for _, w := range waiters {
		e.queue = append(e.queue, w.ID)
	}
	return e
}

// take takes in what a worker tells, or what the queue looks like.
func (f *fairStory) take(e event) error {
	if e.What == queued {
		if e.Text != "" {
			return errors.New(e.Text)
		}
		if f.blocked() {
			f.dead.cost += e.at.Sub(f.register.seen)
		}
		f.register.see(e.queue, e.at)
		return nil
	}
	f.crew.take(e)
	switch e.What {
	case ready:
		f.sessions[e.Text] = e.worker
	case holds:
		f.register.grant(e.Value, e.Text, e.worker)
	}
	return nil
}

// workerOf is whose waiter that is.
func (f *fairStory) workerOf(id string) int { return f.sessions[sessionOf(id)] }

// lastToAppear is the worker whose first place is the furthest from the front.
func (f *fairStory) lastToAppear(queue []string) (worker int) {
	var before []int
	for _, id := range queue {
		if w := f.workerOf(id); !slices.Contains(before, w) {
			before, worker = append(before, w), w
		}
	}
	return worker
}

// placesOf is how many places a worker has in the queue.
func (f *fairStory) placesOf(worker int) (n int) {
	for _, id := range f.register.queue {
		if f.workerOf(id) == worker {
			n++
		}
	}
	return n
}

// blocked reports whether nobody holds the lock and the next one is dead.
func (f *fairStory) blocked() bool {
	holder, _ := f.holder()
	queue := f.register.queue
	return f.dead != nil && holder == 0 && len(queue) > 0 && f.workerOf(queue[0]) == f.dead.worker
}
