package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/fairlock"
)

// fairScene shows the fair lock: several processes queue for it. Twice the holder stands still until
// all others are in the queue; then one waiter gives up, or a process with waiters is killed, and
// the rest must be served in their order.
var fairScene = scene{
	name:  "fair",
	short: "a fair lock serves a queue in order; one waiter gives up, one dies",
	story: func(s *stage) story {
		return &fairStory{stage: s, lock: newFair(s.session, s.name), workers: map[string]int{}, grants: map[string]int{}}
	},
	work: func(w *worker, s *holdfast.Session) func(context.Context) error {
		return counting{w, impatient{newFair(s, w.Name), w}}.increment
	},
}

const (
	fairProcesses   = 4
	fairGoroutines  = 3
	fairLease       = 2 * time.Second
	fairWaiterLease = 2 * time.Second
	fairHolder      = 1 // the worker that stands still
)

func newFair(s *holdfast.Session, name string) *fairlock.Mutex {
	return fairlock.New(s, name, &fairlock.Options{WaiterLease: fairWaiterLease})
}

// An impatient lock is one of whose waiters gives up at each order to do so.
type impatient struct {
	*fairlock.Mutex
	worker *worker
}

func (i impatient) Lock(ctx context.Context) (*holdfast.Hold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-i.worker.ordered[giveUp]:
			cancel(errGaveUp)
		case <-ctx.Done():
		}
	}()
	return i.Mutex.Lock(ctx)
}

// A fairStory is one telling of the scene.
type fairStory struct {
	*stage
	lock    *fairlock.Mutex // the coordinator's own
	workers map[string]int  // by the ids of their sessions
	grants  map[string]int  // what the waiters that were served have read: how many came before, by id
}

func (f *fairStory) tell(ctx context.Context) error {
	if err := counter(f.file).write(0); err != nil {
		return err
	}
	with := setup{Goroutines: fairGoroutines, Lease: fairLease, Pace: 15 * time.Millisecond}
	if err := f.launch(ctx, fairProcesses, with); err != nil {
		return err
	}
	f.note("%d goroutines in each process queue for one lock", fairGoroutines)
	return f.acts(ctx, f.someoneGivesUp, f.someoneDies, f.pause, f.finish, f.audit)
}

// someoneGivesUp makes one waiter leave the queue.
func (f *fairStory) someoneGivesUp(ctx context.Context) error {
	queue, err := f.standstill(ctx, time.Second)
	if err != nil {
		return err
	}
	worker := f.workerOf(queue[len(queue)/2])
	f.process(worker).Order(giveUp)
	f.note(f.Color(cli.Yellow, "a waiter of worker %d gives up"), worker)
	after, err := f.queueWhen(ctx, "the waiter to move to the end", func(now []string) bool {
		return len(now) == len(queue) && !slices.Equal(now, queue)
	})
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(queue), func(id string) bool { return !slices.Contains(after, id) })
	if len(left) != len(queue)-1 || !slices.Equal(left, after[:len(left)]) {
		return fmt.Errorf("the queue was %s, and is %s", f.draw(queue), f.draw(after))
	}
	f.note("it has left the queue, and asks again; the others keep their places: %s", f.draw(after))
	f.process(fairHolder).Order(proceed)
	if err := f.until(ctx, "the queue to be served", func() bool { return f.served(after) }); err != nil {
		return err
	}
	return f.inOrder(after)
}

// someoneDies kills a process whose turn is near, and lets a newcomer try the lock, which is free until the dead
// waiter counts as dead.
func (f *fairStory) someoneDies(ctx context.Context) error {
	queue, err := f.standstill(ctx, 0)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(queue, func(id string) bool { return f.workerOf(id) != fairHolder })
	dead := f.workerOf(queue[first])
	if err := f.process(dead).Kill(); err != nil {
		return err
	}
	died := time.Now()
	f.note("%s to worker %d, which is number %d in the queue", f.Color(cli.Red, "SIGKILL"), dead, first+1)
	living := slices.DeleteFunc(slices.Clone(queue), func(id string) bool { return f.workerOf(id) == dead })
	f.process(fairHolder).Order(proceed)
	if err := f.until(ctx, "the dead waiter's turn", func() bool { return f.served(queue[:first]) }); err != nil {
		return err
	}
	if hold, err := f.lock.TryLock(ctx); err == nil {
		return errors.Join(errors.New("a newcomer has overtaken the queue"), hold.Release())
	} else if !errors.Is(err, holdfast.ErrBusy) {
		return err
	}
	f.note("%s: its attempt is refused as busy", f.Color(cli.Green, "a newcomer does not overtake"))
	if err := f.until(ctx, "the living to be served", func() bool { return f.served(living) }); err != nil {
		return err
	}
	if took := time.Since(died); took > fairWaiterLease+allowance {
		return fmt.Errorf("a dead waiter held up the queue for %s; %s is the limit", cli.Roughly(took), fairWaiterLease)
	}
	return f.inOrder(living)
}

// standstill waits for the moment, and then until the holder stands still and everybody else is in
// the queue, which it returns.
func (f *fairStory) standstill(ctx context.Context, moment time.Duration) (queue []string, err error) {
	if err := f.at(ctx, moment); err != nil {
		return nil, err
	}
	if _, err := f.detain(ctx, fairHolder); err != nil {
		return nil, err
	}
	all := fairProcesses*fairGoroutines - 1
	queue, err = f.queueWhen(ctx, "everybody to queue", func(now []string) bool { return len(now) == all })
	f.note("worker %d has the lock; the workers in the queue: %s", fairHolder, f.draw(queue))
	return queue, err
}

func (f *fairStory) served(queue []string) bool {
	return !slices.ContainsFunc(queue, func(id string) bool {
		_, served := f.grants[id]
		return !served
	})
}

// inOrder checks that the waiters, which have all been served, were in the order of the queue.
func (f *fairStory) inOrder(queue []string) error {
	order := slices.SortedFunc(slices.Values(queue), func(a, b string) int { return f.grants[a] - f.grants[b] })
	for i, id := range order {
		if id != queue[i] {
			return fmt.Errorf("out of order: number %d of the queue was served as number %d", slices.Index(queue, id)+1, i+1)
		}
	}
	f.note(f.Color(cli.Green, "all %d were served in the order of the queue"), len(queue))
	return nil
}

// queueWhen polls the queue until it is as wanted, and returns it.
func (f *fairStory) queueWhen(
	ctx context.Context, what string, wanted func(queue []string) bool,
) (queue []string, err error) {
	var failed error
	err = f.until(ctx, what, func() bool {
		var waiters []holdfast.Waiter
		waiters, failed = f.lock.Waiters(ctx)
		queue = nil
		for _, w := range waiters {
			queue = append(queue, w.ID)
		}
		return failed != nil || wanted(queue)
	})
	return queue, errors.Join(failed, err)
}

// take handles an event of a worker.
func (f *fairStory) take(e event) {
	switch e.What {
	case ready:
		f.workers[e.Text] = e.worker
	case holds:
		f.grants[e.Text] = e.Value
	}
}

// workerOf is the worker that the waiter belongs to.
func (f *fairStory) workerOf(id string) int {
	session, _, _ := strings.Cut(id, ":")
	return f.workers[session]
}

// draw shows whose waiters stand in the queue, the next one first.
func (f *fairStory) draw(queue []string) string {
	var numbers []string
	for _, id := range queue {
		numbers = append(numbers, fmt.Sprint(f.workerOf(id)))
	}
	return strings.Join(numbers, " ")
}

func (f *fairStory) progress() string { return fmt.Sprintf("%d served", len(f.grants)) }
