package cli

import (
	"regexp"
	"strings"
)

// Owner is what owners look like on the wire, Redisson's in transactions too: the session, the number,
// whether it writes, the transaction.
var Owner = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}):-?[0-9]+(:write)?(:[^:]+)?$`)

// NamesOf undoes what wire.Prefix does behind the word, and returns the names that it may have been, the
// one without braces first. There are two where one has the other in braces.
func NamesOf(rest string) []string {
	inner := strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
	if len(inner) != len(rest)-2 || inner == "" || strings.Contains(inner, "{") {
		return []string{rest}
	}
	return []string{inner, rest}
}
