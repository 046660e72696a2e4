package command

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestRunEndsAsTheCommandDoes(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"well":      {[]string{"--", "true"}, 0},
		"badly":     {[]string{"--", "sh", "-c", "exit 7"}, 7},
		"by a kill": {[]string{"--", "sh", "-c", "kill -9 $$"}, 137},
		"by TERM":   {[]string{"--", "sh", "-c", "kill -TERM $$"}, 143},
		"shell":     {[]string{"-c", "exit $((4+4))"}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, srv, nil, append([]string{"run", t.Name()}, tt.args...)...)
			require.Equal(t, tt.code, r.code, r.stderr)
			require.Empty(t, r.stderr)
			require.True(t, free(t, srv, t.Name()))
		})
	}
}

// While somebody else holds it, a lock of any kind is refused, in the way and with the code asked for.
func TestRunConflicts(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, &holdfast.Options{Anonymous: true})
	hold, err := rlock.New(s, "plain", nil).Lock(t.Context())
	require.NoError(t, err)
	_, err = rwlock.New(s, "read", nil).Read().Lock(t.Context())
	require.NoError(t, err)
	pool := semaphore.NewExpirable(s, "pool", nil)
	_, err = pool.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	_, err = pool.Acquire(t.Context())
	require.NoError(t, err)

	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"plain":             {[]string{"-n", "plain"}, 1},
		"-w":                {[]string{"-w", "0.5", "plain"}, 1},
		"-w with a unit":    {[]string{"-w", "500ms", "plain"}, 1},
		"-w 0":              {[]string{"-w", "0", "plain"}, 1},
		"-E":                {[]string{"-n", "-E", "75", "plain"}, 75},
		"-E 0":              {[]string{"-n", "-E", "0", "plain"}, 0},
		"fair":              {[]string{"-n", "--fair", "plain"}, 1},
		"fenced":            {[]string{"-n", "--fenced", "plain"}, 1},
		"write beside read": {[]string{"-n", "-x", "read"}, 1},
		"permit":            {[]string{"-n", "--permits", "1", "pool"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, srv, nil, append(append([]string{"run"}, tt.args...), "--", "echo", "ran")...)
			require.Equal(t, tt.code, r.code, r.stderr)
			require.Empty(t, r.stdout)
			require.Empty(t, r.stderr, "flock prints nothing either")
		})
	}
	for name, args := range map[string][]string{
		"an rlock or a fairlock": {"-s", "plain"}, "an rwlock": {"-n", "read"},
	} {
		r := run(t, srv, nil, append(append([]string{"run"}, args...), "--", "echo", "ran")...)
		require.Equal(t, 64, r.code, r.stderr)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "wrong kind: the name is that of "+name)
	}
	r := run(t, srv, nil, "run", "-s", "read", "--", "echo", "ran")
	require.Equal(t, "ran\n", r.stdout, "readers exclude each other")
	r = run(t, srv, nil, "run", "-n", "--verbose", "plain", "--", "true")
	require.Contains(t, r.stderr, "failed to get lock, held by ? "+hold.ID()+"\n")
	r = run(t, srv, nil, "run", "-n", "--verbose", "--json", "plain", "--", "true")
	require.Contains(t, r.stderr, `"holders":[{`)
	r = run(t, srv, nil, "run", "-n", "--verbose", "--json", "--permits", "1", "pool", "--", "true")
	require.Contains(t, r.stderr, `"event":"conflict"`)
	require.NotContains(t, r.stderr, "holders", "its holders are not known")
	r = run(t, srv, nil, "run", "-n", "--permits", "3", "pool", "--", "true")
	require.Contains(t, r.stderr, `"pool" keeps its 1 permit; --permits 3 does not change that`)
}

// A run that waits is woken by a release, and says first whom it waits for.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, &holdfast.Options{Anonymous: true})
	for name, tt := range map[string]struct {
		flag, mode string
		lock       holdfast.Locker
	}{
		"plain": {"--fenced=false", "", rlock.New(s, "plain", nil)},
		"fair":  {"--fair", "", fairlock.New(s, "fair", nil)},
		"write": {"-x", "read ", rwlock.New(s, "write", nil).Read()},
		"read":  {"-s", "write ", rwlock.New(s, "read", nil).Write()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hold, err := tt.lock.Lock(t.Context())
			require.NoError(t, err)
			j := begin(t, srv, "--verbose", tt.flag, name, "--", "echo", "ran")
			j.said("waiting for \"" + name + "\", held by " + tt.mode + "? " + hold.ID() + "\n")
			require.NoError(t, hold.Release())
			require.Equal(t, []string{"ran"}, j.gone())
			require.Equal(t, 0, j.code())
			require.Contains(t, j.stderr.String(), "getting lock took ")
			require.Contains(t, j.stderr.String(), "executing echo")
		})
	}
}

// Others see which program runs, but not its arguments, which may be secret.
func TestRunTellsWhatItRuns(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "60s", "x", "--", "sh", "-c", "echo ready; read go; exit 0 # secret")
	j.readies(1)
	hold := rlock.New(open(t, srv, nil), "x", nil)
	kit.Await(t, "the holder has told of itself", func() bool {
		holders, err := hold.Holders(t.Context())
		return err == nil && len(holders) == 1 && holders[0].Label == "holdfast run: sh" &&
			holders[0].PID == j.cmd.Process.Pid
	})
	waits := begin(t, srv, "--verbose", "x", "--", "true")
	waits.said("[" + strconv.Itoa(j.cmd.Process.Pid) + "] (holdfast run: sh)")
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 0, waits.code())
}

// A run says who is in its way just as ls and show do, to people and to programs.
func TestRunNamesHoldersAsShowDoes(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	holders := func(text string) (list []map[string]any) {
		var told struct{ Holders []map[string]any }
		require.NoError(t, json.Unmarshal([]byte(text), &told), text)
		for _, h := range told.Holders {
			require.InDelta(t, 60_000, h["lease_ms"], 30_000)
			delete(h, "lease_ms")
		}
		return told.Holders
	}
	for flag, want := range map[string]string{"--fenced": "--fenced", "--fair": "--fair", "-s": "-x", "-x": "-s"} {
		name := "held by " + flag
		j := begin(t, srv, flag, "--lease", "60s", name, "--", "sh", "-c", "echo ready; read go")
		j.readies(1)
		kit.Await(t, "the holder has told of itself",
			func() bool { return strings.Contains(ok(t, srv, "show", name), "(holdfast run: sh)") })
		r := run(t, srv, nil, "run", "-n", want, "--verbose", name, "--", "true")
		by := strings.Split(ok(t, srv, "ls", name), "\t")[2]
		require.Equal(t, "holdfast: failed to get lock, held by "+by+"\n", r.stderr)
		r = run(t, srv, nil, "run", "-n", want, "--verbose", "--json", name, "--", "true")
		require.Equal(t, holders(ok(t, srv, "show", "--json", name)), holders(r.stderr))
		require.NoError(t, j.stdin.Close())
		require.Equal(t, 1, j.code())
	}
}

func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	show := []string{
		"--", "sh", "-c",
		`echo "$HOLDFAST_NAME"; echo "$HOLDFAST_OWNER"; echo "$HOLDFAST_TOKEN"; echo "$HOLDFAST_DEADLINE"; read go`,
	}
	j := beginWith(t, srv, []string{"TZ=Asia/Tokyo"}, append([]string{"--fenced", "a name"}, show...)...)
	require.Equal(t, "a name", j.line())
	owner := j.line()
	require.Equal(t, []string{owner}, srv.Strs(t, "HKEYS", "a name"))
	require.Equal(t, "1", j.line())
	deadline, err := time.Parse("2006-01-02T15:04:05.000Z", j.line())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(30*time.Second), deadline, 10*time.Second)
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 1, j.code())

	env := []string{"HOLDFAST_TOKEN=99", "HOLDFAST_NAME=other"}
	r := run(t, srv, env, append([]string{"run", "--permits", "2", "pool"}, show...)...)
	lines := strings.Split(r.stdout, "\n")
	require.Equal(t, "pool", lines[0])
	require.Len(t, lines[1], 32, "a permit's id")
	require.Empty(t, lines[2], "a token of somebody else's")
}

func TestRunPassesStdin(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "x", "--", "cat")
	_, err := j.stdin.WriteString("one\n")
	require.NoError(t, err)
	require.Equal(t, "one", j.line())
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 0, j.code())
}

func TestRunTellsInJSON(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	hold, err := rlock.New(open(t, srv, nil), "x", nil).Lock(t.Context())
	require.NoError(t, err)
	j := begin(t, srv, "--json", "--verbose", "x", "--", "echo", "a & b")
	j.said("waiting")
	require.NoError(t, hold.Release())
	require.Equal(t, []string{"a & b"}, j.gone())
	require.Equal(t, 0, j.code())
	var events []string
	for text := range strings.Lines(j.stderr.String()) {
		var message struct{ Event, Name, Text string }
		require.NoError(t, json.Unmarshal([]byte(text), &message))
		require.Equal(t, "x", message.Name)
		require.NotEmpty(t, message.Text)
		events = append(events, message.Event)
	}
	require.Equal(t, []string{"waiting", "acquired", "executing"}, events)

	for name, tt := range map[string]struct {
		code int
		args []string
	}{
		"no server":  {69, []string{"x", "--", "true"}},
		"no program": {69, []string{"x", "--", "no-such-program"}},
		"no command": {64, []string{"x"}},
		"no lease":   {64, []string{"-F", "x", "--", "true"}},
	} {
		r := run(t, nil, []string{"HOLDFAST_REDIS=redis://localhost:1"},
			append([]string{"run", "--json"}, tt.args...)...)
		require.Equal(t, tt.code, r.code, name)
		var failure struct {
			Event, Name string
			Code        int
		}
		require.NoError(t, json.Unmarshal([]byte(r.stderr), &failure), "%s: %s", name, r.stderr)
		require.Equal(t, tt.code, failure.Code, name)
		require.Equal(t, "error", failure.Event)
		require.Equal(t, "x", failure.Name)
	}
}

// What the command leaves running in its group is ended before the lock is given back; a daemon lives on.
func TestRunEndsWhatIsLeft(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	obstinate := script(t, `trap "" TERM; echo ready; while :; do sleep 0.05; done`)
	j := begin(t, srv, "--grace", "200ms", "x", "--", "sh", "-c", obstinate+" & read go; exit 5")
	require.Equal(t, "ready", j.line())
	require.NoError(t, j.stdin.Close())
	require.Empty(t, j.gone())
	require.Equal(t, 5, j.code())
	require.True(t, free(t, srv, "x"))

	j = begin(t, srv, "x", "--", "sh", "-c", `setsid sh -c 'echo ready; sleep 60' & read go; exit 6`)
	require.Equal(t, "ready", j.line())
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 6, j.code())
	select {
	case <-j.lines:
		require.Fail(t, "the daemon was ended")
	default:
	}
}

// A run that is to keep others out does so when its command has ended, or when it has died itself.
func TestRunKeepsOthersOutForAtLeastSoLong(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, mode := range map[string]string{"plain": "--fair=false", "fair": "--fair", "write": "-x"} {
		r := run(t, srv, nil, "run", "--at-least", "1h", "--lease", "15s", mode, name, "--", "echo", "ran")
		require.Equal(t, "ran\n", r.stdout, r.stderr)
		r = run(t, srv, nil, "run", "-n", mode, name, "--", "echo", "ran")
		require.Equal(t, 1, r.code, r.stderr)
		require.Empty(t, r.stdout)
		require.Greater(t, srv.Int(t, "PTTL", name), int64(3_000_000))
	}
	r := run(t, srv, nil, "run", "--at-least", "20ms", "--lease", "15s", "short", "--", "sleep", "0.1")
	require.Zero(t, r.code, r.stderr)
	kit.Await(t, "the end of the lease", func() bool { return srv.Int(t, "EXISTS", "short") == 0 })
	r = run(t, srv, nil, "run", "--at-least", "1m", "--lease", "5m", "shorter than the lease", "--", "true")
	require.Zero(t, r.code, r.stderr)
	require.Less(t, srv.Int(t, "PTTL", "shorter than the lease"), int64(70_000))
	r = run(t, srv, nil, "run", "--at-least", "1ms", "short", "--", "true")
	require.Equal(t, 64, r.code)
	require.Contains(t, r.stderr, "--at-least is 1ms, must be at least 10ms")
	r = run(t, srv, nil, "run", "--at-least", "1h", "--permits", "2", "pool", "--", "true")
	require.Equal(t, 64, r.code)
}

// A command that could not be started keeps nobody out.
func TestRunKeepsNobodyOutWithoutACommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	broken := program(t, "#!/no/such/interpreter\n")
	for name, mode := range map[string]string{"plain": "--fair=false", "fair": "--fair", "write": "-x"} {
		r := run(t, srv, nil, "run", "-n", "--at-least", "1h", mode, name, "--", broken)
		require.Equal(t, 69, r.code, r.stderr)
		require.True(t, free(t, srv, name), name)
	}
}

// With --take-over a command that fails, or is killed, keeps nobody out; one that succeeds does.
func TestRunMayBeTakenOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	attempt := func(line string) result {
		return run(t, srv, nil, "run", "-n", "--take-over", "--at-least", "1h", "--lease", "15s", "job", "-c", line)
	}
	require.Equal(t, 3, attempt("exit 3").code)
	require.Equal(t, 143, attempt("kill $$").code)
	killed := command(t, srv, nil, "run", "--take-over", "--at-least", "1h", "--lease", "15s", "job", "--", "sleep", "60")
	require.NoError(t, killed.Start())
	kit.Await(t, "the command", func() bool { return srv.Int(t, "EXISTS", "job") == 1 })
	require.Less(t, srv.Int(t, "PTTL", "job"), int64(15_001), "nothing but the lease keeps others out meanwhile")
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait()
	kit.Await(t, "the end of the lease", func() bool { return srv.Int(t, "EXISTS", "job") == 0 })

	began := time.Now()
	require.Zero(t, attempt("sleep 0.1").code)
	require.Equal(t, 1, attempt("exit 0").code)
	left := srv.Int(t, "PTTL", "job")
	require.InDelta(t, time.Hour.Milliseconds()-time.Since(began).Milliseconds(), left, 20_000, "from the start")

	r := run(t, srv, nil, "run", "--at-least", "50ms", "--take-over", "short", "--", "sleep", "0.1")
	require.Zero(t, r.code, r.stderr)
	require.Zero(t, srv.Int(t, "EXISTS", "short"), "the time is over already")
	require.Equal(t, 64, run(t, srv, nil, "run", "--take-over", "short", "--", "true").code)
}
