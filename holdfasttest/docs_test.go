package holdfasttest_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Go code of the page is in tests that run, word for word.
func TestThePageShowsTheseTests(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	require.NoError(t, err)
	code, err := os.ReadFile("testing_code_that_locks_test.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		assert.Contains(t, string(code), block[1])
	}
}
