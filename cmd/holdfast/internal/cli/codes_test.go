package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table in the documentation agrees with the command.
func TestExitCodesAreDocumented(t *testing.T) {
	t.Parallel()
	help, err := os.ReadFile("help/exit-codes.txt")
	require.NoError(t, err)
	text, err := os.ReadFile("../../../../docs/command.md")
	require.NoError(t, err)
	var want, documented [][2]string
	for _, line := range regexp.MustCompile(`(?m)^  (\S+) +(.*)$`).FindAllStringSubmatch(string(help), -1) {
		want = append(want, [2]string{line[1], line[2]})
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+(?:\+n)?) \| (.*) \|$`).FindAllStringSubmatch(string(text),
		-1) {
		documented = append(documented, [2]string{row[1], row[2]})
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, documented)
	for code := range strings.FieldsSeq("0 1 64 69 70 75 79 128+n") {
		require.Contains(t, string(help), "\n  "+code+" ")
	}
}
