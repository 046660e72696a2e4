package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
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
	assert.Equal(t, `a\*b\?\[c\]\\`, literal(`a*b?[c]\`))
}

func TestPictureCountsNames(t *testing.T) {
	t.Parallel()
	l := &listing{redis: &cli.Redis{}}
	require.Contains(t, l.picture(look{all: 1, denied: 1}), "  1 name, read in 0s, the first 0 shown, 1 key may not be read")
	require.Contains(t, l.picture(look{all: 2, denied: 2}), "  2 names, read in 0s, the first 0 shown, 2 keys may not be read")
}
