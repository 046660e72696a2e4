package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A password comes from the environment, and reaches the demo's workers without appearing on a command line.
func TestDemoOnAServerWithAPassword(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "app", "on", ">se/cret", "~*", "&*", "+@all")
	url := "redis://app@" + srv.Addr()
	r := run(t, nil, []string{"HOLDFAST_REDIS_PASSWORD=se/cret"}, "demo", "lock", "--redis", url)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stdout, "Everything held")

	r = run(t, nil, nil, "demo", "lock", "--redis", "redis://app:se%2Fcret@"+srv.Addr())
	require.Equal(t, 64, r.code)
	require.Contains(t, r.stderr, "HOLDFAST_REDIS_PASSWORD")
	require.NotContains(t, r.stderr, "se/cret")
	require.NotContains(t, r.stderr, "se%2Fcret")

	r = run(t, nil, nil, "demo", "lock", "--redis", "rediss://"+srv.Addr(), "--insecure")
	require.Equal(t, 64, r.code, "its workers would not know of it")
	require.Contains(t, r.stderr, "--insecure")
}
