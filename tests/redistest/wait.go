package redistest

import (
	"testing"
	"time"
)

const (
	startTimeout = 20 * time.Second     // for a process to answer, on a busy machine
	waitTimeout  = 30 * time.Second     // for servers to agree, or messages to arrive
	tiltTimeout  = 2 * waitTimeout      // for sentinels, which do nothing for 30 s after they stood still for 2 s
	replyTimeout = 10 * time.Second     // for one reply to the observer
	pollInterval = 5 * time.Millisecond // between looks at a server that starts
	testTimeout  = 5 * time.Minute      // for a test, on a machine that is very busy
)

// await polls until state is empty. A non-empty state says what is still missing; the last one is reported when the
// deadline passes.
func await(t testing.TB, what string, state func() string) {
	t.Helper()
	awaitFor(t, waitTimeout, what, state)
}

// awaitFor is await for up to the time d.
func awaitFor(t testing.TB, d time.Duration, what string, state func() string) {
	t.Helper()
	for began := time.Now(); ; Pause(began) {
		missing := state()
		if missing == "" {
			return
		}
		if time.Since(began) > d {
			t.Fatalf("%s: not after %v: %s", what, d, missing)
		}
	}
}

// Pause passes the time between two looks. It gets longer the longer a test has waited: a look costs the machine, on
// which other tests wait at the same time.
func Pause(began time.Time) {
	time.Sleep(min(2*time.Millisecond+time.Since(began)/20, 20*time.Millisecond))
}

// Limit fails the test if it has not ended after five minutes, and calls end, which should end whatever the test
// waits for: a session's Close, for example, ends every wait in it. So a test that hangs fails by itself, and hides
// no other.
func Limit(t testing.TB, end func()) {
	t.Helper()
	limit(t, testTimeout, end)
}

func limit(t testing.TB, d time.Duration, end func()) {
	t.Helper()
	told := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		t.Errorf("the test has not ended within %v; what it waits for is ended", d)
		close(told)
		end()
	})
	t.Cleanup(func() {
		if !timer.Stop() {
			<-told
		}
	})
}

// Receive receives from c, or ends the test.
func Receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(waitTimeout):
		t.Fatalf("%s: not within %v", what, waitTimeout)
		panic("unreachable")
	}
}
