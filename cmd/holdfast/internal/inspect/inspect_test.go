package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

func TestPictureCountsNames(t *testing.T) {
	t.Parallel()
	l := &listing{redis: &cli.Redis{}}
	require.Contains(t, l.picture(look{width: 120, all: 1, denied: 1}),
		"  1 name, read in 0s, the first 0 shown, 1 key may not be read")
	require.Contains(t, l.picture(look{width: 120, all: 2, denied: 2}),
		"  2 names, read in 0s, the first 0 shown, 2 keys may not be read")
}
