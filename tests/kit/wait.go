package kit

import (
	"testing"
	"time"
)

// LongestWait is how long nobody sleeps without a look, whatever messages are lost: 5 s and a fifth, and some time to
// be late in.
const LongestWait = 6*time.Second + 500*time.Millisecond

// SleepUntil waits until a moment, the passing of which is what matters.
func SleepUntil(until time.Time) { <-time.After(time.Until(until)) }

// Await waits until holds is true; what says of what.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	AwaitFor(t, 20*time.Second, what, holds)
}

// AwaitFor is Await of what may take so long.
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
