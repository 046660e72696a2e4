package lease

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A Group says which renewals may share one call: those of one script and one server or slot.
type Group struct {
	Script any // comparable; identifies the script
	Slot   uint16
}

// Renewable is what a watchdog keeps alive.
type Renewable interface {
	// Group is the same at every call.
	Group() Group
	// entry is where the watchdog keeps its notes; embed an [Entry].
	entry() *Entry
}

// Entry is embedded by a Renewable. Its zero value is ready.
type Entry struct {
	due   time.Duration // since the watchdog's base
	place int           // in the heap, from 1; 0 when not in it
	state state
}

type state uint8

const (
	absent  state = iota
	waiting       // in the heap
	sent          // a renewal is under way
)

func (e *Entry) entry() *Entry { return e }

// BatchSize is the limit of names per call (guarantee G9).
const BatchSize = 500

// Watchdog renews what was added to it, a third of the lease after the last success, in
// batches: what is due within a sixtieth of the lease goes together.
type Watchdog struct {
	base   time.Time
	period time.Duration // between renewals
	window time.Duration // what is due this much later is renewed as well
	again  time.Duration // to the next try of a renewal that failed

	// renew renews a batch of one group, of at most BatchSize; it reports each outcome by
	// [Watchdog.Settle] and may block. It runs in a goroutine of its own.
	renew func(batch []Renewable)
	start func(func()) // starts a goroutine that somebody waits for

	mu    sync.Mutex // guards queue and every Entry
	queue queue
	kick  chan struct{} // wakes Run when the earliest moment has become earlier
}

// NewWatchdog makes a watchdog for leases of the given length; moments are counted from base.
func NewWatchdog(base time.Time, lease time.Duration, start func(func()), renew func(batch []Renewable)) *Watchdog {
	return &Watchdog{
		base: base, period: lease / 3, window: lease / 60, again: lease / 20,
		renew: renew, start: start, kick: make(chan struct{}, 1),
	}
}

// Add starts to renew r, whose lease was granted by a call sent at sent.
func (w *Watchdog) Add(r Renewable, sent time.Duration) {
	w.mu.Lock()
	e := r.entry()
	if e.state != absent {
		w.mu.Unlock()
		return
	}
	earliest := w.push(r, sent+w.period)
	w.mu.Unlock()
	if earliest {
		w.wake()
	}
}

// Remove stops renewing r. A renewal under way is not called back.
func (w *Watchdog) Remove(r Renewable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := r.entry()
	if e.state == waiting {
		heap.Remove(&w.queue, e.place-1)
	}
	e.state = absent
}

// Settle says what became of the renewal of r that was sent at sentAt: renewed, or to be
// tried again soon. What is lost is not settled but removed.
func (w *Watchdog) Settle(r Renewable, sentAt time.Duration, renewed bool) {
	due := sentAt + w.period
	if !renewed {
		due = time.Since(w.base) + w.again
	}
	w.mu.Lock()
	earliest := r.entry().state == sent && w.push(r, due)
	w.mu.Unlock()
	if earliest {
		w.wake()
	}
}

// push puts r into the heap and reports whether it is now the first.
func (w *Watchdog) push(r Renewable, due time.Duration) bool {
	e := r.entry()
	e.due, e.state = due, waiting
	heap.Push(&w.queue, r)
	return e.place == 1
}

func (w *Watchdog) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Run renews until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for _, batch := range w.take() {
			w.start(func() { w.renew(batch) })
		}
		timer.Reset(w.next())
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
		case <-timer.C:
		}
	}
}

// next is how long nothing is due.
func (w *Watchdog) next() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return time.Hour
	}
	return w.queue[0].entry().due - time.Since(w.base)
}

// take removes what is due from the heap and returns it in batches, if anything is: then
// what will be due within the window goes along.
func (w *Watchdog) take() (batches [][]Renewable) {
	now := time.Since(w.base)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 || w.queue[0].entry().due > now {
		return nil
	}
	open := make(map[Group]int) // where the batch of a group is that has room
	for len(w.queue) > 0 && w.queue[0].entry().due <= now+w.window {
		r := heap.Pop(&w.queue).(Renewable)
		r.entry().state = sent
		i, ok := open[r.Group()]
		if !ok || len(batches[i]) == BatchSize {
			i = len(batches)
			open[r.Group()] = i
			batches = append(batches, nil)
		}
		batches[i] = append(batches[i], r)
	}
	return batches
}

// queue is a heap by due; every entry knows its place.
type queue []Renewable

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].entry().due < q[j].entry().due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].entry().place, q[j].entry().place = i+1, j+1
}

func (q *queue) Push(x any) {
	r := x.(Renewable)
	*q = append(*q, r)
	r.entry().place = len(*q)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	r.entry().place = 0
	return r
}
