package locks

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

func TestMain(m *testing.M) {
	kit.Main(m, map[string]func([]string){
		"queuer":  queuer,
		"visitor": visitor,
		"mortal":  mortal,
		"ring":    kit.RingOwner,

		"waits in line": waitInLine,
	})
}
