package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// beginFamily runs a command with a child of its own, and another that has left the group and the session.
// None of them ends at SIGTERM. The job's lines are theirs alone, and end when all three are gone.
func beginFamily(t testing.TB, srv *redistest.Server, args ...string) *job {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	child := script(t, `trap "" TERM; echo ready; while :; do sleep 0.05; done`)
	parent := script(t, `exec >`+fifo+`; trap "echo told" TERM; `+child+` & setsid `+child+` & echo ready; while :; do sleep 0.05; done`)
	j := begin(t, srv, append(args, "x", "--", parent)...)
	j.lines = readLines(func() (*os.File, error) { return os.Open(fifo) }) // opens when they do
	t.Cleanup(func() {
		if end, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // it still waits for them
			_ = end.Close()
		}
	})
	return j
}

func (j *job) readies(n int) {
	j.t.Helper()
	for range n {
		require.Equal(j.t, "ready", j.line())
	}
}

func forceUnlock(t testing.TB, srv *redistest.Server, name string) {
	t.Helper()
	was, err := rlock.New(open(t, srv, nil), name, nil).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
}

// A lock that the server has dropped: SIGTERM, grace, SIGKILL, for all of the family.
func TestRunLosesTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "1s", "--grace", "300ms")
	j.readies(3)
	forceUnlock(t, srv, "x")
	require.Equal(t, "told", j.line())
	told := time.Now()
	j.gone()
	require.GreaterOrEqual(t, time.Since(told), 200*time.Millisecond, "there was a grace")
	require.Equal(t, 79, j.code())
	require.Regexp(t, `(?m)^holdfast: lost "x" after .*; stopping the command$`, j.stderr.String())
}

// A command that ends when it is told to is not waited for longer.
func TestRunLosesTheLockOfOneWhoListens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "1s", "--grace", "1h", "--json", "x", "--", "sh", "-c",
		`trap "echo told; exit 0" TERM; echo ready; while :; do sleep 0.05; done`)
	j.readies(1)
	forceUnlock(t, srv, "x")
	require.Equal(t, []string{"told"}, j.gone())
	require.Equal(t, 79, j.code(), "though it ended with 0")
	require.Contains(t, j.stderr.String(), `"event":"lost"`)
}

func TestRunGoesOnWithoutTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "1s", "--on-loss", "keep", "x", "--", "sh", "-c", `echo ready; read go; echo done`)
	j.readies(1)
	forceUnlock(t, srv, "x")
	j.said("the command goes on")
	require.NoError(t, j.stdin.Close())
	require.Equal(t, []string{"done"}, j.gone())
	require.Equal(t, 79, j.code())
}

// The lock was taken away, and the command ended before a renewal could tell.
func TestRunFindsTheLockGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "1h", "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	forceUnlock(t, srv, "x")
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 79, j.code())
	require.Contains(t, j.stderr.String(), "before the command ended")
}

// Without its server the family is gone before its lease is over, even those who do not listen.
func TestRunLosesItsServer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){"stopped": (*redistest.Server).Stop,
		"silent": (*redistest.Server).Pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			const lease = 4 * time.Second
			j := beginFamily(t, srv, "--lease", lease.String(), "--grace", "1s")
			j.readies(3)
			// Just renewed: so the end of the lease on the server is known.
			pttl := srv.Int(t, "PTTL", "x")
			await(t, "renewed", func() bool {
				before := pttl
				pttl = srv.Int(t, "PTTL", "x")
				return pttl > before
			})
			end := time.Now().Add(time.Duration(pttl) * time.Millisecond)
			away(srv)
			require.Equal(t, "told", j.line())
			require.Greater(t, time.Until(end), 500*time.Millisecond, "told in time")
			j.gone()
			gone := time.Now()
			require.True(t, gone.Before(end), "%v late: %s", time.Since(end), &j.stderr)
			require.Equal(t, 79, j.code())
			require.Less(t, time.Since(gone), 3*time.Second, "what was lost need not be given back")
			require.Contains(t, j.stderr.String(), "could not be renewed")
		})
	}
}

// A command that ends while the server is away: the lock cannot be given back, which is tried, and told, for a while.
func TestRunEndsWithoutItsServer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){"stopped": (*redistest.Server).Stop,
		"silent": (*redistest.Server).Pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			j := begin(t, srv, "--lease", "30s", "x", "--", "sh", "-c", "echo ready; read go; exit 3")
			j.readies(1)
			away(srv)
			require.NoError(t, j.stdin.Close())
			require.Empty(t, j.gone())
			gone := time.Now()
			j.said("giving the lock back takes long")
			require.Less(t, time.Since(gone), 3*time.Second)
			require.Equal(t, 3, j.code())
			require.Less(t, time.Since(gone), 7*time.Second)
			require.Contains(t, j.stderr.String(), "it is free in 30s at the latest")
		})
	}
}

// A blink of the server is none of the command's business.
func TestRunOutlastsARestart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	j := begin(t, srv, "--lease", "6s", "--grace", "1s", "x", "--", "sh", "-c", "echo ready; read go; exit 4")
	j.readies(1)
	srv.Restart()
	await(t, "what it has on disk", func() bool {
		_, err := srv.Try("PTTL", "x")
		return err == nil
	})
	before := srv.Int(t, "PTTL", "x")
	await(t, "renewed", func() bool { return srv.Int(t, "PTTL", "x") > before })
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 4, j.code(), j.stderr.String())
}

// Killed, holdfast leaves nobody behind, and the lock is free when its lease is over.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "1s")
	j.readies(3)
	j.signal(syscall.SIGKILL)
	require.NotContains(t, j.gone(), "told")
	<-j.ended
	await(t, "the lock is free", func() bool { return free(t, srv, "x") })
}

// Without its guard at least the command itself does not stay.
func TestRunKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	require.NoError(t, syscall.Kill(j.guard(), syscall.SIGKILL))
	j.signal(syscall.SIGKILL)
	require.Empty(t, j.gone())
}

// A holdfast that is stopped renews nothing: its guard kills the command in time.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "3s")
	j.readies(3)
	j.signal(syscall.SIGSTOP)
	end := time.Now().Add(time.Duration(srv.Int(t, "PTTL", "x")) * time.Millisecond)
	j.gone()
	require.True(t, time.Now().Before(end), "%v late: %s", time.Since(end), &j.stderr)
	j.signal(syscall.SIGCONT)
	require.Equal(t, 79, j.code())
}

// A guard that was stopped itself kills the command when it goes on, though the lock is renewed. That is a loss.
func TestRunKilledByItsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "1s", "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	guard := j.guard()
	await(t, "it was killed", func() bool {
		err := syscall.Kill(guard, syscall.SIGSTOP)
		if errors.Is(err, syscall.ESRCH) {
			return true // it has killed the command, and gone; holdfast is about to
		}
		require.NoError(t, err)
		<-time.After(1200 * time.Millisecond) // its time is over, and the lock is renewed
		require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
		select {
		case <-j.ended:
			return true
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
	require.Equal(t, 79, j.code())
	require.Contains(t, j.stderr.String(), "killed the command")
	require.True(t, free(t, srv, "x"))
}

// The same without a guard: when it is continued, holdfast itself sees that it is too late.
func TestRunStoppedWithoutItsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "1s", "--grace", "1h")
	j.readies(3)
	require.NoError(t, syscall.Kill(j.guard(), syscall.SIGKILL))
	j.signal(syscall.SIGSTOP)
	await(t, "the lease is over", func() bool { return free(t, srv, "x") })
	j.signal(syscall.SIGCONT)
	j.gone()
	require.Equal(t, 79, j.code())
	require.True(t, strings.Contains(j.stderr.String(), "stopping the command"), j.stderr.String())
}
