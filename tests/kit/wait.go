package kit

import (
	"testing"
	"time"
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
	AwaitFor(t, 20*time.Second, what, holds)
}

// AwaitFor is Await for up to the time d.
func AwaitFor(t testing.TB, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, d)
		}
	}
}

// Within receives from c or fails the test.
func Within[T any](t testing.TB, d time.Duration, c <-chan T, what string) T {
	t.Helper()
	for watch, left := Stopwatch(), d; left > 0; left = d - watch() {
		select {
		case v := <-c:
			return v
		case <-time.After(left):
		}
	}
	t.Fatalf("%s: not within %v", what, d)
	panic("unreachable")
}
