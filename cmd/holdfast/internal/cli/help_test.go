package cli

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Explanations fit the narrowest terminal in use; examples may be wider.
func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(texts, "help/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := texts.ReadFile(file)
		require.NoError(t, err)
		long, _, _ := strings.Cut(string(text), "\n\nExamples:\n")
		for line := range strings.Lines(long) {
			require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, "%s: %s", file, line)
		}
	}
}
