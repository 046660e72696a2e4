package wait

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// An Alarm wakes those who sleep when their time is over, and all of them when it is closed. All of a session have one,
// and so one timer, since one for each takes 128 bytes, and half a KiB for a goroutine when it rings: alarms of callers
// that began together ring together.
type Alarm struct {
	base   time.Time // of now
	closed chan struct{}

	mu    sync.Mutex // guards the rest, and of a waiter until and at
	due   sleepers
	timer *time.Timer   // nil until somebody sleeps
	rings time.Duration // when it does; 0: it does not
}

// NewAlarm is for the waits of a session. Close it.
func NewAlarm() *Alarm { return &Alarm{base: time.Now(), closed: make(chan struct{})} }

// Close ends all waits, and those to come, with [ErrClosed].
func (a *Alarm) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.closed)
	for _, w := range a.due {
		w.Wake()
	}
}

func (a *Alarm) over() bool {
	select {
	case <-a.closed:
		return true
	default:
		return false
	}
}

func (a *Alarm) now() time.Duration { return time.Since(a.base) }

// set has a waiter woken in d, until stop.
func (a *Alarm) set(w *Waiter, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	w.until = now + min(d, math.MaxInt64-now) // a back-off may be without end
	heap.Push(&a.due, w)
	a.reset(now)
	if a.over() {
		w.Wake()
	}
}

// stop ends set, and returns what has woken the waiter, and whether the alarm has been closed. The timer goes on, as
// others sleep for as long: it does no harm if it rings for nobody.
func (a *Alarm) stop(w *Waiter) (cause Cause, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := int(w.at); at < len(a.due) && a.due[at] == w {
		heap.Remove(&a.due, at)
	}
	if w.until == rung {
		cause = Timer
	}
	return cause, a.over()
}

// rung is when the sleep of a waiter ends that the alarm has woken.
const rung time.Duration = -1

// reset makes the timer ring no later than the first is due. mu is held.
func (a *Alarm) reset(now time.Duration) {
	first := a.due[0].until
	switch {
	case a.rings > 0 && a.rings <= first:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(first-now, a.ring)
	default:
		a.timer.Reset(first - now)
	}
	a.rings = max(first, 1)
}

// ring wakes those whose time is over. If something else has just ended such a sleep, it ends the next one.
func (a *Alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rings = 0
	for now := a.now(); len(a.due) > 0; {
		if a.due[0].until > now {
			a.reset(now)
			return
		}
		if w := heap.Pop(&a.due).(*Waiter); w.wake() {
			w.until = rung
		}
	}
}

// sleepers are a heap: the first is the one whose sleep ends first.
type sleepers []*Waiter

func (s sleepers) Len() int           { return len(s) }
func (s sleepers) Less(i, j int) bool { return s[i].until < s[j].until }

func (s sleepers) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = int32(i), int32(j) //nolint:gosec // there are fewer
}

// Push is for package heap.
func (s *sleepers) Push(w any) {
	w.(*Waiter).at = int32(len(*s)) //nolint:gosec // as above
	*s = append(*s, w.(*Waiter))
}

// Pop is for package heap.
func (s *sleepers) Pop() any {
	last := len(*s) - 1
	w := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return w
}
