// Package kit is what tests of locks share: the table of kinds, sessions that end with the test, waits with a time
// limit, servers that fail together, and what a worker process needs. The servers themselves are in redistest.
package kit

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// Orders is the lock that most tests are about.
const Orders = "orders"

// Main is the TestMain of a package. It plays one of the roles if this process is a worker of a test, and fails the
// run if a goroutine is left behind.
func Main(m *testing.M, roles map[string]func(args []string)) {
	worker.Run(roles)
	running.start()
	code := m.Run()
	if code == 0 {
		if left := GoroutinesLeft(10 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// GoroutinesLeft waits for all goroutines but this one to end, and describes those that do not. What the client does
// in the background after its Close ends by itself: that of a cluster sleeps for 5 s before it closes connections.
func GoroutinesLeft(within time.Duration) string {
	buf := make([]byte, 1<<20)
	for began, took := time.Now(), Stopwatch(); ; redistest.Pause(began) {
		var left []string
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(stack, "kit.GoroutinesLeft") && !strings.Contains(stack, "kit.(*metronome)") &&
				!strings.Contains(stack, "os/signal.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || took() > within {
			return strings.Join(left, "\n\n")
		}
	}
}

// Racing reports whether the race detector is on, which also allocates.
func Racing() bool {
	build, _ := debug.ReadBuildInfo()
	return slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Stressed returns the longer of two lengths of a random test if HOLDFAST_STRESS is set, as it is in CI.
func Stressed(usually, longer int) int {
	if os.Getenv("HOLDFAST_STRESS") != "" {
		return longer
	}
	return usually
}
