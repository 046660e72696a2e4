package command

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// deaf is a command that reports SIGTERM and goes on.
const deaf = `exec 2>/dev/null; trap "echo told" TERM; echo ready; while :; do sleep 0.05; done`

// If nobody reads its messages, holdfast still kills the command when the grace is over, and ends.
func TestRunKillsThoughNobodyListens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j, listen := beginMute(t, srv, "--lease", "15s", "--grace", "200ms", "x", "--", "sh", "-c", deaf)
	defer listen()
	j.readies(1)
	forceUnlock(t, srv)
	require.Equal(t, "told", j.line())
	took := kit.Stopwatch()
	require.Empty(t, j.gone())
	require.Less(t, took(), 7*time.Second, "the lease was over first")
	require.Equal(t, 79, j.code())
	require.Less(t, took(), 12*time.Second)
}

// It also still forwards signals to the command.
func TestRunForwardsSignalsThoughNobodyListens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j, listen := beginMute(t, srv, "--lease", "4s", "--on-loss", "keep", "x", "--", "sh", "-c", deaf)
	defer listen()
	j.readies(1)
	forceUnlock(t, srv)
	<-time.After(2 * time.Second) // the loss shows in this time
	j.signal(syscall.SIGTERM)
	require.Equal(t, "told", j.line())
	j.signal(syscall.SIGKILL)
}

// Messages come in order, and all of them are written, even if the reader is late.
func TestRunSaysAllInTheEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := run(t, srv, nil, "run", "--verbose", "--lease", "6s", "x", "--", "sh", "-c", `
		"$0" --redis "$1" unlock --yes x >/dev/null; trap "echo told >&2; exit 3" TERM
		while :; do sleep 0.05; done`, binary, "redis://"+srv.Addr())
	require.Equal(t, 79, r.code)
	require.Regexp(t, `(?s)^holdfast: getting lock took .*\nholdfast: executing sh\n`+
		`.*stopping the command\n.*holdfast: the command ended with 3\n$`, r.stderr)
}

// A signal that comes between taking the lock and becoming the command ends the run: the command does not run.
func TestRunNoForkIsEndedBeforeTheCommand(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		srv := redistest.Start(t)
		j, listen := beginMute(t, srv, "--verbose", "-F", "--lease", "1h", "x", "--", "echo", "ran")
		kit.Await(t, "it has the lock", func() bool { return !free(t, srv, "x") })
		<-time.After(100 * time.Millisecond) // its message about that is read by nobody
		j.signal(sig)
		<-time.After(50 * time.Millisecond) // time for the signal to arrive
		listen()
		require.Empty(t, j.gone())
		require.Equal(t, 128+int(sig), j.code())
		require.True(t, free(t, srv, "x"), "the lock was not given back")
	}
}

func TestRunNestedIsEndedBeforeTheCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	hold, err := rlock.New(open(t, srv, nil), "x", nil).Lock(t.Context())
	require.NoError(t, err)
	before := srv.CommandStats(t)
	around := `HOLDFAST_RUNS=[{"name":"eA==","kind":"lock","owner":"` + hold.ID() + `"}]`
	j, listen := beginMuteWith(t, srv, []string{around}, "run", "--verbose", "x", "--", "echo", "ran")
	kit.Await(t, "it has asked for the run around it", func() bool {
		now := srv.CommandStats(t)
		return now["hgetall"]+now["evalsha"]+now["eval"] > before["hgetall"]+before["evalsha"]+before["eval"]
	})
	<-time.After(100 * time.Millisecond)
	j.signal(syscall.SIGTERM)
	<-time.After(50 * time.Millisecond)
	listen()
	require.Empty(t, j.gone())
	require.Equal(t, 143, j.code())
	require.False(t, free(t, srv, "x"), "the lock belongs to the run around it")
}

// If the lock is lost before holdfast becomes the command, the command does not run.
func TestRunNoForkLosesTheLockBeforeTheCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j, listen := beginMute(t, srv, "--verbose", "-F", "--lease", "500ms", "x", "--", "echo", "ran")
	defer listen()
	kit.Await(t, "it has had the lock", func() bool { return srv.CommandStats(t)["hset"] > 0 })
	require.Empty(t, j.gone())
	require.Equal(t, 79, j.code())
}

// A command that cannot be executed leaves no lock behind.
func TestRunNoForkOfWhatCannotRun(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	broken := program(t, "#!/no/such/interpreter\n")
	for name, flags := range map[string][]string{
		"lock": nil, "fair": {"--fair"}, "read": {"-s"},
		"fenced": {"--fenced"}, "fair and fenced": {"--fair", "--fenced"}, "permit": {"--permits", "1"},
	} {
		for range 2 { // the second gets the lock at once
			r := run(t, srv, nil, append(append([]string{"run", "-n", "-F", "--lease", "1h"}, flags...), name,
				"--", broken)...)
			require.Equal(t, 69, r.code, r.stderr)
			require.Contains(t, r.stderr, broken)
		}
	}
	require.Equal(t, 0, run(t, srv, nil, "run", "-n", "lock", "--", "true").code)
	require.Equal(t, "1\n", ok(t, srv, "semaphore", "count", "permit"))
}

// program writes an executable file and returns its path.
func program(t testing.TB, text string) string {
	t.Helper()
	path := script(t, "")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

// A script without a #! line is run by sh, as by flock and every shell.
func TestRunAScriptWithoutAnInterpreter(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	text := program(t, `echo "$0" "$@"; exit 5`)
	for name, args := range map[string][]string{
		"child":  {"run", "x", "--", text, "a b", "-c"},
		"become": {"run", "-F", "--lease", "1h", "y", "--", text, "a b", "-c"},
		"nested": {"run", "x", "--", binary, "run", "x", "--", text, "a b", "-c"},
	} {
		r := run(t, srv, nil, args...)
		require.Equal(t, 5, r.code, "%s: %s", name, r.stderr)
		require.Equal(t, text+" a b -c\n", r.stdout, name)
	}
}
