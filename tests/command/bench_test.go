package command

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestBench(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	text := ok(t, srv, "bench", "--time", "300ms", "--goroutines", "4")
	for _, what := range []string{"round trip", "alone", "contended"} {
		require.Contains(t, text, what)
	}
	require.Equal(t, 3, strings.Count(text, "4 goroutines"))

	lines := strings.Split(strings.TrimSpace(ok(t, srv, "bench", "--time", "3s", "--json")), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Positive(t, r["per_second"])
		require.Positive(t, r["p50_us"])
		require.GreaterOrEqual(t, r["p99_us"], r["p50_us"])
		require.EqualValues(t, 16, r["goroutines"])
	}
	require.Empty(t, srv.Keyspace(t))
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nobody": {"--goroutines", "0"}, "no time": {"--time", "1ms"}, "an argument": {"x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, nil, nil, append([]string{"bench"}, args...)...)
			require.Equal(t, 64, r.code)
			require.Contains(t, r.stderr, "holdfast: ")
		})
	}
	require.Equal(t, 69, run(t, nil, nil, "bench", "--redis", "redis://127.0.0.1:1").code)
}

// No lock can be taken on a replica.
func TestBenchOfAReplicaEnds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "REPLICAOF", "127.0.0.1", "1")
	r := run(t, srv, nil, "bench", "--time", "300ms")
	require.Contains(t, []int{69, 75}, r.code, r.stderr)
	require.NotEmpty(t, r.stderr)
}

func TestBenchIsInterrupted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		srv.Do(t, "CONFIG", "RESETSTAT")
		cmd := command(t, srv, nil, "bench", "--time", "50s")
		require.NoError(t, cmd.Start())
		kit.Await(t, "work", func() bool { return srv.CommandStats(t)["exists"] > 0 })
		require.NoError(t, cmd.Process.Signal(signal))
		require.Error(t, cmd.Wait())
		require.Equal(t, code, cmd.ProcessState.ExitCode())
		kit.Await(t, "an end without remains", func() bool { return len(srv.Keyspace(t)) == 0 })
	}
}
