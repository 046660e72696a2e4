package history

import (
	"flag"
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// A history of twelve processes takes a machine for itself, and what gets no processor has no outcomes: two at once.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "2")
	kit.Main(m, map[string]func([]string){
		"sleeper":     sleeper,
		"contender":   contender,
		"counter":     counter,
		"historian":   historian,
		"leaser":      leaser,
		"rwHistorian": rwHistorian,
	})
}
