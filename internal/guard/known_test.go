package guard

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKnownScriptsAreBounded(t *testing.T) {
	var k scripts
	first := k.of("return 0")
	assert.Same(t, first, k.of("return 0"))
	for i := range 2 * mostKnown {
		k.of("return " + strconv.Itoa(i))
	}
	assert.LessOrEqual(t, len(k.byText), mostKnown)
}
