package rights

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Servers of different versions have different words for a command and for a key that is refused.
func TestRefusals(t *testing.T) {
	for text, command := range map[string]bool{
		"NOPERM this user has no permissions to run the 'get' command or its subcommand":                         true,
		"NOPERM User app has no permissions to run the 'get' command":                                            true,
		"This user has no permissions to run the 'get' command":                                                  true,
		"The user executing the script can't run this command or subcommand":                                     true,
		"ACL failure in script: User app has no permissions to run the 'get' command":                            true,
		"The user executing the script can't access at least one of the keys mentioned in the command arguments": false,
		"NOPERM this user has no permissions to access one of the keys used as arguments":                        false,
		"NOPERM No permissions to access a key":                                                                  false,
		"ACL failure in script: No permissions to access a key":                                                  false,
		"This user has no permissions to access the 'to' channel":                                                false,
		"The user executing the script can't publish to the channel mentioned in the command":                    false,
	} {
		assert.Equal(t, command, ofCommand(text), text)
	}
}

// A prefix stands in rules as it is, or as a glob that matches it.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	for prefix, rule := range map[string]string{
		"": "~*", "app:": "~app:*", "a*b?[c]": `~a\*b\?\[c\]*`, "a b'\xff": "~a?b??*",
	} {
		var rules []string
		for _, r := range (&Program{Prefix: prefix}).Needed("app:x") {
			rules = append(rules, r.Rule)
		}
		require.Contains(t, rules, rule)
	}
}
