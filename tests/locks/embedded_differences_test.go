package locks

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These commands are unknown to the embedded server, with its answers. docs/testing.md tells whom that concerns.
var unknownToTheEmbedded = map[string]struct {
	arguments []string
	says      string
}{
	"INFO server":       {nil, "section (server) is not supported"},
	"INFO commandstats": {nil, "section (commandstats) is not supported"},
	"SPUBLISH":          {[]string{"channel", "message"}, "unknown command"},
	"ACL SETUSER":       {[]string{"somebody"}, "unknown command"},
	"CONFIG SET":        {[]string{"maxmemory", "10mb"}, "unknown command"},
}

// The page lists the differences, and each of them exists.
func TestTheDifferencesOfTheEmbeddedServerAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/testing.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| command | whom that concerns |")
	require.True(t, found)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	actual, embedded := redistest.Start(t), kit.StartEmbedded(t)
	for command, c := range unknownToTheEmbedded {
		assert.Contains(t, listed, command)
		words := append(strings.Fields(command), c.arguments...)
		_, err := embedded.Try(words...)
		assert.ErrorContains(t, err, c.says, "%s is no longer a difference", command)
		if _, err = actual.Try(words...); command != "SPUBLISH" { // Redis has it from 7.0 on
			assert.NoError(t, err, command)
		}
	}
	assert.Len(t, listed, len(unknownToTheEmbedded))
}
