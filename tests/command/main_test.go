// Package command tests the command holdfast as its users have it: the real binary, on real servers.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// binary is the command with the race detector, and plain as its users have it. Each is built once.
var binary, plain string

// raced has an entry for each verb that a test has run with the race detector.
var raced sync.Map

// asChild is a variable in the environment that turns the test binary into one of children, which the command runs in
// tests.
const asChild = "HOLDFAST_TEST_CHILD"

var children = map[string]func(){"signals": tellSignals}

func TestMain(m *testing.M) {
	if child := children[os.Getenv(asChild)]; child != nil {
		child()
		return
	}
	code := 1
	defer func() { os.Exit(code) }()
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) { // for example by nohup: the processes started here would ignore it as well
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	// otherwise a process with the race detector sleeps for a second at its end
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	folder, err := os.MkdirTemp("", "holdfast-command-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer os.RemoveAll(folder)
	_ = os.Chmod(folder, 0o755) // other users run it, too
	binary = filepath.Join(folder, "holdfast")
	plain = binary + "-plain"
	for path, race := range map[string]string{binary: "-race", plain: "-race=false"} {
		build := exec.Command("go", "build", race, "-o", path, "github.com/holdfast-go/holdfast/cmd/holdfast")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
	code = m.Run()
}

// A result is how a run ended, and what it printed.
type result struct {
	stdout, stderr string
	code           int
}

// run runs the command on a server to its end; env has more "NAME=value" pairs. With the race detector, a run costs
// three times as much. So the detector only watches the first run of a verb in each test; with HOLDFAST_STRESS, all.
func run(t testing.TB, srv *redistest.Server, env []string, args ...string) result {
	t.Helper()
	cmd := command(t, srv, env, args...)
	test, _, _ := strings.Cut(t.Name(), "/")
	if _, again := raced.LoadOrStore(fmt.Sprint(test, args[:min(1, len(args))]), true); again && kit.Stressed(0, 1) == 0 {
		cmd.Path = plain
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil {
		require.True(t, ok, "%v", err)
		require.True(t, exit.Exited(), "%v: %s", err, &stderr)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok is run for a command that must succeed; it returns what was printed.
func ok(t testing.TB, srv *redistest.Server, args ...string) string {
	t.Helper()
	r := run(t, srv, nil, args...)
	require.Equal(t, 0, r.code, "%v: %s", args, r.stderr)
	return r.stdout
}

// command prepares a run. It is killed after two minutes, and with the test.
func command(t testing.TB, srv *redistest.Server, env []string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(cleanEnv(), env...)
	if srv != nil {
		cmd.Env = append(cmd.Env, "HOLDFAST_REDIS=redis://"+srv.Addr())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// cleanEnv is the environment without the variables that the command reads.
func cleanEnv() (env []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "HOLDFAST_") {
			env = append(env, entry)
		}
	}
	return env
}

// open opens a session of this process on the server.
func open(t testing.TB, srv *redistest.Server, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	return kit.OpenKnown(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}}, opts)
}

// unread opens a pipe that nobody reads any more.
func unread(t testing.TB) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// openFull opens a file of a disk that is full.
func openFull(t testing.TB) *os.File {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no disk that is always full")
	}
	t.Cleanup(func() { _ = full.Close() })
	return full
}

// unwritable open files to which nothing can be written.
var unwritable = map[string]func(t testing.TB) *os.File{"nobody reads": unread, "full disk": openFull}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^holdfast version \S+\n$`, ok(t, nil, "version"))
	require.Equal(t, ok(t, nil, "--version"), ok(t, nil, "version"))
	for name, open := range unwritable {
		for _, word := range []string{"version", "exit-codes"} {
			cmd := command(t, nil, nil, word)
			cmd.Stdout = open(t)
			require.Error(t, cmd.Run(), name)
			require.Equal(t, name == "full disk", cmd.ProcessState.ExitCode() == 1, "%s, %s", word, name)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no such command": {"frobnicate"}, "no such flag": {"demo", "--frobnicate"}, "no such scene": {"demo", "opera"},
		"no such topic": {"help", "frobnicate"}, "none below": {"help", "latch", "frobnicate"},
		"no such shell": {"completion", "frobnicate"}, "none": {"exit-codes", "frobnicate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, nil, nil, args...)
			require.Equal(t, 64, r.code)
			require.Empty(t, r.stdout)
			require.Contains(t, r.stderr, "holdfast: ")
			require.Contains(t, r.stderr, "--help")
		})
	}
}
