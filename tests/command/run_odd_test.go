package command

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A signal also ends a run before it has begun to wait for its lock.
func TestRunInterruptedWhileConnecting(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	j := beginWith(t, nil, []string{"HOLDFAST_REDIS=redis://" + silent.Addr().String()}, "x", "--", "echo", "ran")
	conn, err := silent.Accept()
	require.NoError(t, err)
	defer conn.Close()
	j.signal(syscall.SIGTERM)
	<-j.ended
	require.Equal(t, "signal: terminated", j.cmd.ProcessState.String())
}

func TestRunInterruptedInsideARun(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "CLIENT", "PAUSE", "60000", "WRITE") // this includes scripts
	around := `HOLDFAST_RUNS=[{"name":"eA==","kind":"lock","owner":"somebody:1"}]`
	j := beginWith(t, srv, []string{around}, "x", "--", "echo", "ran")
	kit.Await(t, "it asks for the run around it", func() bool {
		return strings.Contains(srv.Str(t, "CLIENT", "LIST"), "cmd=evalsha")
	})
	j.signal(syscall.SIGTERM)
	require.Equal(t, 143, j.code(), j.stderr.String())
	require.Empty(t, j.gone())
}

// beginMute starts a run whose messages nobody reads; listen begins to read them.
func beginMute(t *testing.T, srv *redistest.Server, args ...string) (j *job, listen func()) {
	t.Helper()
	return beginMuteWith(t, srv, nil, "run", args...)
}

func beginMuteWith(
	t *testing.T, srv *redistest.Server, env []string, verb string, args ...string,
) (j *job, listen func()) {
	t.Helper()
	heard, told, err := os.Pipe()
	require.NoError(t, err)
	raw, err := told.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for err = nil; err == nil; {
			_, err = syscall.Write(int(fd), make([]byte, 1<<20))
		}
	}))
	require.ErrorIs(t, err, syscall.EAGAIN, "the pipe is full")
	stdout, out, err := os.Pipe()
	require.NoError(t, err)
	j = &job{t: t, cmd: command(t, srv, env, append([]string{verb}, args...)...), ended: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr = out, told
	require.NoError(t, j.cmd.Start())
	require.NoError(t, told.Close())
	require.NoError(t, out.Close())
	j.follow(stdout)
	return j, func() { readLines(func() (*os.File, error) { return heard, nil }) }
}

// If nobody reads its messages, holdfast still stops the command.
func TestRunStopsBeforeItSaysSo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j, listen := beginMute(t, srv, "--lease", "15s", "x", "--", "sh", "-c",
		`exec 2>/dev/null; trap "echo told; exit" TERM; echo ready; while :; do sleep 0.05; done`)
	defer listen()
	j.readies(1)
	forceUnlock(t, srv)
	require.Equal(t, "told", j.line())
	listen()
	require.Equal(t, 79, j.code())
}

// If the lock is lost before the command has begun, the command does not begin.
func TestRunLosesTheLockBeforeTheCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j, listen := beginMute(t, srv, "--lease", "1s", "--verbose", "x", "--", "echo", "ran")
	left := int64(0)
	kit.Await(t, "a renewal: it knows that it has the lock", func() bool {
		last := left
		left = srv.Int(t, "PTTL", "x")
		return last > 0 && (left > last || left < 0) // or it is lost already: the command does not begin either
	})
	j.signal(syscall.SIGSTOP)
	<-time.After(1100 * time.Millisecond) // time passes, and nothing else happens
	j.signal(syscall.SIGCONT)
	listen()
	require.Empty(t, j.gone())
	require.Equal(t, 79, j.code())
}

// A process of the group that has ended, but is not reaped by its parent, a daemon, does not keep holdfast waiting.
func TestRunLeavesTheDead(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	daemon := script(t, `true & exec setsid sh -c 'echo $$; exec sleep 60'`)
	j := begin(t, srv, "--grace", "100ms", "x", "--", "sh", "-c", daemon+" & read go; exit 6")
	pid, err := strconv.Atoi(j.line())
	require.NoError(t, err)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 6, j.code())
	require.NoError(t, syscall.Kill(pid, 0), "the daemon lives on")
}

// A process of another user that the command leaves in its group keeps the lock, since nobody but root can end it.
func TestRunWaitsForAnotherUser(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cmd := command(t, srv, nil, "run", "--grace", "100ms", "x", "--", "sh", "-c", "echo $$; read go; exit 6")
	words := []string{"sh", "-c", "trap '' TERM; echo there; exec cat"} // sudo passes the signal on
	switch {
	case os.Geteuid() == 0: // so holdfast is another user
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	case exec.Command("sudo", "-n", "true").Run() == nil:
		words = append([]string{"sudo", "-n"}, words...)
	default:
		t.Skip("needs root, or sudo without a password, for there to be another user")
	}
	j := beginCommand(t, cmd)
	group, err := strconv.Atoi(j.line())
	require.NoError(t, err)
	left := exec.Command(words[0], words[1:]...)
	left.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	in, err := left.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	out, err := left.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, left.Start())
	there, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "there\n", there)

	require.NoError(t, j.stdin.Close())
	kit.Await(t, "holdfast says why it waits", func() bool {
		return strings.Contains(j.stderr.String(), "another user's")
	})
	require.EqualValues(t, 1, srv.Int(t, "EXISTS", "x"))
	require.NoError(t, in.Close())
	_ = left.Wait() // holdfast may have killed sudo
	require.Equal(t, 6, j.code())
	require.Zero(t, srv.Int(t, "EXISTS", "x"))
}
