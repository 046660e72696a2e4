package holders

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A State is the state of a lock.
type State int

// The states.
const (
	IsFree State = iota
	IsHeld
	HasExpired // is free, because a lease ran out
)

const untold State = -1

// Watch reports the state of a lock, and then each state that a look finds changed, until tell returns false, ctx ends,
// or a look fails. It calls tell on the caller's goroutine.
func Watch(ctx context.Context, l *core.Lock, tell func(State) bool) error {
	w := &watcher{
		Lone: wait.Lone{Place: l.Session().Lines().Apart(l.Line())},
		lock: l, tell: tell, told: untold, silence: func() {},
	}
	defer func() { w.silence() }()
	return wait.Until(ctx, ctx, true, w)
}

const watching = "watch"

// A watcher is one caller that watches.
type watcher struct {
	wait.Lone
	lock    *core.Lock
	tell    func(State) bool
	told    State
	listens bool
	silence func()        // ends that it listens
	delay   time.Duration // after the last look, if that failed

	until    time.Duration // how long the lock stays taken, as the last look knew that found it so
	released bool          // a release was heard of since then
	hears    atomic.Bool   // and since the last look was sent
}

// Attempt looks once.
func (w *watcher) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	w.released = w.hears.Swap(false) || w.released
	asked := w.lock.Session().Now()
	holders, left, err := Inspect(ctx, w.lock, "", watching)
	looked := w.lock.Session().Now()
	switch {
	case err != nil && ctx.Err() != nil:
		return true, 0, w.Interrupted(ctx, ctx.Err())
	case session.Passes(err):
		w.delay = wait.Retry(w.delay)
		return false, w.delay, nil
	case err != nil:
		return true, 0, err
	}
	w.delay = 0
	if !w.listens {
		w.listens, w.silence = true, w.listen()
	}
	state := w.found(len(holders) > 0, left, asked, looked)
	if state != w.told {
		w.told = state
		if !w.tell(state) {
			return true, 0, nil
		}
	}
	if state != IsHeld {
		left = -1
	}
	return false, max(wait.Interval(left)-(w.lock.Session().Now()-looked), 0), nil
}

// found is the state that a look has found between two moments. A lock that is free has expired if the time is over for
// which it was held when the last look found it so, and no release was heard of since.
func (w *watcher) found(held bool, left, asked, looked time.Duration) State {
	switch released := w.released || w.hears.Load(); {
	case held:
		if left < 0 {
			left = session.Forever
		}
		w.until, w.released = lease.Add(asked, left), false
		return IsHeld
	case !released && (w.told == HasExpired || w.told == IsHeld && looked >= w.until):
		return HasExpired
	}
	return IsFree
}

// listen makes the messages of the lock's channel wake the watcher.
func (w *watcher) listen() (stop func()) {
	s := w.lock.Session()
	silence := s.Hear(w.lock.Channel, func(message string) {
		if message == "0" || message == "1" {
			w.hears.Store(true)
		}
		w.Place.Wake()
	})
	l, ok := w.lock.Protocol().(interface{ Mark() string })
	if !ok || l.Mark() == "" {
		return silence
	}
	// A release is not to take the watcher for one that waits. The mark comes second, see [wait.Standing].
	unmark := s.Listen(l.Mark(), func() {})
	return func() {
		unmark()
		silence()
	}
}

// Interrupted makes the error of why a sleep was cut short.
func (w *watcher) Interrupted(ctx context.Context, why error) error {
	if errors.Is(why, wait.ErrClosed) {
		return w.lock.Fail(watching, session.ErrClosed)
	}
	return w.lock.Fail(watching, session.Stopped(ctx))
}
