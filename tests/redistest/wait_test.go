package redistest

import (
	"fmt"
	"testing"
	"time"
)

// hanging stands for a test that hangs: it goes on when it is failed.
type hanging struct {
	testing.TB
	failure  string
	cleanups []func()
}

func (h *hanging) Helper()                        {}
func (h *hanging) Cleanup(f func())               { h.cleanups = append(h.cleanups, f) }
func (h *hanging) Errorf(format string, a ...any) { h.failure = fmt.Sprintf(format, a...) }

func TestATestThatHangsFailsAndEnds(t *testing.T) {
	t.Parallel()
	h, forever := &hanging{TB: t}, make(chan struct{})
	limit(h, 10*time.Millisecond, func() { close(forever) })
	Receive(t, forever, "the end")
	h.cleanups[0]()
	if want := "the test has not ended within 10ms; what it waits for is ended"; h.failure != want {
		t.Fatalf("%q, not %q", h.failure, want)
	}
}

func TestATestThatEndsIsLeftAlone(t *testing.T) {
	t.Parallel()
	h, over := &hanging{TB: t}, false
	limit(h, time.Hour, func() { over = true })
	h.cleanups[0]()
	if h.failure != "" || over {
		t.Fatal(h.failure, over)
	}
}
