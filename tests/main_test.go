package tests

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails the run when a goroutine is left behind.
func TestMain(m *testing.M) {
	childMain()
	go running.run()
	code := m.Run()
	if code == 0 {
		if left := goroutinesLeft(5 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// goroutinesLeft waits for all goroutines but this one to end, and describes those that do
// not. What the client does in the background after its Close ends by itself soon.
func goroutinesLeft(within time.Duration) string {
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		buf := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(stack, "tests.goroutinesLeft") && !strings.Contains(stack, "tests.(*metronome)") && !strings.Contains(stack, "os/signal.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}
