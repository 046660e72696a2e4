package command

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Inside a run, another run of the same name starts at once if the outer one's lock covers what it wants.
func TestRunNested(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, tt := range map[string]struct {
		outer, inner []string
		code         int
	}{
		"same":             {nil, nil, 0},
		"fair under plain": {nil, []string{"--fair"}, 0},
		"read under write": {[]string{"-x"}, []string{"-s"}, 0},
		"read under plain": {nil, []string{"-s"}, 0},
		"read under read":  {[]string{"-s"}, []string{"-s"}, 0},
		"write under read": {[]string{"-s"}, []string{"-x"}, 64},
		"plain under read": {[]string{"-s"}, nil, 64},
		"permit":           {[]string{"--permits", "1"}, []string{"--permits", "1"}, 0},
		"fenced":           {[]string{"--fenced"}, []string{"--fenced"}, 0},
		"fair and fenced":  {[]string{"--fair", "--fenced"}, []string{"--fair", "--fenced"}, 0},
		"no token":         {nil, []string{"--fenced"}, 64},
		"at least":         {nil, []string{"--at-least", "1h"}, 64},
		"at least, too":    {[]string{"--at-least", "1h"}, []string{"--at-least", "1h", "--take-over"}, 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			args = append(append(append(args, "run"), tt.outer...), name, "--", "sh", "-c",
				`echo "$HOLDFAST_OWNER"; exec "$@"`, "sh",
				binary, "run", "other", "--", binary, "run")
			args = append(append(args, tt.inner...), name, "--", "sh", "-c", `echo "$HOLDFAST_OWNER"`)
			r := run(t, srv, nil, args...)
			require.Equal(t, tt.code, r.code, r.stderr)
			if tt.code == 0 {
				lines := strings.Fields(r.stdout)
				require.Len(t, lines, 2)
				require.Equal(t, lines[0], lines[1])
			}
		})
	}
}

// A name in the environment proves nothing: the server is asked.
func TestRunNestedOnAnotherServer(t *testing.T) {
	t.Parallel()
	srv, other := redistest.Start(t), redistest.Start(t)
	hold, err := rlock.New(open(t, other, nil), "x", nil).Lock(t.Context())
	require.NoError(t, err)
	defer hold.Release()
	r := run(t, srv, nil, "run", "x", "--", binary, "run", "--redis", "redis://"+other.Addr(), "-n", "x", "--",
		"echo", "ran")
	require.Equal(t, 1, r.code, r.stderr)
	require.Empty(t, r.stdout)
	r = run(t, srv, nil, "run", "--permits", "1", "pool", "--", binary, "run", "--redis", "redis://"+other.Addr(),
		"--permits", "1", "pool", "--", "echo", "ran")
	require.Equal(t, "ran\n", r.stdout, r.stderr)
}

// There, the name may be that of another kind.
func TestRunNestedWhereTheNameIsOfAnotherKind(t *testing.T) {
	t.Parallel()
	srv, other := redistest.Start(t), redistest.Start(t)
	reading, err := rwlock.New(open(t, other, nil), "x", nil).Read().Lock(t.Context())
	require.NoError(t, err)
	defer reading.Release()
	r := run(t, srv, nil, "run", "x", "--", binary, "run", "--redis", "redis://"+other.Addr(), "-s", "x", "--",
		"echo", "ran")
	require.Equal(t, "ran\n", r.stdout, r.stderr)
	r = run(t, srv, nil, "run", "x", "--", binary, "run", "--redis", "redis://"+other.Addr(), "x", "--", "echo", "ran")
	require.Equal(t, 64, r.code, "this one does not run beside readers")
	require.Contains(t, r.stderr, "rwlock")
}

func TestRunNoFork(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "-nF", "--lease", "1h", "x", "--", "sh", "-c",
		`echo $$; echo "$HOLDFAST_OWNER"; read go; exit 3`)
	pid := j.line()
	require.Equal(t, pid, strconv.Itoa(j.cmd.Process.Pid))
	require.Equal(t, []string{j.line()}, srv.Strs(t, "HKEYS", "x"))
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 3, j.code())
	require.Greater(t, srv.Int(t, "PTTL", "x"), int64(3_500_000), "it is held for the rest of its lease")
	require.Equal(t, 1, run(t, srv, nil, "run", "-n", "x", "--", "true").code)
}
