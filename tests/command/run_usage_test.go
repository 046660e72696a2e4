package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestRunUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nothing":             {},
		"no command":          {"x"},
		"no dashes":           {"x", "ls"},
		"no name":             {"--", "ls", "-l"},
		"no name for -c":      {"-c", "ls"},
		"no such flag":        {"x", "--such", "--", "ls"},
		"two commands":        {"x", "-c", "ls", "--", "ls"},
		"empty name":          {"", "--", "ls"},
		"-s -x":               {"-s", "-x", "x", "--", "ls"},
		"-s --fair":           {"-s", "--fair", "x", "--", "ls"},
		"-n -w":               {"-n", "-w", "1", "x", "--", "ls"},
		"-w negative":         {"-w", "-1", "x", "--", "ls"},
		"-w text":             {"-w", "soon", "x", "--", "ls"},
		"-w not a number":     {"-w", "nan", "x", "--", "ls"},
		"-E too high":         {"-E", "256", "x", "--", "ls"},
		"-E negative":         {"-E", "-1", "x", "--", "ls"},
		"-F without a lease":  {"-F", "x", "--", "ls"},
		"-F with a tiny one":  {"-F", "--lease", "1ms", "x", "--", "ls"},
		"--lease too short":   {"--lease", "999ms", "x", "--", "ls"},
		"--lease in seconds":  {"--lease", "0.9", "x", "--", "ls"},
		"--grace negative":    {"--grace", "-1s", "x", "--", "ls"},
		"--on-loss":           {"--on-loss", "panic", "x", "--", "ls"},
		"--permits 0":         {"--permits", "0", "x", "--", "ls"},
		"--permits 2^53":      {"--permits", "9007199254740992", "x", "--", "ls"},
		"--permits -s":        {"--permits", "1", "-s", "x", "--", "ls"},
		"a secret in --redis": {"--redis", "redis://user:secret@localhost", "x", "--", "ls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, nil, nil, append([]string{"run"}, args...)...)
			require.Equal(t, 64, r.code, r.stderr)
			require.Contains(t, r.stderr, "holdfast: ")
			require.NotContains(t, r.stderr, "secret")
		})
	}
}

func TestRunWithoutRedisOrProgram(t *testing.T) {
	t.Parallel()
	nowhere := []string{"HOLDFAST_REDIS=redis://localhost:1"}
	require.Equal(t, 69, run(t, nil, nowhere, "run", "x", "--", "true").code)
	require.Equal(t, 69, run(t, nil, nowhere, "run", "x", "--", "no-such-program").code)

	srv := redistest.Start(t)
	broken := program(t, "#!/no/such/interpreter\n")
	r := run(t, srv, nil, "run", "x", "--", broken)
	require.Equal(t, 69, r.code)
	require.Contains(t, r.stderr, broken)
	require.True(t, free(t, srv, "x"))

	srv.Do(t, "SET", "text", "no lock")
	r = run(t, srv, nil, "run", "-n", "text", "--", "true")
	require.Equal(t, 64, r.code)
	require.Contains(t, r.stderr, "holdfast: wrong kind: the name is that of ")
}

// After the name, holdfast takes nothing for its own that may be meant for the command.
func TestRunWantsDashesBeforeTheCommand(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"flock's habit":                  {"x", "ls", "-l"},
		"a flag of holdfast's as well":   {"x", "ls", "-n"},
		"a flag in between":              {"x", "-n", "ls"},
		"a flag of nobody's in between":  {"x", "-l", "ls"},
		"dashes behind the command":      {"x", "ls", "--", "y"},
		"help of the command":            {"x", "ls", "--help"},
		"a text of the command's own -c": {"x", "sh", "-c", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, nil, nil, append([]string{"run"}, args...)...)
			require.Equal(t, 64, r.code, r.stderr)
			require.Contains(t, r.stderr, "write -- before the command")
			require.Empty(t, r.stdout)
		})
	}
}

// Holdfast's flags may be before and after the name, and a name may be any text.
func TestRunFlagsAndNames(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	take(t, rlock.New(open(t, srv, nil), "taken", nil))
	for name, tt := range map[string]struct {
		args   []string
		code   int
		stdout string
	}{
		"flags behind the name": {[]string{"taken", "-n", "-E", "9", "--", "echo", "ran"}, 9, ""},
		"on both sides":         {[]string{"-n", "taken", "-E", "9", "--", "echo", "ran"}, 9, ""},
		"-c behind the name":    {[]string{"free", "-n", "-c", "echo ran"}, 0, "ran\n"},
		"-c before the name":    {[]string{"-c", "echo ran", "free again"}, 0, "ran\n"},
		"a server behind the name": {
			[]string{"free once more", "--redis", "redis://" + srv.Addr(), "--", "echo", "ran"}, 0, "ran\n",
		},
		"a name with a dash":            {[]string{"--", "-n", "--", "echo", "ran"}, 0, "ran\n"},
		"a name with a dash, and flags": {[]string{"-E", "9", "--", "--name", "-n", "--", "echo", "ran"}, 0, "ran\n"},
		"a name with a dash, and -c":    {[]string{"-c", "echo $HOLDFAST_NAME", "--", "-x"}, 0, "-x\n"},
		"dashes of the command":         {[]string{"free for long", "--", "echo", "--", "-n"}, 0, "-- -n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, srv, nil, append([]string{"run"}, tt.args...)...)
			require.Equal(t, tt.code, r.code, r.stderr)
			require.Equal(t, tt.stdout, r.stdout)
		})
	}
	require.Contains(t, run(t, srv, nil, "run", "x", "--help").stdout, "holdfast run backup")
}

// The long flags mean the same as the letters.
func TestRunLongFlags(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, nil)
	take(t, rwlock.New(s, "read", nil).Read())
	take(t, rlock.New(s, "plain", nil))
	for name, tt := range map[string]struct {
		args   []string
		code   int
		stdout string
	}{
		"--nonblock":           {[]string{"--nonblock", "plain", "--", "echo", "ran"}, 1, ""},
		"--conflict-exit-code": {[]string{"--nonblock", "--conflict-exit-code", "9", "plain", "--", "echo", "ran"}, 9, ""},
		"--shared":             {[]string{"--nonblock", "--shared", "read", "--", "echo", "ran"}, 0, "ran\n"},
		"--exclusive":          {[]string{"--nonblock", "--exclusive", "read", "--", "echo", "ran"}, 1, ""},
		"--wait":               {[]string{"--wait", "0.5", "plain", "--", "echo", "ran"}, 1, ""},
		"--command":            {[]string{"--command", "echo a && exit 3", "free"}, 3, "a\n"},
		"--no-fork":            {[]string{"--no-fork", "--lease", "1h", "hourly", "--", "echo", "ran"}, 0, "ran\n"},
		"seconds":              {[]string{"--lease", "5", "--grace", "0.5", "seconds", "--", "echo", "ran"}, 0, "ran\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, srv, nil, append([]string{"run"}, tt.args...)...)
			require.Equal(t, tt.code, r.code, r.stderr)
			require.Equal(t, tt.stdout, r.stdout)
			if name == "--no-fork" {
				require.False(t, free(t, srv, "hourly"), "until its lease is over")
			}
		})
	}
}

func TestRunHelpAndCompletion(t *testing.T) {
	t.Parallel()
	require.Contains(t, ok(t, nil, "run", "--help"), "holdfast run backup -- ./backup.sh")
	require.Contains(t, ok(t, nil, "help", "exit-codes"), "79")
	require.Contains(t, ok(t, nil, "__complete", "run", "--on-loss", ""), "keep")
	require.Contains(t, ok(t, nil, "completion", "bash"), "holdfast")
	require.Contains(t, ok(t, nil, "completion"), "zsh")
	require.Contains(t, ok(t, nil, "help"), "unlock")
	require.Contains(t, ok(t, nil, "help", "semaphore", "add"), "holdfast semaphore add pool 2")
	require.Contains(t, ok(t, nil, "__complete", "help", "se"), "semaphore")
}
