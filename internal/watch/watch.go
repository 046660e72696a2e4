// Package watch lets callers wait together until something is over that many may wait for at once and that nobody
// takes away, such as a closed latch. However many of a session wait for the same thing, one goroutine looks, once
// for each event, and has one subscription.
package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Subject is what callers wait for: those with the same key wait together.
type Subject struct {
	Key     any
	Look    func(ctx context.Context) (over bool, err error)
	Listen  func(wake func()) (stop func()) // subscribes to what ends a wait
	Woken   func(by wait.Cause)             // is called with the reason when a sleep ended
	Trouble func(err error)                 // is called with the error of a look that is worth repeating
}

// Watches are what callers of a session wait for.
type Watches struct {
	ctx   context.Context //nolint:containedctx // the life of the session's goroutines
	alarm *wait.Alarm
	start func(f func()) bool

	mu  sync.Mutex // guards the rest, and all watches
	all map[any]*watch
}

// New returns the watches of a session. Their goroutines are started by start, end with ctx and do not sleep once
// the alarm is closed.
func New(ctx context.Context, a *wait.Alarm, start func(f func()) bool) *Watches {
	return &Watches{ctx: ctx, alarm: a, start: start, all: make(map[any]*watch)}
}

// A watch is what some callers wait for.
type watch struct {
	wait.Lone
	subject Subject
	cancel  context.CancelFunc

	callers int
	joining *cohort   // waiters that have come since the last look was sent
	waiting []*cohort // waiters that had come before
	heard   int       // events
	known   int       // of which a look has told: what it saw is true but for a message that is under way; -1: none has
}

// A cohort is callers who came between the same two looks. One that all have left is forgotten.
type cohort struct {
	size  int           // those who have not left
	waits chan struct{} // closed when a look has found nothing
	told  bool          // that it is
	done  chan struct{}
	err   error // when done
}

func newCohort() *cohort {
	return &cohort{waits: make(chan struct{}), done: make(chan struct{})}
}

// tell says that a look has found nothing. The mutex is held.
func (c *cohort) tell() {
	if !c.told {
		c.told = true
		close(c.waits)
	}
}

// A Caller waits. Leave it.
type Caller struct {
	watches *Watches
	watch   *watch
	cohort  *cohort
}

// Waits is closed when a look has found that the caller must wait: one that was sent after it had come, or the last one
// before, if nothing has been heard since.
func (c *Caller) Waits() <-chan struct{} { return c.cohort.waits }

// Done is closed when the wait is over, or has failed.
func (c *Caller) Done() <-chan struct{} { return c.cohort.done }

// Err is why the wait has failed, once it is done.
func (c *Caller) Err() error { return c.cohort.err }

// Leave ends the wait of one caller; when the last one has left, nobody looks any more.
func (c *Caller) Leave() {
	c.watches.mu.Lock()
	defer c.watches.mu.Unlock()
	c.cohort.size--
	if c.watch.callers--; c.watch.callers == 0 {
		c.watches.end(c.watch)
	}
}

// Join adds a caller. Its wait is over when a look says so, which is then true at some moment after Join was called.
// A look comes at first, after every message, and when a message may have been lost; for all callers together, so
// under the ctx of none.
func (ws *Watches) Join(s Subject) *Caller {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[s.Key]
	if w == nil {
		var ctx context.Context
		w = &watch{Lone: wait.Lone{Place: wait.Alone(ws.alarm)}, subject: s, joining: newCohort(), known: -1}
		ctx, w.cancel = context.WithCancel(ws.ctx)
		ws.all[s.Key] = w
		ws.start(func() { ws.run(ctx, w) })
	} else if w.known != w.heard {
		w.Place.Wake()
	} else {
		w.joining.tell()
	}
	w.callers++
	w.joining.size++
	return &Caller{watches: ws, watch: w, cohort: w.joining}
}

// end ends a watch that nobody waits for. ws.mu is held.
func (ws *Watches) end(w *watch) {
	w.cancel()
	if ws.all[w.subject.Key] == w {
		delete(ws.all, w.subject.Key)
	}
}

// run looks until nobody waits any more.
func (ws *Watches) run(ctx context.Context, w *watch) {
	l := &looker{watch: w, watches: ws}
	defer func() {
		if l.stop != nil {
			l.stop()
		}
	}()
	_ = wait.Until(ctx, ctx, true, l)
}

// A looker is the goroutine of a watch.
type looker struct {
	*watch
	watches *Watches
	stop    func()        // ends that it listens; nil: nothing listens yet
	delay   time.Duration // after the last look, if that failed
}

// Attempt looks once.
func (l *looker) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	ws, w := l.watches, l.watch
	event := ws.beforeLook(w)
	over, err := w.subject.Look(ctx)
	switch {
	case ctx.Err() != nil:
		return true, 0, nil // nobody is there to be told
	case script.IsTemporary(err):
		apart(func() { w.subject.Trouble(err) })
		l.delay = wait.Retry(l.delay)
		return false, l.delay, nil
	case over || err != nil:
		if !ws.tell(w, err) {
			return true, 0, nil
		}
	case event > 0: // the first one is that the subscription stands
		ws.note(w, event)
	default:
		ws.note(w, -1)
	}
	l.delay = 0
	if l.stop == nil {
		l.stop = w.subject.Listen(func() { ws.hear(w) })
	}
	return false, wait.Interval(-1), nil
}

// Woken reports why a sleep ended.
func (l *looker) Woken(by wait.Cause) { apart(func() { l.subject.Woken(by) }) }

// apart calls the user's code in a goroutine of its own: if that code ends it, the callers must not wait for ever.
func apart(call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	<-done
}

// beforeLook assigns the waiters that have come so far to the look that is about to be sent.
func (ws *Watches) beforeLook(w *watch) (event int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.waiting = slices.DeleteFunc(append(w.waiting, w.joining), func(c *cohort) bool { return c.size == 0 })
	w.joining = newCohort()
	return w.heard
}

// tell lets the waiters go that had come before the look, and reports whether others have come since.
func (ws *Watches) tell(w *watch, err error) (others bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, c := range w.waiting {
		c.err = err
		close(c.done)
	}
	w.waiting = nil
	w.known = -1
	if w.joining.size == 0 {
		ws.end(w)
		return false
	}
	w.Place.Wake()
	return true
}

// note records that a look sent after that event found nothing; -1 if events are not heard of.
func (ws *Watches) note(w *watch, event int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.known = event
	for _, c := range w.waiting {
		c.tell()
	}
}

// hear records an event: a message, or a subscription that stands.
func (ws *Watches) hear(w *watch) {
	ws.mu.Lock()
	w.heard++
	ws.mu.Unlock()
	w.Place.Wake()
}
