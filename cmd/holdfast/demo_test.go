//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniredisserver "github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// asCommand is a variable in the environment that turns the test binary into the command, and so also into the
// workers that a demo starts.
const asCommand = "HOLDFAST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run())
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // the demos mostly wait
	os.Exit(m.Run())
}

// A command is a run of holdfast.
type command struct {
	*exec.Cmd
	stdout io.ReadCloser
	out    *bufio.Reader // of stdout
	stderr strings.Builder
	temp   string // its folder for temporary files
}

// start runs holdfast in a process group of its own, as a shell does.
func start(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	c := &command{Cmd: exec.CommandContext(ctx, os.Args[0], args...), temp: t.TempDir()}
	c.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+c.temp)
	if !slices.Contains(args, "--redis") { // the embedded server has no user
		c.Env = append(c.Env, cli.EnvUser+"=app", cli.EnvPassword+"=secret")
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Stderr = &c.stderr
	var err error
	c.stdout, err = c.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(c.stdout)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.signal(syscall.SIGKILL) })
	return c
}

// signal signals all processes of the run, as Ctrl-C does.
func (c *command) signal(s syscall.Signal) error { return syscall.Kill(-c.Process.Pid, s) }

// until reads lines until one contains the text.
func (c *command) until(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			_ = c.Wait() // then its output is complete
		}
		require.NoError(t, err, "no line with %q; stderr: %s", text, &c.stderr)
		if strings.Contains(line, text) {
			return
		}
	}
}

// end waits for the end of the run; it returns the rest of the output and the exit status.
func (c *command) end(t *testing.T) (out string, status int) {
	t.Helper()
	rest, err := io.ReadAll(c.out)
	require.NoError(t, err)
	err = c.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(rest), exit.ExitCode()
	}
	require.NoError(t, err)
	return string(rest), 0
}

// requireNothingLeft requires that the run has left no process and no file behind.
func (c *command) requireNothingLeft(t *testing.T) {
	t.Helper()
	require.ErrorIs(t, c.signal(0), syscall.ESRCH, "a process is left")
	files, err := os.ReadDir(c.temp)
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestDemo(t *testing.T) {
	t.Parallel()
	c := start(t, "demo")
	began := time.Now()
	out, status := c.end(t)
	t.Logf("%v\n%s%s", time.Since(began).Round(time.Millisecond), out, &c.stderr)
	require.Zero(t, status)
	require.Empty(t, c.stderr.String())
	c.requireNothingLeft(t)

	require.NotContains(t, out, "\x1b", "not on a terminal")
	scenes := regexp.MustCompile(`(?m)^holdfast demo (\w+) on an embedded server: `).Split(out, -1)
	require.Len(t, scenes, 1+3)
	for i, told := range []string{
		`SIGKILL to worker 1, .*worker [234] has taken over, .*` +
			`SIGSTOP to worker 2, .* about to write (\d+)\n.*worker [34] has taken over, .*` +
			`SIGCONT to worker 2, .*worker 2 knows of its loss, .*did not write (\d+): holdfast: lost "` + lostNothing,
		`a waiter of worker \d gives up\n.*all 11 were served in the order of the queue.*` +
			`SIGKILL to worker ([234]), .*a newcomer does not overtake: .*all 8 were served in the order of the queue` +
			lostNothing,
		`6 processes do jobs that need one of 3 permits\n.*SIGKILL to worker 1, .*` +
			`its permit has come back by itself, after .*` +
			`\n  \d\d+ jobs done, at most 3 at once; 3 of 3 permits are free again\nEverything held\.\n`,
	} {
		require.Regexp(t, `(?s)`+told, scenes[i+1])
	}
	stopped := regexp.MustCompile(`about to write (\d+)\n(?s:.*)did not write (\d+):`).FindStringSubmatch(out)
	require.Equal(t, stopped[1], stopped[2])
	counts := regexp.MustCompile(`the counter is (\d+) after (\d+) writes\n`).FindAllStringSubmatch(out, -1)
	require.Len(t, counts, 2)
	for _, c := range counts {
		require.NotEqual(t, "0", c[1])
		require.Equal(t, c[1], c[2])
	}
}

const lostNothing = `.*\n  lost updates: 0; [^\n]*\nEverything held\.\n`

func TestDemoInterrupted(t *testing.T) {
	for name, at := range map[string]struct{ scene, line string }{
		"before anything happens":  {"lock", "the lease is"},
		"while nobody can go on":   {"lock", "SIGKILL"},
		"while a worker is halted": {"lock", "SIGSTOP"},
		"before anybody gives up":  {"fair", "workers in the queue"},
		"while a dead one is next": {"fair", "does not overtake"},
		"while a dead one works":   {"pool", "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, "demo", at.scene)
			c.until(t, at.line)
			began := time.Now()
			require.NoError(t, c.signal(syscall.SIGINT))
			_, status := c.end(t)
			require.Equal(t, 130, status, "stderr: %s", &c.stderr)
			require.Less(t, time.Since(began), 5*time.Second)
			require.Equal(t, "holdfast: demo: interrupted\n", c.stderr.String())
			c.requireNothingLeft(t)
		})
	}
}

// A server that has a lock for every session, where there should be one for all, lets several workers write at once,
// and the demo reports it.
func TestDemoWithoutExclusion(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	defer server.Close()
	owner := regexp.MustCompile(`(?m)^([0-9a-f-]{36}):\d+(?: \d+)?$`) // also its place in the line
	server.Server().SetPreHook(func(_ *miniredisserver.Peer, command string, args ...string) bool {
		if !strings.HasPrefix(command, "EVAL") {
			return false
		}
		keys, _ := strconv.Atoi(args[1])
		if session := owner.FindStringSubmatch(strings.Join(args, "\n")); session != nil {
			for i := range keys {
				args[2+i] += ":" + session[1]
			}
		}
		return false // and the script runs
	})
	c := start(t, "demo", "lock", "--redis", "redis://"+server.Addr())
	out, status := c.end(t)
	require.Equal(t, 1, status)
	require.NotContains(t, out, "Everything held")
	require.Regexp(t, `^holdfast: demo: lock: a lost update: worker \d and worker \d both wrote \d+\n$`,
		c.stderr.String())
	c.requireNothingLeft(t)
}

// A server that has one permit more than agreed lets too many work, and the demo reports it.
func TestDemoWithoutLimit(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	defer server.Close()
	c := start(t, "demo", "pool", "--redis", "redis://"+server.Addr())
	c.until(t, "6 processes do jobs")
	permits := slices.DeleteFunc(server.Keys(),
		func(key string) bool { return !strings.HasPrefix(key, "holdfast-demo:") })
	require.Len(t, permits, 1)
	_, err := server.Incr(permits[0], 1)
	require.NoError(t, err)

	out, status := c.end(t)
	require.Equal(t, 1, status)
	require.NotContains(t, out, "Everything held")
	require.Equal(t, "holdfast: demo: pool: 4 worked at once, with 3 permits\n", c.stderr.String())
	c.requireNothingLeft(t)
	for _, key := range server.Keys() { // the key that tells which process the dead worker was
		require.True(t, strings.HasPrefix(key, "holdfast_session:"), key)
	}
}

// A demo that is killed cannot clean up, but its workers still end.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	defer server.Close()
	c := start(t, "demo", "--redis", "redis://"+server.Addr())
	c.until(t, "the lease is")
	require.NotZero(t, server.CurrentConnectionCount())
	require.NoError(t, c.Process.Kill())
	require.Eventually(t, func() bool { return server.CurrentConnectionCount() == 0 }, 10*time.Second,
		10*time.Millisecond)
	c.end(t)
}

// The reader of the output may go away.
func TestDemoUnheard(t *testing.T) {
	t.Parallel()
	c := start(t, "demo")
	c.until(t, "the lease is")
	require.NoError(t, c.stdout.Close())
	require.Error(t, c.Wait())
	require.Equal(t, 1, c.ProcessState.ExitCode())
	require.Contains(t, c.stderr.String(), "broken pipe")
	c.requireNothingLeft(t)
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"dmeo":                            "unknown command \"dmeo\"",
		"demo tango":                      "invalid argument \"tango\" for \"holdfast demo\"",
		"demo lock lock":                  "accepts at most 1 arg(s), received 2",
		"demo --redis http://localhost":   "--redis: ",
		"demo --server redis://localhost": "unknown flag: --server",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := start(t, strings.Fields(args)...)
			out, status := c.end(t)
			require.Equal(t, 64, status)
			require.Empty(t, out)
			require.Contains(t, c.stderr.String(), want)
			if !strings.HasPrefix(want, "--redis") { // it tells what it wants
				require.Contains(t, c.stderr.String(), "--help")
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "holdfast demo ",
		"--help":                   "holdfast demo ",
		"demo --help":              "lock.unlock();",
		"bench --help":             "holdfast bench --json",
		"doctor --help":            "holdfast doctor",
		"help exit-codes":          "the lock was lost while the command ran",
		"latch --help":             "holdfast latch",
		"latch count --help":       "holdfast latch count",
		"latch down --help":        "holdfast latch down",
		"latch set --help":         "holdfast latch set",
		"ls --help":                "holdfast ls",
		"run --help":               "holdfast run",
		"semaphore --help":         "holdfast semaphore",
		"semaphore add --help":     "holdfast semaphore add",
		"semaphore count --help":   "holdfast semaphore count",
		"semaphore release --help": "holdfast semaphore release",
		"semaphore set --help":     "holdfast semaphore set",
		"show --help":              "holdfast show",
		"trial --help":             "holdfast trial",
		"unlock --help":            "holdfast unlock",
		"wait --help":              "holdfast wait",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := start(t, strings.Fields(args)...)
			out, status := c.end(t)
			require.Zero(t, status)
			require.Contains(t, out, want)
			for line := range strings.Lines(out) {
				require.LessOrEqual(t, len(line), 80+1, line)
			}
		})
	}
}

func TestDemoWithoutServer(t *testing.T) {
	for _, scene := range []string{"lock", "fair", "pool"} {
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			c := start(t, "demo", scene, "--redis", "redis://127.0.0.1:1")
			_, status := c.end(t)
			require.Equal(t, 69, status)
			const refused = `redis://127.0.0.1:1: holdfast: open: dial tcp 127.0.0.1:1: .*refused\n`
			require.Regexp(t, "^holdfast: demo: "+scene+": "+refused+"$", c.stderr.String())
			c.requireNothingLeft(t)
		})
	}
}
