package interop_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A sharedJVM is the JVM of all tests with one release of Redisson but those that kill or pause one. Each test has
// clients of its own in it.
type sharedJVM struct {
	release string
	once    sync.Once
	java    *interop.Java
	err     error
}

var shared = []*sharedJVM{{}, {release: firstOf4}, {release: lastOf3}, {release: lastSoundReads}}

// sharedJava is the JVM that the tests share, started by the first that asks.
func sharedJava(tb testing.TB) *interop.Java {
	tb.Helper()
	return sharedRelease(tb, "")
}

// sharedRelease is sharedJava with another release of Redisson.
func sharedRelease(tb testing.TB, release string) *interop.Java {
	tb.Helper()
	s := shared[slices.IndexFunc(shared, func(s *sharedJVM) bool { return s.release == release })]
	s.once.Do(func() { s.java, s.err = interop.Launch(release) })
	interop.Require(tb, s.err)
	return s.java
}

func TestMain(m *testing.M) {
	worker.Run(map[string]func([]string){
		"loner": beLoner, "victim": beVictim, "hoarder": beHoarder,
		"stressed": beStressed, "racer": beRacer,
	})
	code := m.Run()
	if !report() && code == 0 {
		code = 1
	}
	for _, s := range shared {
		if s.java == nil {
			continue
		}
		s.java.Close()
		if code != 0 {
			fmt.Printf("the log of the shared JVM with Redisson %q:\n%s\n", s.release, s.java.Log())
		}
	}
	os.Exit(code)
}
