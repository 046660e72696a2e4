package redistest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Password is the password of every user that Grant makes.
const Password = "secret"

// Grant makes a user that has these rights and no others.
func (s *Server) Grant(t testing.TB, user string, rights ...string) {
	t.Helper()
	s.Do(t, append([]string{"ACL", "SETUSER", user, "reset", "resetchannels", "on", ">" + Password}, rights...)...)
}

// GuideRights returns the rights that the guide gives to a program on a single server, for names that begin with
// "app:".
func GuideRights(t testing.TB) []string {
	t.Helper()
	_, self, _, _ := runtime.Caller(0)
	guide, err := os.ReadFile(filepath.Join(filepath.Dir(self), "../../docs/redisson.md"))
	require.NoError(t, err)
	_, block, found := strings.Cut(string(guide), "ACL SETUSER app reset resetchannels on >"+Password)
	require.True(t, found, "docs/redisson.md has no line that gives a user rights as Grant does")
	block, _, _ = strings.Cut(block, "```")
	return strings.Fields(strings.ReplaceAll(block, `\`, " "))
}
