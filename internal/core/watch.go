package core

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// watches are what callers of a session wait for together: however many wait for the same thing,
// one goroutine looks, once for each event, and has one subscription.
type watches struct {
	session *Session

	mu  sync.Mutex // guards the rest, and all watches
	all map[watchKey]*watch
}

func (ws *watches) init(s *Session) { ws.session, ws.all = s, make(map[watchKey]*watch) }

// A watchKey is what makes those who wait wait for the same.
type watchKey struct{ kind, key string }

// A Look is how one sees whether a wait is over.
type Look struct {
	Call func() *script.Call
	Over func(c *script.Call) (bool, error) // reads the reply
}

// A watch is what some callers wait for.
type watch struct {
	object *Object
	look   Look
	waiter *wait.Waiter
	cancel context.CancelFunc

	callers int
	joining *cohort   // who has come since the last look was sent
	waiting []*cohort // who had come before
	heard   int       // events
	known   int       // of which a look has told: what it saw is true but for a message that is under way; -1: none has
}

// A cohort is callers who came between the same two looks.
type cohort struct {
	size  int
	waits chan struct{} // closed when a look has found nothing
	told  bool          // that it is
	done  chan struct{}
	err   error // when done
}

// Await waits until a look says that it is over, which it then was at some moment of the call; or
// until ctx ends. One looks at first, after every message on the object's channel, and when a
// message may have been lost; for all callers of the session together, so under the ctx of none.
func (o *Object) Await(ctx context.Context, operation string, look Look) (err error) {
	if err := o.begin(ctx, operation); err != nil {
		return err
	}
	s := o.session
	defer s.calls.leave()
	var p patience
	p.about(ctx, o)
	defer func() { p.tell(err) }()
	w, c := s.watches.join(o, look)
	defer s.watches.leave(w)
	waits := c.waits
	for {
		select {
		case <-waits:
			waits = nil
			defer o.waiting()()
		case <-c.done:
			if c.err != nil {
				return o.Fail(operation, explain(context.Background(), c.err))
			}
			return nil
		case <-ctx.Done():
			return o.Fail(operation, stopped(ctx))
		case <-s.closing:
			return o.Fail(operation, ErrClosed)
		}
	}
}

// join has one more caller wait, and returns the cohort that is told.
func (ws *watches) join(o *Object, look Look) (*watch, *cohort) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	key := watchKey{o.Kind, o.key}
	w := ws.all[key]
	if w == nil {
		var ctx context.Context
		w = &watch{object: o, look: look, waiter: wait.NewWaiter(ws.session.closing), joining: newCohort(), known: -1}
		ctx, w.cancel = context.WithCancel(ws.session.ctx)
		ws.all[key] = w
		ws.session.start(func() { ws.run(ctx, w) })
	} else if w.known != w.heard {
		w.waiter.Wake()
	}
	w.callers++
	w.joining.size++
	return w, w.joining
}

func newCohort() *cohort {
	return &cohort{waits: make(chan struct{}), done: make(chan struct{})}
}

// leave ends the wait of one caller; with the last one nobody looks any more.
func (ws *watches) leave(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.callers--; w.callers == 0 {
		ws.end(w)
	}
}

// end ends a watch that nobody waits for. ws.mu is held.
func (ws *watches) end(w *watch) {
	w.cancel()
	if key := (watchKey{w.object.Kind, w.object.key}); ws.all[key] == w {
		delete(ws.all, key)
	}
}

// run looks until nobody waits any more.
func (ws *watches) run(ctx context.Context, w *watch) {
	stop, listening := func() {}, false
	defer func() { stop() }()
	delay := firstRetry
	for ctx.Err() == nil {
		event := ws.beforeLook(w)
		over, err := ws.once(ctx, w.look)
		switch {
		case script.IsTemporary(err) && ctx.Err() == nil:
			ws.session.config.Logger.Debug("holdfast: waiting for the server", "kind", w.object.title(), "name", w.object.Name, "error", err)
			_ = w.waiter.Sleep(ctx, delay)
			delay = min(2*delay, lastRetry)
			continue
		case over || err != nil:
			ws.tell(w, err)
		case listening:
			ws.note(w, event)
		default:
			ws.note(w, -1)
		}
		delay = firstRetry
		if !listening {
			listening = true
			stop = ws.session.hub.Listen(w.object.Channel, func() { ws.hear(w) }).Close
		}
		if w.waiter.Sleep(ctx, wait.Interval(-1)) == nil {
			w.object.woken(w.waiter.Cause())
		}
	}
}

// once looks.
func (ws *watches) once(ctx context.Context, look Look) (over bool, err error) {
	c := look.Call()
	defer c.Free()
	if err := ws.session.runner.Run(ctx, script.Take, c); err != nil {
		return false, err
	}
	return look.Over(c)
}

// beforeLook has those who have come so far be told of the look that is about to be sent.
func (ws *watches) beforeLook(w *watch) (event int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.joining.size > 0 {
		w.waiting = append(w.waiting, w.joining)
		w.joining = newCohort()
	}
	return w.heard
}

// tell lets those go who had come before the look.
func (ws *watches) tell(w *watch, err error) {
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
		return
	}
	w.waiter.Wake()
}

// note takes in that a look which was sent after so many events, if those are heard of, has found nothing.
func (ws *watches) note(w *watch, event int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.known = event
	for _, c := range w.waiting {
		if !c.told {
			c.told = true
			close(c.waits)
		}
	}
}

// hear takes in an event: a message, or a subscription that stands.
func (ws *watches) hear(w *watch) {
	ws.mu.Lock()
	w.heard++
	ws.mu.Unlock()
	w.waiter.Wake()
}
