package inspect

import (
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// ownerGlob is what Redis is to look for: it lets through whatever [cli.Owner] does.
var ownerGlob = strings.Repeat("?", 8) + strings.Repeat("-"+strings.Repeat("?", 4), 3) + "-" + strings.Repeat("?", 12) + ":*"

// holdForm ends the keys of read holds.
var holdForm = regexp.MustCompile(`:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:-?[0-9]+(:[^:]+)?:rwlock_timeout:[0-9]+$`)

// A role is what a key is to a name.
type role int

const (
	itself  role = iota // the key has the name
	beside              // of no use without the others
	queue               // who waits for a fair lock
	writers             // who waits to write
	tokens              // the last fencing token
)

// What the keys beside a name begin with.
var (
	queuePrefix   = strings.TrimSuffix(wire.FairQueue("x"), "{x}")
	writersPrefix = strings.TrimSuffix(wire.RWWriters("x"), "{x}")
	tokensPrefix  = strings.TrimSuffix(wire.TokenKey("x"), "{x}")

	besidePrefixes = []string{
		strings.TrimSuffix(wire.FairDue("x"), "{x}"),
		strings.TrimSuffix(wire.FairOurs("x"), "{x}"),
		strings.TrimSuffix(wire.FairAlive("x"), "{x}"),
		strings.TrimSuffix(wire.SessionKey("x"), "{x}"),
		"redisson_unlock_latch:", // Redisson's, for calls that are sent again
	}
)

// roleOf is what a key is, and to which names it may be that. There are two such names where one has
// the other in braces: they share the keys beside them.
func roleOf(key string) (role, []string) {
	for _, known := range []struct {
		prefix string
		role   role
	}{{queuePrefix, queue}, {writersPrefix, writers}, {tokensPrefix, tokens}} {
		if rest, ok := strings.CutPrefix(key, known.prefix); ok && strings.Contains(rest, "{") {
			return known.role, cli.NamesOf(rest)
		}
	}
	for _, prefix := range besidePrefixes {
		if rest, ok := strings.CutPrefix(key, prefix); ok && strings.Contains(rest, "{") {
			return beside, nil
		}
	}
	if holdForm.MatchString(key) {
		return beside, nil
	}
	return itself, []string{key}
}

// patterns are the globs over keys whose names a glob over names matches. Globs can be put together
// as names are. All but the first find what is free, and waited for or fenced.
func patterns(glob string, others ...string) []string {
	if glob == "" {
		return []string{""}
	}
	all := []string{glob}
	for _, prefix := range others {
		all = append(all, prefix+"{"+glob+"}", prefix+glob)
	}
	return all
}

// literal is a glob that matches the text alone.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
