package history

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func([]string){
		"sleeper":     sleeper,
		"contender":   contender,
		"counter":     counter,
		"historian":   historian,
		"leaser":      leaser,
		"rwHistorian": rwHistorian,
	})
}
