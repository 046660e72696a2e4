package interop_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// shared is the JVM of all tests but those that kill or pause one. Each test has clients of its own in it.
var shared struct {
	once sync.Once
	java *interop.Java
	err  error
}

// sharedJava is the JVM that the tests share, started by the first that asks.
func sharedJava(tb testing.TB) *interop.Java {
	tb.Helper()
	shared.once.Do(func() { shared.java, shared.err = interop.Launch() })
	interop.Require(tb, shared.err)
	return shared.java
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
	if shared.java != nil {
		shared.java.Close()
		if code != 0 {
			fmt.Printf("the shared JVM's log:\n%s\n", shared.java.Log())
		}
	}
	os.Exit(code)
}
