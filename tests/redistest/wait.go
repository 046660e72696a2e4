package redistest

import (
	"testing"
	"time"
)

const (
	startTimeout = 20 * time.Second     // for a process to answer, on a busy machine
	waitTimeout  = 30 * time.Second     // for servers to agree, or messages to arrive
	replyTimeout = 10 * time.Second     // for one reply to the observer
	pollInterval = 5 * time.Millisecond // between looks at a server's state
)

// await polls until state is empty. A non-empty state says what is still missing; the last one is reported when the
// deadline passes.
func await(t testing.TB, what string, state func() string) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for {
		missing := state()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v: %s", what, waitTimeout, missing)
		}
		time.Sleep(pollInterval)
	}
}
