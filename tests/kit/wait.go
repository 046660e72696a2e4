package kit

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// LongestWait bounds how long a waiter sleeps without looking, whatever messages are lost: 5 s plus a fifth, and a
// margin for a busy machine.
const LongestWait = 6*time.Second + 500*time.Millisecond

// Told bounds how long a waiter takes that is told, on a busy machine: one that is not looks after 4 s.
const Told = 3 * time.Second

// SleepUntil waits until a moment, for tests in which the passing of time itself matters.
func SleepUntil(until time.Time) { <-time.After(time.Until(until)) }

// Await waits until holds returns true; what names that in the failure.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	AwaitFor(t, 30*time.Second, what, holds)
}

// AwaitFor is Await for up to the time d.
func AwaitFor(t testing.TB, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); redistest.Pause(began) {
		if time.Since(began) > d {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// AwaitSoon is AwaitFor without the time in which this process stands still.
func AwaitSoon(t testing.TB, d time.Duration, what string, holds func() bool) {
	t.Helper()
	took := Stopwatch()
	for began := time.Now(); !holds(); redistest.Pause(began) {
		if took() > d {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// Closed reports whether a channel is closed to which nothing is sent.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Within receives from c or fails the test.
func Within[T any](t testing.TB, d time.Duration, c <-chan T, what string) T {
	t.Helper()
	v, ok := Receive(d, c)
	if !ok {
		t.Fatalf("%s: not within %v", what, d)
	}
	return v
}

// Receive receives from c, or reports that nothing has come within d.
func Receive[T any](d time.Duration, c <-chan T) (v T, ok bool) {
	for watch, left := Stopwatch(), d; left > 0; left = d - watch() {
		select {
		case v := <-c:
			return v, true
		case <-time.After(left):
		}
	}
	return v, false
}
