package command

import (
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// no runs the command, requires it to end with the code and to give a reason, and returns the reason.
func no(t testing.TB, srv *redistest.Server, code int, args ...string) string {
	t.Helper()
	r := run(t, srv, nil, args...)
	require.Equal(t, code, r.code, "%v: %s%s", args, r.stdout, r.stderr)
	return r.stderr
}

func TestLatch(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.Equal(t, "0\n", ok(t, srv, "latch", "count", "gate"))
	require.Empty(t, ok(t, srv, "latch", "set", "gate", "3"))
	require.Equal(t, "3\n", ok(t, srv, "latch", "count", "gate"))
	require.Contains(t, no(t, srv, 1, "latch", "set", "gate", "5"),
		`latch "gate" is set already: 3 still to count down`)
	require.Equal(t, "2\n", ok(t, srv, "latch", "down", "gate"))
	require.Equal(t, "0\n", ok(t, srv, "latch", "down", "gate", "-n", "9"),
		"the count went on after the latch was open")
	require.Equal(t, "0\n", ok(t, srv, "latch", "down", "gate"), "an open latch did not stay open")
	require.JSONEq(t, `{"name":"gate","count":2,"set":true}`, ok(t, srv, "latch", "set", "gate", "2", "--json"))
	require.JSONEq(t, `{"name":"gate","count":1}`, ok(t, srv, "latch", "down", "--json", "gate"))
	require.JSONEq(t, `{"name":"gate","count":1}`, ok(t, srv, "latch", "count", "--json", "gate"))
	r := run(t, srv, nil, "latch", "set", "gate", "7", "--json")
	require.Equal(t, 1, r.code)
	require.JSONEq(t, `{"name":"gate","count":1,"set":false}`, r.stdout)
	require.Empty(t, r.stderr)
	require.Equal(t, "1", srv.Str(t, "GET", "gate"))
}

func TestSemaphoreThatCounts(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.Equal(t, "0\n", ok(t, srv, "semaphore", "count", "pool"))
	require.Contains(t, no(t, srv, 1, "semaphore", "release", "pool", "-n", "1"), `there is no semaphore "pool"`)
	require.Empty(t, ok(t, srv, "semaphore", "set", "pool", "8"))
	require.Contains(t, no(t, srv, 1, "semaphore", "set", "pool", "9"), `semaphore "pool" is there already, 8 free`)
	require.Equal(t, "10\n", ok(t, srv, "semaphore", "add", "pool", "2"))
	require.Equal(t, "-2\n", ok(t, srv, "semaphore", "add", "pool", "--", "-12"))
	require.Equal(t, "1\n", ok(t, srv, "semaphore", "release", "pool", "-n", "3"))
	require.JSONEq(t, `{"name":"pool","free":1,"taken":0}`, ok(t, srv, "semaphore", "count", "pool", "--json"))
	r := run(t, srv, nil, "semaphore", "set", "pool", "4", "--json")
	require.Equal(t, 1, r.code)
	require.JSONEq(t, `{"name":"pool","free":1,"taken":0,"set":false}`, r.stdout)
}

func TestSemaphoreWhosePermitsHaveIDs(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.JSONEq(t, `{"name":"pool","free":3,"taken":0,"set":true}`,
		ok(t, srv, "semaphore", "set", "--expirable", "pool", "3", "--json"))
	pool := semaphore.NewExpirable(open(t, srv, nil), "pool", nil)
	holds, err := pool.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"pool","free":1,"taken":2}`, ok(t, srv, "semaphore", "count", "pool", "--json"))
	require.Contains(t, no(t, srv, 1, "semaphore", "release", "pool", "-n", "1"), "have ids")
	require.Equal(t, "2\n", ok(t, srv, "semaphore", "add", "pool", "1"))
	require.Equal(t, "3\n", ok(t, srv, "semaphore", "release", "pool", holds[0].ID()))
	no(t, srv, 1, "semaphore", "release", "pool", holds[0].ID())
	no(t, srv, 1, "semaphore", "release", "pool", holds[1].ID(), holds[0].ID())
	require.JSONEq(t, `{"name":"pool","free":3,"taken":1}`, ok(t, srv, "semaphore", "count", "pool", "--json"),
		"all or none")
	require.Equal(t, "5\n", ok(t, srv, "semaphore", "add", "--expirable", "pool", "2"))
}

func TestLatchAndSemaphoreCalledWrongly(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, line := range []string{
		"latch set gate", "latch set gate 0", "latch set gate -- -1", "latch set gate many",
		"latch set gate 9007199254740992",
		"latch down", "latch down gate -n 0", "latch count", "latch count gate gate", "latch frobnicate",
		"latch count gate --timeout 0s",
		"semaphore set pool", "semaphore set pool -- -1", "semaphore add pool", "semaphore add pool -3",
		"semaphore add pool x",
		"semaphore release", "semaphore release pool", "semaphore release pool nonsense", "semaphore release pool -n 0",
		"semaphore release pool -n 9007199254740992",
		"semaphore release pool -n 1 00112233445566778899aabbccddeeff", "semaphore frobnicate",
	} {
		require.NotEmpty(t, no(t, srv, 64, strings.Fields(line)...), line)
	}
	no(t, srv, 64, "latch", "count", "")
	require.Empty(t, srv.Keyspace(t))
}

func TestLatchAndSemaphoreOfAnotherKind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	take(t, rlock.New(open(t, srv, nil), "lock", nil))
	for _, line := range []string{
		"latch set lock 1", "latch down lock", "latch count lock",
		"semaphore set lock 1", "semaphore add lock 1", "semaphore count lock", "semaphore release lock -n 1",
	} {
		require.Contains(t, no(t, srv, 64, strings.Fields(line)...), "wrong kind", line)
	}
}

func TestLatchAndSemaphoreTellNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, line := range []string{
		"latch count NAME", "latch set NAME 2", "latch down NAME", "semaphore set OTHER 3", "semaphore count OTHER",
	} {
		args := strings.Fields(strings.NewReplacer("NAME", "a\xffb", "OTHER", "c\xffd").Replace(line))
		require.Contains(t, ok(t, srv, append(args, "--json")...), `"name_base64":"`+
			base64.StdEncoding.EncodeToString([]byte(args[2]))+`"`, line)
	}
}

func TestLatchAndSemaphoreHelpThemselves(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"latch", "latch set", "latch down", "latch count", "semaphore", "semaphore set", "semaphore add", "semaphore count",
		"semaphore release", "doctor",
	} {
		help := ok(t, nil, append(strings.Fields(line), "--help")...)
		for _, part := range []string{"Examples:", "  holdfast " + line, "--json", "--redis", "Exit codes:"} {
			require.Contains(t, help, part, line)
		}
	}
	require.Contains(t, ok(t, nil, "latch"), "Examples:")
}

func TestLatchAndSemaphoreWithoutAServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	env := grant(t, srv, "app", []string{"+@all", "-eval", "-evalsha", "~*", "&*"})
	r := run(t, srv, env, "latch", "set", "gate", "1")
	require.Equal(t, 69, r.code)
	require.Contains(t, r.stderr, "NOPERM")

	srv.Stop()
	for _, line := range []string{"latch count gate", "semaphore add pool 1"} {
		began := time.Now()
		require.Contains(t, no(t, srv, 69, strings.Fields(line)...), "refused")
		require.Less(t, time.Since(began), 10*time.Second)
	}
}

// A call that was sent and not answered may have taken effect.
func TestLatchThatMayHaveBeenSet(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	p.On(proxy.Command("EVAL", "EVALSHA"), proxy.DropReply, proxy.EveryTime)
	r := run(t, nil, nil, "latch", "set", "gate", "1", "--timeout", "3s", "--redis", "redis://"+p.Addr())
	require.Equal(t, 75, r.code, r.stderr)
}

// A question that was not answered has changed nothing, and is no mistake of the caller's.
func TestAQuestionWithoutAnAnswerIsAFailure(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	p.On(proxy.Command("EVAL", "EVALSHA"), proxy.DropReply, proxy.EveryTime)
	for _, line := range []string{
		"latch count gate", "latch down gate", "semaphore count pool", "semaphore add pool 1", "semaphore release pool -n 1",
	} {
		r := run(t, nil, nil, append(strings.Fields(line), "--redis", "redis://"+p.Addr())...)
		require.Equal(t, 69, r.code, "%s: %s", line, r.stderr)
	}
}

func TestLatchAndSemaphoreInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	srv := cluster.Nodes[0]
	for _, name := range []string{"a", "b", "c"} { // in different slots
		ok(t, srv, "latch", "set", name, "2")
		require.Equal(t, "1\n", ok(t, srv, "latch", "down", name))
		ok(t, srv, "semaphore", "set", name+"s", "2")
		require.Equal(t, "1\n", ok(t, srv, "semaphore", "add", name+"s", "--", "-1"))
	}
	require.Contains(t, no(t, srv, 64, "latch", "count", "a{b}"), "cannot be used in a cluster")
}

// The output is for programs.
func TestLatchAsJSONIsOneLine(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	text := ok(t, srv, "latch", "count", "--json", "a\nb \x1b[31m")
	require.Equal(t, 1, strings.Count(text, "\n"))
	require.NotContains(t, text, "\x1b")
	var state struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(text), &state))
	require.Equal(t, "a\nb \x1b[31m", state.Name)
}

func TestLatchAndSemaphoreComplete(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(binary, "__complete", "semaphore", "").Output()
	require.NoError(t, err)
	for _, word := range []string{"set", "add", "count", "release"} {
		require.Contains(t, string(out), word+"\t")
	}
}

// A server that is silent from the start is waited for no longer than asked.
func TestASilentServerIsNotWaitedForLonger(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Pause()
	defer srv.Resume()
	for line, unasked := range map[string]time.Duration{
		"latch count gate --timeout 0.5": 2 * time.Second, "semaphore add pool 1 --timeout 0.5": 2 * time.Second,
		"wait orders -w 0.5": 5 * time.Second,
	} {
		took := kit.Stopwatch()
		no(t, srv, 69, strings.Fields(line)...)
		require.Less(t, took(), unasked, line)
	}
}

// If the call took effect and then something fails, the output must not look as if it had not taken effect.
func TestLatchAndSemaphoreDoneButNotTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, open := range unwritable {
		t.Run(name, func(t *testing.T) {
			out := open(t)
			srv.Do(t, "MSET", "pool", "3", "gate", "9")
			srv.Do(t, "DEL", "other")
			for line, code := range map[string]int{
				"semaphore count pool": 1, "latch count gate": 1, "semaphore add pool 2": 75, "semaphore release pool -n 2": 75,
				"latch down gate -n 2": 75, "latch set other 2 --json": 75, "latch down open": 1,
			} {
				cmd := command(t, srv, nil, strings.Fields(line)...)
				cmd.Stdout = out
				require.Error(t, cmd.Run(), line)
				require.Equal(t, code, cmd.ProcessState.ExitCode(), line)
			}
			require.Equal(t, []any{"7", "7", "2"}, srv.Do(t, "MGET", "pool", "gate", "other"))
		})
	}
}

// An interrupted count down reports how far it came.
func TestLatchDownIsInterrupted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "SET", "gate", "100000000")
	r := run(t, srv, nil, "latch", "down", "gate", "-n", "100000000", "--timeout", "2s")
	require.Equal(t, 75, r.code)
	require.Regexp(t, `after \d+ of 100000000 times: `, r.stderr)
}

// The examples in the help can be copied to a shell.
func TestLatchAndSemaphoreExamplesWork(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, line := range []string{
		"latch", "latch set", "latch down", "semaphore", "semaphore set",
		"semaphore release",
	} {
		_, examples, _ := strings.Cut(ok(t, srv, append(strings.Fields(line), "--help")...), "Examples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		for example := range strings.Lines(examples) {
			cmd := exec.Command("sh", "-c", strings.Replace(example, "holdfast", binary, 1))
			cmd.Env = append(cleanEnv(), "HOLDFAST_REDIS=redis://"+srv.Addr())
			_ = cmd.Run()
			require.NotEqual(t, 64, cmd.ProcessState.ExitCode(), example)
		}
	}
}
