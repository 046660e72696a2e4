package rlock_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The resource that the page on guarantees shows is the one of the example, word for word.
func TestFencingIsShownAsItIsTested(t *testing.T) {
	page, err := os.ReadFile("../docs/guarantees.md")
	require.NoError(t, err)
	code, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, shown, 1)
	assert.Contains(t, string(code), shown[0][1])
}
