package locks

import (
	"flag"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// Most of these tests wait, and no package takes longer: half as many again at once as of another.
func TestMain(m *testing.M) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if n, err := strconv.Atoi(parallel.Value.String()); err == nil {
		_ = parallel.Value.Set(strconv.Itoa(n + n/2))
	}
	kit.Main(m, map[string]func([]string){
		"queuer":  queuer,
		"visitor": visitor,
		"mortal":  mortal,
		"ring":    kit.RingOwner,

		"waits in line": waitInLine,
	})
}
