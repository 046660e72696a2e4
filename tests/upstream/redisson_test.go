package upstream

import (
	"cmp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/child"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Expected: the watchdog renews all read holds of a process, as in 4.7.0.
// What happens in 3.44.0 to 3.52.0: two loops of its script share a variable, so it renews those of one lock only. When
// another reader goes, a writer gets the lock of a reader.
func TestRedissonForgetsReadHolds(t *testing.T) {
	t.Parallel()
	for release, forgets := range map[string]bool{"3.52.0": true, "": false} { // "" is that of the tests
		t.Run("Redisson "+cmp.Or(release, "4.7.0"), func(t *testing.T) {
			t.Parallel()
			out := runJava(t, release, "ReadHolds.java")
			assert.Equal(t, forgets, strings.Contains(out, "a writer beside a reader"), out)
		})
	}
}

// Expected: nobody writes while somebody reads whose lease is not over.
// What happens: each renewal of a read hold, and each MultiLock with a lease, sets the expiry of the whole read-write
// lock, though another reader has a longer lease. When that expiry has come, a writer gets the lock of that reader.
func TestRedissonCutsReadersShort(t *testing.T) {
	t.Parallel()
	out := runJava(t, "", "ReadLeases.java")
	for _, name := range []string{"x", "y"} {
		assert.Contains(t, out, "a writer beside a reader: "+name)
	}
}

// runJava runs a program to its end, with that release of Redisson, and returns what it prints.
func runJava(t *testing.T, release, program string) string {
	t.Helper()
	cmd := interop.Program(t, release, program, redistest.Start(t).Addr())
	cmd.SysProcAttr = child.Attributes()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "done")
	t.Log(string(out))
	return string(out)
}
