package holdfast_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/holdfast-go/holdfast"

// mayImport has a row for each package of this module: what it may import. Arrows point down only: locks build on the
// root and the core, the core on its parts, and scripts on nothing. Siblings never import each other. A package
// without a row fails.
var mayImport = map[string][]string{
	"lua":               {},
	"internal/wire":     {},
	"internal/lease":    {},
	"internal/scope":    {},
	"internal/registry": {},
	"internal/turn":     {},
	"internal/wait":     {},
	"internal/sharing":  {},
	"internal/refusal":  {},
	"internal/cluster":  {"internal/refusal"},
	"internal/script":   {"internal/cluster", "internal/refusal", "internal/sharing", "internal/wire", "lua"},
	"internal/hub":      {"internal/cluster", "internal/refusal", "internal/script", "internal/wire"},
	"internal/deadlock": {},
	"internal/presence": {
		"internal/deadlock", "internal/lease", "internal/refusal", "internal/script", "internal/wire",
	},
	"internal/watch": {"internal/script", "internal/wait"},
	"internal/owner": {"internal/lease"},
	"internal/kind":  {"internal/lease", "internal/owner", "internal/script", "internal/wait"},
	"internal/session": {
		"internal/hub", "internal/lease", "internal/presence", "internal/scope", "internal/script", "internal/sharing",
		"internal/wait", "internal/watch", "internal/wire",
	},
	"internal/acks": {
		"internal/cluster", "internal/kind", "internal/lease", "internal/owner", "internal/refusal", "internal/script",
		"internal/session", "internal/sharing", "internal/wait", "internal/wire",
	},
	"internal/debts": {
		"internal/lease", "internal/owner", "internal/script", "internal/session", "internal/wait",
	},
	"internal/checks": {
		"internal/kind", "internal/lease", "internal/script", "internal/session", "internal/wait",
	},
	"internal/core": {
		"internal/acks", "internal/checks", "internal/debts", "internal/kind", "internal/lease", "internal/owner",
		"internal/presence", "internal/registry",
		"internal/scope", "internal/script", "internal/session", "internal/turn", "internal/wait", "internal/wire",
	},
	"internal/guard": {"internal/core", "internal/kind", "internal/script", "internal/session", "internal/wire"},
	"internal/holders": {
		"internal/core", "internal/kind", "internal/lease", "internal/presence", "internal/script", "internal/session",
		"internal/wait",
	},
	"internal/adopt": {"internal/core", "internal/lease", "internal/owner", "internal/script", "internal/session"},
	"internal/ask": {
		"internal/core", "internal/script", "internal/session", "internal/wait", "internal/watch", "internal/wire",
	},
	"internal/several": {
		"internal/acks", "internal/core", "internal/kind", "internal/lease", "internal/scope", "internal/script",
		"internal/session", "internal/wait",
	},
	".": {
		"internal/acks", "internal/adopt", "internal/ask", "internal/cluster", "internal/core", "internal/guard",
		"internal/holders",
		"internal/lease", "internal/presence", "internal/refusal", "internal/session", "internal/sharing",
		"internal/wait",
	},
	"rlock": {
		".", "internal/core", "internal/holders", "internal/kind", "internal/lease", "internal/script", "internal/session",
		"internal/wait", "internal/wire",
	},
	"fairlock": {
		".", "internal/core", "internal/holders", "internal/kind", "internal/lease", "internal/script", "internal/session",
		"internal/wait", "internal/wire",
	},
	"once": {".", "internal/session", "rlock"},
	"leader": {
		".", "fairlock", "internal/presence", "internal/refusal", "internal/script", "internal/session", "internal/wait",
		"internal/wire",
	},
	"barrier": {
		".", "internal/core", "internal/guard", "internal/script", "internal/session", "internal/wait", "internal/wire",
		"semaphore",
	},
	"latch": {".", "internal/script", "internal/session", "internal/wire"},
	"semaphore": {
		".", "internal/adopt", "internal/core", "internal/kind", "internal/lease", "internal/owner", "internal/script",
		"internal/session", "internal/wait", "internal/wire",
	},
	"multilock": {".", "internal/core", "internal/several", "internal/session", "rlock"},
	"rwlock": {
		".", "internal/core", "internal/holders", "internal/kind", "internal/lease", "internal/script", "internal/session",
		"internal/wait", "internal/wire",
	},
	"setlock": {
		".", "internal/adopt", "internal/core", "internal/holders", "internal/kind", "internal/script",
		"internal/session", "internal/wait",
		"internal/wire",
	},

	"holdfasttest":      {".", "internal/core", "internal/embedded", "internal/session"},
	"internal/embedded": {},

	"gocron":  {".", "leader", "rlock"},
	"goredis": {}, // its users open the session

	"otel":         {"."},
	"otel/example": {".", "fairlock", "internal/embedded", "leader", "otel", "rlock", "rwlock"},

	// Only the command imports them.
	"internal/survey": {
		"internal/cluster", "internal/deadlock", "internal/presence", "internal/refusal", "internal/wire",
	},
	"internal/rights": {"internal/refusal", "internal/wire"},
	"internal/drill": {
		".", "fairlock", "internal/cluster", "internal/refusal", "internal/wire", "rlock", "rwlock", "semaphore",
	},

	"fence": {}, // it knows numbers

	// They give names, and know no session.
	"internal/highwayhash": {},
	"entry":                {"internal/highwayhash", "internal/wire"},

	"internal/exampleserver": {".", "internal/embedded"},
}

// Packages in these folders are no layer of the library.
var outside = []string{"tests", "cmd"}

func TestArrowsPointDown(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && file != "." || slices.Contains(outside, file)) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		folder := path.Dir(filepath.ToSlash(file))
		allowed, ok := mayImport[folder]
		found[folder] = true
		assert.True(t, ok, "%s has no row in the table", folder)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if imported != module && !strings.HasPrefix(imported, module+"/") {
				continue
			}
			layer := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			if layer == "" {
				layer = "."
			}
			assert.Contains(t, allowed, layer, "%s imports %s", file, layer)
		}
		return nil
	})
	require.NoError(t, err)
	for folder := range mayImport {
		assert.True(t, found[folder], "%s is in the table and has no file", folder)
	}
}
