package holdfasttest_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// A fakeTest stands for a test whose failures are tested.
type fakeTest struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (f *fakeTest) Helper()          {}
func (f *fakeTest) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fakeTest) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *fakeTest) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

// run runs a test to its end, and its cleanups.
func (f *fakeTest) run(test func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		test()
	}()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		f.Fatal("the test has not ended")
	}
	f.end()
}

func (f *fakeTest) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
	f.cleanups = nil
}
