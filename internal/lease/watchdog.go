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
	// The watchdog keeps its notes in an [Entry]; embed one.
	timed
	entry() *Entry
}

// Entry is embedded by a Renewable. Its zero value is ready.
type Entry struct {
	due   time.Duration // since the watchdog's base
	place int32         // in its group's queue, from 1; 0 when not in it
	state state
}

type state uint8

const (
	absent  state = iota
	waiting       // in the queue
	sent          // a renewal is under way
)

func (e *Entry) entry() *Entry { return e }

var _ interface{ entry() *Entry } = (*Entry)(nil)

// BatchSize is the limit of names per call (guarantee G9).
const BatchSize = 500

// Watchdog renews what was added to it, at the latest a third of the lease after the last
// success, in batches. Many names cost hardly more than one, so when one of a group is due,
// others go along as far as the call has room: those that are due first, unless they were
// renewed only just now. From then on they are due together.
type Watchdog struct {
	now    func() time.Duration // the present moment
	period time.Duration        // between renewals
	along  time.Duration        // what is due this much later goes along
	again  time.Duration        // to the next try of a renewal that failed

	// renew renews a batch of one group, of at most BatchSize; it reports each outcome by
	// [Watchdog.Renewed], [Watchdog.Failed] or [Watchdog.Remove], and may block. It runs in a
	// goroutine of its own.
	renew func(batch []Renewable)
	start func(func()) // starts a goroutine that somebody waits for

	mu     sync.Mutex // guards the rest, and every Entry
	groups map[Group]*group
	last   *group // the one that was used last: most sessions have few
	queue  queue[*group]
	asleep time.Duration // Run sleeps until then
	kick   chan struct{} // wakes Run when something is due earlier
}

// A group has all entries that may share a call, by the moment they are due; the watchdog
// has the groups by that of their first.
type group struct {
	key     Group
	entries queue[Renewable]
	place   int32
}

// NewWatchdog makes a watchdog for leases of the given length; now is the present moment, by a clock
// that may jump ahead.
func NewWatchdog(
	now func() time.Duration, lease time.Duration, start func(func()), renew func(batch []Renewable),
) *Watchdog {
	return &Watchdog{
		now: now, period: lease / 3, along: 2 * lease / 9, again: lease / 20,
		renew: renew, start: start, groups: make(map[Group]*group), kick: make(chan struct{}, 1),
	}
}

// Add starts to renew r, whose lease was granted by a call sent at sent.
func (w *Watchdog) Add(r Renewable, sent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.entry().state == absent {
		w.push(r, sent+w.period)
	}
}

// Remove stops renewing r. A renewal under way is not called back.
func (w *Watchdog) Remove(r Renewable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := r.entry()
	if e.state == waiting {
		g := w.group(r.Group())
		heap.Remove(&g.entries, int(e.place-1))
		w.placeGroup(g)
	}
	e.state = absent
}

// Renewed says that the renewal of r which was sent at sentAt succeeded.
func (w *Watchdog) Renewed(r Renewable, sentAt time.Duration) { w.settle(r, sentAt+w.period) }

// Failed says that the renewal of r did not succeed and is to be tried again soon.
func (w *Watchdog) Failed(r Renewable) { w.settle(r, w.now()+w.again) }

func (w *Watchdog) settle(r Renewable, due time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.entry().state == sent {
		w.push(r, due)
	}
}

// push puts r into its group, and wakes Run if that would sleep for too long. It often sleeps
// for less than it might: until something was due that has been removed since.
func (w *Watchdog) push(r Renewable, due time.Duration) {
	e := r.entry()
	e.due, e.state = due, waiting
	g := w.group(r.Group())
	heap.Push(&g.entries, r)
	w.placeGroup(g)
	if due < w.asleep {
		w.wake()
	}
}

// group returns the group of the key, made if need be.
func (w *Watchdog) group(key Group) *group {
	if w.last != nil && w.last.key == key {
		return w.last
	}
	g := w.groups[key]
	if g == nil {
		g = &group{key: key}
		w.groups[key] = g
	}
	w.last = g
	return g
}

// placeGroup moves a group whose entries have changed to its place among the groups; one
// without entries has none.
func (w *Watchdog) placeGroup(g *group) {
	switch {
	case len(g.entries) > 0 && g.place == 0:
		heap.Push(&w.queue, g)
	case len(g.entries) > 0:
		heap.Fix(&w.queue, int(g.place-1))
	case g.place > 0:
		heap.Remove(&w.queue, int(g.place-1))
	}
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

// Look has Run look what is due: the clock has jumped.
func (w *Watchdog) Look() { w.wake() }

// next is how long nothing is due.
func (w *Watchdog) next() time.Duration {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asleep = now + time.Hour
	if len(w.queue) > 0 {
		w.asleep = w.queue[0].when()
	}
	return w.asleep - now
}

// take removes what is due and returns it in batches, filled up as far as there is more.
func (w *Watchdog) take() (batches [][]Renewable) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && w.queue[0].when() <= now {
		g := w.queue[0]
		batches = append(batches, g.take(now+w.along))
		w.placeGroup(g)
	}
	return batches
}

// take removes the entries that are due by then, those that are due first, as many as a call
// has room for.
func (g *group) take(by time.Duration) (batch []Renewable) {
	for len(batch) < BatchSize && len(g.entries) > 0 && g.when() <= by {
		r := heap.Pop(&g.entries).(Renewable)
		r.entry().state = sent
		batch = append(batch, r)
	}
	return batch
}

func (g *group) when() time.Duration { return g.entries[0].when() }
func (g *group) put(place int32)     { g.place = place }
func (e *Entry) when() time.Duration { return e.due }
func (e *Entry) put(place int32)     { e.place = place }

// queue is a heap by the moment something is due; everything in it knows its place.
type queue[T timed] []T

type timed interface {
	when() time.Duration
	put(place int32) // from 1; 0 for none
}

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].when() < q[j].when() }

func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].put(int32(i + 1))
	q[j].put(int32(j + 1))
}

func (q *queue[T]) Push(x any) {
	*q = append(*q, x.(T))
	x.(T).put(int32(len(*q)))
}

func (q *queue[T]) Pop() any {
	var none T
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = none
	*q = (*q)[:last]
	x.put(0)
	return x
}
