package survey

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRecentIsBounded(t *testing.T) {
	r := newRecent()
	assert.True(t, r.add("first"))
	assert.False(t, r.add("first"))
	for i := range 3 * generation {
		r.add(string(rune(i)) + "x")
	}
	assert.LessOrEqual(t, len(r.younger)+len(r.older), 2*generation)
	assert.True(t, r.add("first"), "forgotten by now")
}

func TestLiteral(t *testing.T) {
	assert.Equal(t, `a\*b\?\[c\]\\`, Literal(`a*b?[c]\`))
}
