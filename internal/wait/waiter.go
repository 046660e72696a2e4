// Package wait is how callers wait: a sleeper that is woken by hints and by a timer, and the local queue in front of a
// contended name, in which only the first looks at the server.
package wait

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// longest is how long at most a waiter sleeps, give or take a fifth: messages get lost.
const longest = 5 * time.Second

// Interval returns how long to sleep when the present lease lasts for at least another d; below zero it is not known
// how long. A little is added so that the server's expiry comes first, and chance spreads those who wait for the same
// moment (guarantee G5).
func Interval(d time.Duration) time.Duration {
	limit := longest - longest/5 + rand.N(2*longest/5)
	if d < 0 || d >= limit {
		return limit
	}
	return min(d+time.Millisecond+rand.N(time.Millisecond+d/64), limit)
}

// ErrClosed is why a wait ends when its session is closed.
var ErrClosed = errors.New("wait: session closed")

// A Waiter is one sleeping caller. Wake may be called by anybody, Sleep by its owner alone.
type Waiter struct {
	hint  chan struct{} // capacity 1: wake-ups coalesce, none is lost. (A cause in it would be 16 bytes more for each)
	alarm *Alarm
	until time.Duration // the sleep ends, or rung; of the alarm
	at    int32         // among those who sleep; of the alarm
	cause Cause
}

// A Cause is why a sleep ended.
type Cause uint8

// The causes.
const (
	Hint  Cause = iota // somebody called Wake
	Timer              // the time was over
	Turn               // of a [Place]: it has become the first
)

// Cause returns the cause of the last sleep that returned nil. It is the owner's to ask.
func (w *Waiter) Cause() Cause { return w.cause }

// NewWaiter returns a waiter that nobody has woken yet.
func NewWaiter(a *Alarm) Waiter { return Waiter{hint: make(chan struct{}, 1), alarm: a} }

// Wake ends the present Sleep, or the next one. It does not block.
func (w *Waiter) Wake() { w.wake() }

// wake reports whether there was no other wake-up to come.
func (w *Waiter) wake() (first bool) {
	select {
	case w.hint <- struct{}{}:
		return true
	default:
		return false
	}
}

// Sleep returns nil after a wake-up or after d. Otherwise it returns why ctx ended, or
// [ErrClosed]. (The alarm ends it when the session is closed: another channel here would be 112 bytes for each.)
func (w *Waiter) Sleep(ctx context.Context, d time.Duration) error {
	if len(w.hint) > 0 && ctx.Err() == nil { // it takes no timer to see that
		<-w.hint
		w.cause = Hint
		return nil
	}
	w.alarm.set(w, d)
	var err error
	select {
	case <-w.hint:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cause, closed := w.alarm.stop(w)
	switch {
	case err != nil:
	case closed:
		err = ErrClosed
	default:
		w.cause = cause
	}
	return err
}
