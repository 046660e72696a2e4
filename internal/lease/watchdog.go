package lease

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Group says which renewals may share one call: those of one script and one server or slot.
type Group struct {
	Script any // comparable; identifies the script
	Slot   uint16
}

// Renewable is something that a watchdog keeps alive, or only knows.
type Renewable interface {
	comparable
	// Group is the same at every call.
	Group() Group
	// The watchdog keeps its notes in an [Entry]; embed one.
	entry() *Entry
	put(place int32)
}

// Entry is embedded by a Renewable. Its zero value is ready.
type Entry struct {
	place int32 // in its group's queue, from 1; 0 when not in it
	state state
}

type state uint8

const (
	resting state = iota // if it has a place: known, not renewed, and looked at when it is due
	waiting              // to be renewed
	sent                 // a renewal is under way
)

func (e *Entry) entry() *Entry   { return e }
func (e *Entry) put(place int32) { e.place = place }

var _ interface{ entry() *Entry } = (*Entry)(nil)

// restingGroup is the group of all that rests.
var restingGroup = Group{Script: resting}

// BatchSize is the limit of names per call (guarantee G9).
const BatchSize = 500

// Watchdog renews the members added to it, at the latest a third of the lease after the last success, in batches. Many
// names cost hardly more than one, so when one of a group is due, others go along as far as the call has room: those
// that are due first, unless they were renewed only just now. From then on they are due together.
//
// It knows what need not be renewed, too, and looks when that has ended: so code that needs all of them asks it.
type Watchdog[R Renewable] struct {
	now    func() time.Duration // the present moment
	period time.Duration        // between renewals
	along  time.Duration        // members that are due this much later go along
	again  time.Duration        // to the next try of a renewal that failed

	// renew renews a batch of one group, of at most BatchSize; it reports each outcome by
	// [Watchdog.Renewed], [Watchdog.Failed] or [Watchdog.Remove], and may block. It runs in a
	// goroutine of its own.
	renew func(batch []R)
	start func(func()) // starts a goroutine that somebody waits for

	// look ends what has ended of r, which is not renewed, and returns when to look again. It does not block.
	look func(r R) time.Duration

	mu     sync.Mutex // guards the rest, and every Entry
	groups map[Group]*group[R]
	last   *group[R] // the one that was used last: most sessions have few
	queue  queue[*group[R]]
	asleep time.Duration // Run sleeps until then
	kick   chan struct{} // wakes Run when something is due earlier
}

// never is when that is due which is not to be renewed, or is being renewed.
const never time.Duration = math.MaxInt64

// A group has all entries that may share a call, by the moment they are due; the watchdog orders the groups by the
// moment of their first.
type group[R Renewable] struct {
	key     Group
	entries queue[R]
	place   int32
}

func (g *group[R]) put(place int32) { g.place = place }

// NewWatchdog makes a watchdog for leases of the given length; now is the present moment, by a clock
// that may jump ahead.
func NewWatchdog[R Renewable](
	now func() time.Duration, lease time.Duration, start func(func()), renew func(batch []R),
	look func(r R) time.Duration,
) *Watchdog[R] {
	return &Watchdog[R]{
		now: now, period: lease / 3, along: lease / 9 * 2, again: lease / 20,
		renew: renew, start: start, look: look, groups: make(map[Group]*group[R]), kick: make(chan struct{}, 1),
	}
}

// Add starts to renew r, whose lease was granted by a call sent at sent.
func (w *Watchdog[R]) Add(r R, sent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.entry().state == resting {
		w.set(r, waiting, sent+w.period)
	}
}

// Rest stops renewing r, or begins to know it, and looks at it then. A renewal under way is not called back.
func (w *Watchdog[R]) Rest(r R, then time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(r, resting, then)
}

// Sooner looks at r then, if it rests and is not to be looked at before.
func (w *Watchdog[R]) Sooner(r R, then time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := r.entry(); e.state == resting && e.place > 0 {
		w.set(r, resting, min(then, w.groupOf(r).entries[e.place-1].due))
	}
}

// Remove stops renewing r, and forgets it.
func (w *Watchdog[R]) Remove(r R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takeOut(r)
	r.entry().state = resting
}

// Rests reports whether r is known, but not renewed.
func (w *Watchdog[R]) Rests(r R) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.entry().state == resting
}

// takeOut takes r out of its group.
func (w *Watchdog[R]) takeOut(r R) {
	if e := r.entry(); e.place > 0 {
		g := w.groupOf(r)
		g.entries.remove(e.place)
		w.placeGroup(g)
	}
}

// All are those that the watchdog knows, in any order.
func (w *Watchdog[R]) All() (all []R) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		for _, e := range g.entries {
			all = append(all, e.of)
		}
	}
	return all
}

// Any reports whether the watchdog knows any.
func (w *Watchdog[R]) Any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) > 0
}

// Hasten makes everything that is to be renewed due within that time, each group at one moment.
func (w *Watchdog[R]) Hasten(within time.Duration) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.groups {
		due := now + rand.N(within)
		for _, e := range slices.Clone(g.entries) {
			if e.of.entry().state == waiting {
				w.set(e.of, waiting, min(e.due, due))
			}
		}
	}
}

// Renewed says that the renewal of r which was sent at sentAt succeeded.
func (w *Watchdog[R]) Renewed(r R, sentAt time.Duration) { w.settle(r, sentAt+w.period) }

// Failed says that the renewal of r did not succeed and is to be tried again soon.
func (w *Watchdog[R]) Failed(r R) { w.settle(r, w.now()+w.again) }

func (w *Watchdog[R]) settle(r R, due time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.entry().state == sent {
		w.set(r, waiting, due)
	}
}

// set gives r its place in its group, and wakes Run if that would sleep for too long. It often sleeps
// for less than it might: until something was due that has been removed since.
func (w *Watchdog[R]) set(r R, to state, due time.Duration) {
	e := r.entry()
	if (e.state == resting) != (to == resting) {
		w.takeOut(r)
	}
	e.state = to
	g := w.groupOf(r)
	g.entries.set(r, e.place, due)
	w.placeGroup(g)
	if due < w.asleep {
		w.wake()
	}
}

// groupOf returns the group of r as it is now: what rests is in one of its own, which goes along with nothing.
func (w *Watchdog[R]) groupOf(r R) *group[R] {
	if r.entry().state == resting {
		return w.group(restingGroup)
	}
	return w.group(r.Group())
}

// group returns the group of the key, made if need be.
func (w *Watchdog[R]) group(key Group) *group[R] {
	if w.last != nil && w.last.key == key {
		return w.last
	}
	g := w.groups[key]
	if g == nil {
		g = &group[R]{key: key}
		w.groups[key] = g
	}
	w.last = g
	return g
}

// placeGroup moves a group whose entries have changed to its place among the groups; one
// without entries has none.
func (w *Watchdog[R]) placeGroup(g *group[R]) {
	switch {
	case len(g.entries) > 0:
		w.queue.set(g, g.place, g.entries[0].due)
	case g.place > 0:
		w.queue.remove(g.place)
	}
}

func (w *Watchdog[R]) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Run renews, and looks at what rests, until ctx ends.
func (w *Watchdog[R]) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batches, rested := w.take()
		for _, batch := range batches {
			w.start(func() { w.renew(batch) })
		}
		for _, r := range rested {
			w.Sooner(r, w.look(r)) // unless it is due sooner, by what has come meanwhile
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

// Look makes Run look which members are due: the clock has jumped.
func (w *Watchdog[R]) Look() { w.wake() }

// next is how long nothing is due.
func (w *Watchdog[R]) next() time.Duration {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asleep = now + time.Hour
	if len(w.queue) > 0 {
		w.asleep = min(w.asleep, w.queue[0].due)
	}
	return w.asleep - now
}

// take returns the due members in batches, filled up with others that are nearly due, and apart from them those that
// rest.
func (w *Watchdog[R]) take() (batches [][]R, rested []R) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 && w.queue[0].due <= now {
		g := w.queue[0].of
		if g.key == restingGroup {
			rested = g.take(now, math.MaxInt, resting)
		} else {
			batches = append(batches, g.take(now+w.along, BatchSize, sent))
		}
		w.placeGroup(g)
	}
	return batches, rested
}

// take returns the entries that are due by then, those that are due first, as many as a call has room for. That is
// their state from then on.
func (g *group[R]) take(by time.Duration, room int, to state) (batch []R) {
	for len(batch) < room && g.entries[0].due <= by {
		r := g.entries[0].of
		r.entry().state = to
		g.entries.set(r, 1, never)
		batch = append(batch, r)
	}
	return batch
}
