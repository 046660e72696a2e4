package holdfast_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Go code on these pages is in tests that run, word for word.
func TestPagesShowCodeThatRuns(t *testing.T) {
	for page, c := range map[string]struct {
		code   string
		blocks int // how many, from the top; 0: all
	}{
		"README.md":          {"tests/programs/readme/main.go", 1},
		"docs/testing.md":    {"holdfasttest/testing_code_that_locks_test.go", 0},
		"docs/guarantees.md": {"rlock/example_test.go", 1}, // a resource that refuses old tokens
		"docs/recipes.md":    {"tests/programs/p*/*.go", 0},
		"docs/barrier.md":    {"tests/programs/p*/*.go", 0},
		"docs/guard.md":      {"rlock/guard_example_test.go tests/programs/p*/*.go", 0},
	} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		var files []string
		for pattern := range strings.FieldsSeq(c.code) {
			found, err := filepath.Glob(pattern)
			require.NoError(t, err)
			files = append(files, found...)
		}
		var code strings.Builder
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			code.Write(source)
		}
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks, page)
		if c.blocks > 0 {
			blocks = blocks[:c.blocks]
		}
		for _, block := range blocks {
			assert.Contains(t, code.String(), block[1], page)
		}
	}
}

// The architecture page has all packages in its diagram, and the files, scripts and types that it names exist.
func TestArchitecturePageNamesWhatIsThere(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(text)
	}
	page := read("docs/architecture.md")
	_, rest, _ := strings.Cut(page, "```\n")
	diagram, _, _ := strings.Cut(rest, "```")
	for folder := range mayImport {
		name := strings.TrimPrefix(folder, "internal/")
		if name != "." && !strings.HasPrefix(name, "otel/") {
			assert.Regexp(t, `\b`+name+`\b`, diagram)
		}
	}
	for _, file := range regexp.MustCompile(`\b[a-z]+/[a-z_]+\.go\b`).FindAllString(page, -1) {
		assert.FileExists(t, filepath.Join("internal", file))
	}
	scripts := regexp.MustCompile(`\b(?:fairlock|rlock|setlock|lock|semaphore)_[a-z_]+`)
	for _, script := range scripts.FindAllString(page, -1) {
		assert.FileExists(t, filepath.Join("lua", script+".lua"))
	}
	words := regexp.MustCompile("(?m)^\\| ([a-z]+) \\|.*\\| `([a-z]+/[a-z_]+\\.go)` \\|$").FindAllStringSubmatch(page,
		-1)
	require.NotEmpty(t, words)
	for _, word := range words {
		assert.Regexp(t, `(?mi)^type `+word[1]+`s?[ \[]`, read(filepath.Join("internal", word[2])))
	}
}

// No line is longer than 120 columns, but for tables and program output in Markdown.
func TestLinesFitTheScreen(t *testing.T) {
	texts := []string{".go", ".lua", ".md", ".yml"}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if file == "bin" { // what make bench-peers and make lint have written
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !slices.Contains(texts, filepath.Ext(file)) {
			return err
		}
		text, err := os.ReadFile(file)
		fenced := false
		for i, line := range strings.Split(string(text), "\n") {
			if filepath.Ext(file) == ".md" {
				start := strings.TrimSpace(line)
				fenced = fenced != strings.HasPrefix(start, "```")
				if fenced || strings.HasPrefix(start, "|") {
					continue
				}
			}
			assert.LessOrEqual(t, utf8.RuneCountInString(line), 120, "%s:%d: %s", file, i+1, line)
		}
		return err
	})
	require.NoError(t, err)
}
