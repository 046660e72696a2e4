package wait

import (
	"container/heap"
	"sync"
	"time"
)

// An alarm wakes those who sleep when their time is over. All of a session have one timer, since one for each takes 128
// bytes, and half a KiB for a goroutine when it rings: those of callers that began together ring together.
type alarm struct {
	base time.Time // of now

	mu    sync.Mutex // guards the rest, and of a waiter until and at
	due   sleepers
	timer *time.Timer   // nil until somebody sleeps
	rings time.Duration // when it does; 0: it does not
}

func newAlarm() *alarm { return &alarm{base: time.Now()} }

func (a *alarm) now() time.Duration { return time.Since(a.base) }

// set has a waiter woken in d, until stop.
func (a *alarm) set(w *Waiter, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	w.until = now + d
	heap.Push(&a.due, w)
	a.reset(now)
}

// stop ends set. The timer goes on, as others sleep for as long: it does no harm if it rings for nobody.
func (a *alarm) stop(w *Waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.at < len(a.due) && a.due[w.at] == w {
		heap.Remove(&a.due, w.at)
	}
}

// reset makes the timer ring no later than the first is due. mu is held.
func (a *alarm) reset(now time.Duration) {
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
func (a *alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rings = 0
	for now := a.now(); len(a.due) > 0; {
		if a.due[0].until > now {
			a.reset(now)
			return
		}
		heap.Pop(&a.due).(*Waiter).wake(Timer)
	}
}

// sleepers are a heap: the first is the one whose sleep ends first.
type sleepers []*Waiter

func (s sleepers) Len() int           { return len(s) }
func (s sleepers) Less(i, j int) bool { return s[i].until < s[j].until }

func (s sleepers) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = i, j
}

// Push is for package heap.
func (s *sleepers) Push(w any) {
	w.(*Waiter).at = len(*s)
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
