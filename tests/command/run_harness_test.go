package command

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A job is a run of the command in the background.
type job struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  *os.File
	lines  <-chan string // of stdout; closed when nobody is left who could write to it
	stderr log
	ended  chan struct{}

	ticking string // where the processes of [beginApart]'s script note what time it is
}

// A log collects what was written to stderr.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// begin starts "holdfast run" with the arguments.
func begin(t testing.TB, srv *redistest.Server, args ...string) *job {
	t.Helper()
	return beginWith(t, srv, nil, args...)
}

func beginWith(t testing.TB, srv *redistest.Server, env []string, args ...string) *job {
	t.Helper()
	return beginVerb(t, srv, env, "run", args...)
}

// beginVerb starts another command that runs one.
func beginVerb(t testing.TB, srv *redistest.Server, env []string, verb string, args ...string) *job {
	t.Helper()
	return beginCommand(t, command(t, srv, env, append([]string{verb}, args...)...))
}

// beginCommand starts a command that is such a run.
func beginCommand(t testing.TB, cmd *exec.Cmd) *job {
	t.Helper()
	j := &job{t: t, cmd: cmd, ended: make(chan struct{})}
	in, stdin, err := os.Pipe()
	require.NoError(t, err)
	stdout, out, err := os.Pipe()
	require.NoError(t, err)
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr = in, out, &j.stderr
	j.stdin = stdin
	j.cmd.WaitDelay = time.Second // for stderr, which a child may have kept open
	require.NoError(t, j.cmd.Start())
	require.NoError(t, in.Close())
	require.NoError(t, out.Close())
	t.Cleanup(func() { _ = stdin.Close() })
	j.follow(stdout)
	return j
}

// follow reads what the job prints, waits for its end, and kills it with the test.
func (j *job) follow(stdout *os.File) {
	j.lines = readLines(func() (*os.File, error) { return stdout, nil })
	go func() {
		defer close(j.ended)
		_ = j.cmd.Wait()
	}()
	j.t.Cleanup(func() {
		_ = j.cmd.Process.Kill()
		<-j.ended
	})
}

// readLines reads lines until nobody is left who could write any.
func readLines(open func() (*os.File, error)) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		file, err := open()
		if err != nil {
			return
		}
		defer file.Close()
		for scan := bufio.NewScanner(file); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	return lines
}

// line returns the next line of stdout.
func (j *job) line() string {
	j.t.Helper()
	select {
	case line, ok := <-j.lines:
		require.True(j.t, ok, "stdout has ended: %s", &j.stderr)
		return line
	case <-time.After(20 * time.Second):
		require.Fail(j.t, "no line in time", "%s", &j.stderr)
		return ""
	}
}

// gone waits until nobody has stdout open any more, and returns what was written to it.
func (j *job) gone() (rest []string) {
	j.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-j.lines:
			if !ok {
				return rest
			}
			rest = append(rest, line)
		case <-timeout:
			require.Fail(j.t, "somebody lives on", "%s", &j.stderr)
		}
	}
}

// code waits for the end and returns the exit status.
func (j *job) code() int {
	j.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(30 * time.Second):
		require.Fail(j.t, "no end in time", "%s", &j.stderr)
	}
	return j.cmd.ProcessState.ExitCode()
}

// said waits until stderr contains the text.
func (j *job) said(text string) {
	j.t.Helper()
	kit.Await(j.t, "stderr has "+text, func() bool { return strings.Contains(j.stderr.String(), text) })
}

func (j *job) signal(sig syscall.Signal) {
	j.t.Helper()
	require.NoError(j.t, j.cmd.Process.Signal(sig))
}

// guard returns the process id of the job's guard.
func (j *job) guard() (pid int) {
	j.t.Helper()
	kit.Await(j.t, "there is a guard", func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, file := range files {
			text, _ := os.ReadFile(file)
			_, rest, _ := strings.Cut(string(text), " (holdfast-guard) ")
			if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(j.cmd.Process.Pid) {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
			}
		}
		return pid != 0
	})
	return pid
}

// script writes a shell script and returns its path.
func script(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o600))
	require.NoError(t, os.Chmod(path, 0o700))
	return path
}

// free reports whether nobody has the lock.
func free(t testing.TB, srv *redistest.Server, name string) bool {
	t.Helper()
	return srv.Int(t, "EXISTS", name) == 0
}

// runProgram runs a program to its end, which must be successful, and returns what it prints.
func runProgram(t testing.TB, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// signalHolder signals the process that has a lock, and reports whether it has told of itself, and got the signal.
func signalHolder(t testing.TB, s *holdfast.Session, name string, sig syscall.Signal) bool {
	t.Helper()
	all, err := rlock.New(s, name, nil).Holders(t.Context())
	require.NoError(t, err)
	return len(all) > 0 && all[0].PID > 0 && syscall.Kill(all[0].PID, sig) == nil
}
