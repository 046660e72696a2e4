package cli

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table in the documentation says what the command says.
func TestExitCodesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/command.md")
	require.NoError(t, err)
	var want, documented [][2]string
	for _, c := range codes {
		want = append(want, [2]string{codeText(c.code), c.meaning})
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+(?:\+n)?) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, [2]string{row[1], row[2]})
	}
	require.Equal(t, want, documented)
}
