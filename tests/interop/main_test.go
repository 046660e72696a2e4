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

// spare are JVMs of [ownJava] that no test has now.
var spare struct {
	sync.Mutex
	idle []*interop.Java
}

// ownJava is a JVM that no other test has meanwhile, so it may be paused and killed. One that lives on is the next
// one's.
func ownJava(t *testing.T) *interop.Java {
	t.Helper()
	spare.Lock()
	defer spare.Unlock()
	var java *interop.Java
	if last := len(spare.idle) - 1; last >= 0 {
		java, spare.idle = spare.idle[last], spare.idle[:last]
	} else {
		var err error
		java, err = interop.Launch("")
		interop.Require(t, err)
	}
	t.Cleanup(func() {
		switch {
		case t.Failed():
			java.Close()
			t.Logf("the JVM's log:\n%s", java.Log())
		case !java.Ended():
			spare.Lock()
			defer spare.Unlock()
			spare.idle = append(spare.idle, java)
		}
	})
	return java
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
	for _, java := range spare.idle {
		java.Close()
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
