package wait_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// These are the names in the tests; their channels are called like their keys.
var x, y = wait.Name{Channel: "x", Key: "x"}, wait.Name{Channel: "y", Key: "y"}

// lines has queues in a bubble, and watches their subscriptions.
type lines struct {
	*wait.Lines
	t     *testing.T
	began time.Time
	alarm *wait.Alarm

	mu      sync.Mutex
	wakes   map[string][]func(message string) // by channel, for its present subscriptions
	begun   map[string]int                    // subscriptions that were ever begun
	up      map[string]bool                   // those that were confirmed
	confirm bool                              // a new subscription is confirmed, as by the hub
	during  func()                            // happens, once, while the next one is begun
}

// newLines is for use in a bubble, which fails the test if a goroutine is left.
func newLines(t *testing.T) *lines {
	t.Helper()
	q := &lines{
		t: t, began: time.Now(), alarm: wait.NewAlarm(),
		wakes: map[string][]func(string){}, begun: map[string]int{}, up: map[string]bool{},
	}
	q.Lines = wait.NewLines(q.listen, q.alarm)
	q.Subscribed = func(channel string) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.up[channel]
	}
	return q
}

func (q *lines) close() { q.alarm.Close() }

// ear is an ear that the function closes.
type ear func()

func (e ear) Close() { e() }

func (q *lines) listen(channel string, h wait.Hearer) wait.Ear {
	q.mu.Lock()
	q.begun[channel]++
	i := len(q.wakes[channel])
	q.wakes[channel] = append(q.wakes[channel], h.Hear)
	q.up[channel] = q.up[channel] || q.confirm
	during := q.during
	q.during = nil
	q.mu.Unlock()
	if q.confirm {
		h.Hear("")
	}
	if during != nil {
		during()
	}
	return ear(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.wakes[channel][i] = nil
	})
}

// happens makes something happen while the next subscription is begun.
func (q *lines) happens(during func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.during = during
}

// publish wakes the subscriptions of a channel, as a message does.
func (q *lines) publish(channel string) { q.tell(channel, "0") }

// tell gives a message to the subscriptions of a channel.
func (q *lines) tell(channel, message string) {
	q.mu.Lock()
	q.up[channel] = q.up[channel] || message == ""
	var wakes []func(string)
	for _, wake := range q.wakes[channel] {
		if wake != nil {
			wakes = append(wakes, wake)
		}
	}
	q.mu.Unlock()
	for _, wake := range wakes {
		wake(message)
	}
}

// standing counts the subscriptions of a channel that have begun and not ended.
func (q *lines) standing(channel string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, wake := range q.wakes[channel] {
		if wake != nil {
			n++
		}
	}
	return n
}

// wait waits in a place and returns how long it took.
func (q *lines) wait(p *wait.Place, d time.Duration) time.Duration {
	q.t.Helper()
	began := time.Now()
	require.NoError(q.t, p.Wait(q.t.Context(), d))
	return time.Since(began)
}

// A waiting is a Wait in a goroutine.
type waiting struct {
	result chan error
	ended  time.Time
}

func (q *lines) goWait(p *wait.Place, d time.Duration) *waiting {
	return q.goWaitCtx(q.t.Context(), p, d)
}

// goWaitCtx returns once the goroutine waits.
func (q *lines) goWaitCtx(ctx context.Context, p *wait.Place, d time.Duration) *waiting {
	w := &waiting{result: make(chan error, 1)}
	go func() {
		err := p.Wait(ctx, d)
		w.ended = time.Now()
		w.result <- err
	}()
	synctest.Wait()
	return w
}

// err waits for the end of the wait.
func (w *waiting) err() error { return <-w.result }

func (w *waiting) done() bool {
	synctest.Wait()
	return len(w.result) > 0
}
