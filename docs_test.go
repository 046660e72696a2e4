package holdfast_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Go code of these pages is in tests that run, word for word.
func TestPagesShowCodeThatRuns(t *testing.T) {
	for page, c := range map[string]struct {
		code   string
		blocks int // that many from the top; 0: all
	}{
		"README.md":          {"tests/programs/readme/main.go", 1},
		"docs/testing.md":    {"holdfasttest/testing_code_that_locks_test.go", 0},
		"docs/guarantees.md": {"rlock/example_test.go", 1}, // a resource that refuses old tokens
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		code, err := os.ReadFile(c.code)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks, page)
		if c.blocks > 0 {
			blocks = blocks[:c.blocks]
		}
		for _, block := range blocks {
			assert.Contains(t, string(code), block[1], page)
		}
	}
}
