//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// asCommand, in the environment, makes the test binary be the command, and so the workers that
// a demo starts as well.
const asCommand = "HOLDFAST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run())
	}
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
			_ = c.Wait() // what it has said is complete then
		}
		require.NoError(t, err, "no line with %q; stderr: %s", text, &c.stderr)
		if strings.Contains(line, text) {
			return
		}
	}
}

// end waits for the end; it returns the rest of the output and the exit status.
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

// requireNothingLeft says that the run has left no process and no file behind.
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
	scenes := regexp.MustCompile(`(?m)^holdfast demo (\w+) on (?:an embedded server|5 embedded servers): `).Split(out, -1)
	require.Len(t, scenes, 1+5)
	requireLockScene(t, scenes[1])
	requireFairScene(t, scenes[2])
	requireRWScene(t, scenes[3])
	requirePoolScene(t, scenes[4])
	requireRedLockScene(t, scenes[5])
}

func requireLockScene(t *testing.T, out string) {
	t.Helper()
	told := regexp.MustCompile(`(?s)SIGKILL to worker (\d), .*worker \d has taken over, .*` +
		`SIGSTOP to worker (\d), .* about to write (\d+)\n.*worker \d has taken over, .*` +
		`SIGCONT to worker (\d), .*worker (\d) has learned its loss before writing, .*` +
		`did not write (\d+): holdfast: lost "`).FindStringSubmatch(out)
	require.NotNil(t, told)
	killed, stopped, number := told[1], told[2], told[3]
	require.NotEqual(t, killed, stopped)
	require.Equal(t, []string{stopped, stopped, number}, told[4:], "the stopped one is resumed, and has not written")
	require.Contains(t, out, "takeovers     2\n")
	requireHeld(t, out)
}

func requireFairScene(t *testing.T, out string) {
	t.Helper()
	told := regexp.MustCompile(`(?s)a waiter of worker \d gives up\n.*number \d+ of 11 has left the queue, after .*` +
		`SIGKILL to worker (\d), which is number \d in the queue and has 3 places in all\n.*` +
		`a newcomer does not overtake, .*try lock: holdfast: busy\n.*` +
		`its places are gone, ([\d.]+) s after its death; .*\n  (\d), killed `).FindStringSubmatch(out)
	require.NotNil(t, told)
	require.Equal(t, told[1], told[3])
	gone, err := strconv.ParseFloat(told[2], 64)
	require.NoError(t, err)
	require.Less(t, gone, 2+1.0, "the lease of a waiter, and something for a busy machine")

	require.Regexp(t, `(?m)^  grants        [1-9]\d+, of which [1-9]\d+ to another process than the one before$`, out)
	require.Regexp(t, `(?m)^  out of order  0 of [1-9]\d+ that were seen to enter the queue$`, out)
	require.Regexp(t, `(?m)^  gave up       1, out of the queue after `, out)
	require.Regexp(t, `(?m)^  dead waiter   cost the others .* s, of 2.00 s at most$`, out)
	requireHeld(t, out)
}

func requireRWScene(t *testing.T, out string) {
	t.Helper()
	told := regexp.MustCompile(`(?s)6 processes read at once: .*a writer asks as in Redisson, .*` +
		`worker 1 got in to write after .*worker 1 goes on reading the (\d+) it wrote, and 6 readers join it at once, .*` +
		`worker 2 asks to write, and has to wait\n.*worker 1 reads (\d+) once more, .*` +
		`SIGKILL to worker (\d), which is reading; .*the 5 others read on: [1-9]\d* reads since; .*` +
		`worker 1 got in to write after .*, ([\d.]+) s after the death\n.*\n  (\d), killed `).FindStringSubmatch(out)
	require.NotNil(t, told)
	require.Equal(t, told[1], told[2])
	require.Equal(t, told[3], told[5])
	gone, err := strconv.ParseFloat(told[4], 64)
	require.NoError(t, err)
	require.Less(t, gone, 2+1.0, "the lease of a reader, and something for a busy machine")

	require.Regexp(t, `(?m)^  reads         [1-9]\d+, by up to 6 processes at once$`, out)
	require.Regexp(t, `(?m)^  torn reads    0 of [1-9]\d+: `, out)
	require.Regexp(t, `(?m)^  first writer  waited .* a read takes up to 80 ms$`, out)
	require.Regexp(t, `(?m)^  downgrade     6 readers joined within .*, and no writer got in for .*s$`, out)
	require.Regexp(t, `(?m)^  dead reader   kept writers out for .* s; its lease was 2.00 s$`, out)
	requireHeld(t, out)
}

func requirePoolScene(t *testing.T, out string) {
	t.Helper()
	told := regexp.MustCompile(`(?s)the latch at the start is open: 8 of 8 are ready, .*` +
		`SIGKILL to worker (\d), which has a permit, in the midst of job \d+\n.*` +
		`its permit has come back by itself, after ([\d.]+) s; until then the others had 2, and did [1-9]\d* jobs\n.*` +
		`the latch at the end is open: 120 of 120 jobs are done\n.*\n  (\d), killed `).FindStringSubmatch(out)
	require.NotNil(t, told)
	require.Equal(t, told[1], told[3])
	back, err := strconv.ParseFloat(told[2], 64)
	require.NoError(t, err)
	require.Less(t, back, 3+1.0, "the lease of a permit, and something for a busy machine")

	require.Regexp(t, `(?m)^  worker +acquired +done +waited: median +95 % +99 % +longest$`, out)
	require.Regexp(t, `(?m)^  all +12\d +120 `, out)
	require.Regexp(t, `(?m)^  at work       3 at once at the most, with 3 permits$`, out)
	require.Regexp(t, `(?m)^  start         8 of 8 were ready when the first job was begun$`, out)
	require.Regexp(t, `(?m)^  end           120 of 120 jobs were done when the latch opened$`, out)
	require.Regexp(t, `(?m)^  dead worker   its permit came back by itself after .* s; the lease was 3.00 s$`, out)
	require.Regexp(t, `(?m)^  permits       3 of 3 are free again$`, out)
	requireEnd(t, out)
}

func requireRedLockScene(t *testing.T, out string) {
	t.Helper()
	told := regexp.MustCompile(`(?s)servers 2 and 5 are killed; worker \d has the lock, and is sure of it for .*` +
		`its hold has outlived that deadline: .*the work goes on with 3 servers: [1-9]\d* acquisitions since, by [2-4] of 4 workers\n.*` +
		`server 3 is killed, the third of 5; worker (\d) has the lock, and is sure of it for .*` +
		`worker (\d) has learned its loss from its clock, before writing, .* its deadline:\n *` +
		`did not write (\d+): holdfast: lost "[^\n]*connection refused\n.*` +
		`nobody gets the lock any more; an attempt says:\n *redlock "[^\n]*: try lock: [0-2] of 5 servers granted it, 3 are needed: .*` +
		`the servers come back, .*somebody has the lock again, after .*\n` +
		`Worker (\d) had the lock when .* did not write (\d+)\.`).FindStringSubmatch(out)
	require.NotNil(t, told)
	require.Equal(t, []string{told[1], told[3]}, []string{told[2], told[5]})
	require.Equal(t, told[1], told[4])

	require.Regexp(t, `(?m)^  two killed    one went on holding, for .*; then [1-9]\d* acquisitions from 3 servers$`, out)
	require.Regexp(t, `(?m)^  three killed  the holder knew it .* its deadline; nobody had the lock for .*s$`, out)
	require.Regexp(t, `(?m)^  all back      the next one had the lock after .*s$`, out)
	requireHeld(t, out)
}

// requireHeld is about the end of the scenes that count.
func requireHeld(t *testing.T, out string) {
	t.Helper()
	counts := regexp.MustCompile(`lost updates  0: the counter is (\d+) after (\d+) writes\n`).FindStringSubmatch(out)
	require.NotNil(t, counts)
	require.NotEqual(t, "0", counts[1])
	require.Equal(t, counts[1], counts[2])
	require.Regexp(t, `(?m)^  worker +acquired +wrote +waited: median +95 % +99 % +longest$`, out)
	requireEnd(t, out)
}

// requireEnd is about the end of every scene.
func requireEnd(t *testing.T, out string) {
	t.Helper()
	require.True(t, strings.HasSuffix(strings.TrimRight(out, "\n"), "\nEverything held."))
}

func TestDemoInterrupted(t *testing.T) {
	for name, at := range map[string]struct{ scene, line string }{
		"before anything happens":  {"lock", "the lease is"},
		"while nobody can go on":   {"lock", "SIGKILL"},
		"while a worker is halted": {"lock", "SIGSTOP"},
		"before anybody gives up":  {"fair", "may cost the others"},
		"while nobody is served":   {"fair", "gives up"},
		"while a dead one is next": {"fair", "does not overtake"},
		"while all read":           {"rw", "read at once"},
		"while one reads on":       {"rw", "worker 2 asks"},
		"while a dead one reads":   {"rw", "others read on"},
		"while some are not ready": {"pool", "gets ready for"},
		"while a dead one works":   {"pool", "SIGKILL"},
		"while two servers died":   {"redlock", "servers 2 and 5"},
		"while most servers died":  {"redlock", "server 3 is killed"},
		"while nobody can hold":    {"redlock", "nobody gets the lock"},
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

// A server that forgets what it has granted lets readers in beside writers, and the demo tells.
func TestDemoWithoutExclusion(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	defer server.Close()
	c := start(t, "demo", "rw", "--redis", "redis://"+server.Addr())
	c.until(t, "got in to write")

	over := make(chan struct{})
	var forgetting sync.WaitGroup
	forgetting.Go(func() {
		for {
			select {
			case <-time.After(time.Millisecond):
				server.FlushAll()
			case <-over:
				return
			}
		}
	})
	out, status := c.end(t)
	close(over)
	forgetting.Wait()
	require.Equal(t, 1, status)
	require.NotContains(t, out, "Everything held")
	require.Regexp(t, `^holdfast: demo: rw: worker \d has read a half-written document, `+
		`with \d+ at its head and \d+ at its foot\n$`, c.stderr.String())
	c.requireNothingLeft(t)
}

// A server that has a permit more than was agreed lets too many work, and the demo tells.
func TestDemoWithoutLimit(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	defer server.Close()
	c := start(t, "demo", "pool", "--redis", "redis://"+server.Addr())
	c.until(t, "gets ready for")
	permits := slices.DeleteFunc(server.Keys(), func(key string) bool { return strings.Count(key, ":") > 1 })
	require.Len(t, permits, 1)
	_, err := server.Incr(permits[0], 1)
	require.NoError(t, err)

	out, status := c.end(t)
	require.Equal(t, 1, status)
	require.NotContains(t, out, "Everything held")
	require.Regexp(t, `^holdfast: demo: pool: (4 worked at once, with 3 permits`+
		`|what a dead worker held came back after .*, too early for a lease of 3.00 s)\n$`, c.stderr.String())
	c.requireNothingLeft(t)
	for _, key := range server.Keys() { // which process the dead worker was
		require.True(t, strings.HasPrefix(key, "holdfast_session:"), key)
	}
}

// A demo that is killed cannot clean up, but its workers end all the same.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	require.NoError(t, server.Start())
	defer server.Close()
	c := start(t, "demo", "--redis", "redis://"+server.Addr())
	c.until(t, "has the lock")
	require.NotZero(t, server.CurrentConnectionCount())
	require.NoError(t, c.Process.Kill())
	require.Eventually(t, func() bool { return server.CurrentConnectionCount() == 0 }, 10*time.Second, 10*time.Millisecond)
	c.end(t)
}

// Whoever reads the output may go.
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
		"demo tango":                      "demo has no scene \"tango\"",
		"demo lock lock":                  "demo shows one scene or all of them, not 2",
		"demo redlock --redis redis://x":  "the scene redlock kills servers, so it brings its own",
		"demo --redis localhost:6379":     "--redis: ",
		"demo --server redis://localhost": "unknown flag: --server",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := start(t, strings.Fields(args)...)
			out, status := c.end(t)
			require.Equal(t, 64, status)
			require.Empty(t, out)
			require.Contains(t, c.stderr.String(), want)
			if !strings.HasPrefix(want, "--redis") { // that says what it wants
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
	for scene, want := range map[string]string{
		"lock": `worker \d: open: dial tcp 127.0.0.1:1: .*refused`,
		"fair": `holdfast: open: dial tcp 127.0.0.1:1: .*refused`,
		"rw":   `holdfast: open: dial tcp 127.0.0.1:1: .*refused`,
		"pool": `holdfast: open: dial tcp 127.0.0.1:1: .*refused`,
	} {
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			c := start(t, "demo", scene, "--redis", "redis://127.0.0.1:1")
			_, status := c.end(t)
			require.Equal(t, 1, status)
			require.Regexp(t, "^holdfast: demo: "+scene+": "+want+`\n$`, c.stderr.String())
			c.requireNothingLeft(t)
		})
	}
}
