package command

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// ticks is what a script of [beginApart]'s ends with: it notes what time it is, again and again. It does so in whole
// seconds where the system's date knows no others.
const ticks = `while :; do date +%s.%N >>$TICKS/$$; sleep 0.1; done`

// beginFamily runs a command with a child, and with another child that has left the group and the session. None of
// them ends at SIGTERM, and all tick.
func beginFamily(t testing.TB, srv *redistest.Server, args ...string) *job {
	t.Helper()
	child := script(t, `trap "" TERM; echo ready; `+ticks)
	return beginApart(t, srv, `trap "echo told" TERM; `+child+` & setsid `+child+` & echo ready; `+ticks, args...)
}

// beginApart runs a shell script as the command. The job's lines come only from the processes of the script, not from
// holdfast, and end when all of them are gone.
func beginApart(t testing.TB, srv *redistest.Server, text string, args ...string) *job {
	t.Helper()
	fifo, ticking := filepath.Join(t.TempDir(), "fifo"), t.TempDir()
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	text = `exec >` + fifo + `; export TICKS=` + ticking + `; ` + text
	j := begin(t, srv, append(args, "x", "--", script(t, text))...)
	j.lines = readLines(func() (*os.File, error) { return os.Open(fifo) }) // opens when they open it
	j.ticking = ticking
	t.Cleanup(func() {
		if end, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // it still waits for them
			_ = end.Close()
		}
	})
	return j
}

// endsBefore waits until n processes that tick are gone, and requires that none has done so since, but for how long the
// machine has stood still. (On a busy one, it takes a process long to die, and the test to notice.)
func (j *job) endsBefore(n int, end time.Time, still func() time.Duration) {
	j.t.Helper()
	j.gone()
	files, err := filepath.Glob(filepath.Join(j.ticking, "*"))
	require.NoError(j.t, err)
	require.Len(j.t, files, n)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(j.t, err)
		told := strings.Fields(string(text))
		require.NotEmpty(j.t, told)
		last, err := strconv.ParseFloat(strings.TrimSuffix(told[len(told)-1], "N"), 64)
		require.NoError(j.t, err)
		require.Less(j.t, last, float64(end.Add(still()).UnixMicro())/1e6, "%s", &j.stderr)
	}
}

func (j *job) readies(n int) {
	j.t.Helper()
	for range n {
		require.Equal(j.t, "ready", j.line())
	}
}

// forceUnlock frees the lock of a run.
func forceUnlock(t testing.TB, srv *redistest.Server) {
	t.Helper()
	was, err := rlock.New(open(t, srv, nil), "x", nil).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
}

// If the server has dropped the lock, the whole family gets SIGTERM, a grace, and SIGKILL.
func TestRunLosesTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "15s", "--grace", "2s")
	j.readies(3)
	forceUnlock(t, srv)
	require.Equal(t, "told", j.line())
	told := time.Now()
	j.gone()
	require.GreaterOrEqual(t, time.Since(told), time.Second, "the grace was too short") // it may be heard of late
	require.Equal(t, 79, j.code())
	require.Regexp(t, `(?m)^holdfast: lost "x" after .*; stopping the command$`, j.stderr.String())
}

// A command that ends at SIGTERM is not waited for any longer.
func TestRunLosesTheLockOfACommandThatListens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "15s", "--grace", "1h", "--json", "x", "--", "sh", "-c",
		`trap "echo told; exit 0" TERM; echo ready; while :; do sleep 0.05; done`)
	j.readies(1)
	forceUnlock(t, srv)
	require.Equal(t, []string{"told"}, j.gone())
	require.Equal(t, 79, j.code(), "the command ended with 0, the run does not")
	require.Contains(t, j.stderr.String(), `"event":"lost"`)
}

// A command whose lock the server has dropped has its whole grace, although its guard knew of a lease that ends before.
func TestRunHasItsGraceAfterALoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "6s", "--grace", "1m", "x", "--", "sh", "-c",
		`trap "echo told; sleep 7; echo done; exit" TERM; echo ready; while :; do sleep 0.05; done`)
	j.readies(1)
	forceUnlock(t, srv)
	require.Equal(t, []string{"told", "done"}, j.gone())
	require.Equal(t, 79, j.code())
}

// A loss that only the release finds is told as any other.
func TestRunTellsWhyTheReleaseFoundNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--json", "x", "--", "sh", "-c", `echo ready; read go`)
	j.readies(1)
	forceUnlock(t, srv)
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 79, j.code())
	require.Regexp(t, `^\{"error":"[^"]+.*","event":"lost","name":"x","text":".*"\}\n$`, j.stderr.String())
}

func TestRunGoesOnWithoutTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "6s", "--on-loss", "keep", "x", "--", "sh", "-c", `echo ready; read go; echo done`)
	j.readies(1)
	forceUnlock(t, srv)
	j.said("the command goes on")
	require.NoError(t, j.stdin.Close())
	require.Equal(t, []string{"done"}, j.gone())
	require.Equal(t, 79, j.code())
}

// The lock was taken away, and the command ended before a renewal could notice.
func TestRunFindsTheLockGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "1h", "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	forceUnlock(t, srv)
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 79, j.code())
	require.Contains(t, j.stderr.String(), "before the command ended")
}

// Without its server the family is gone before the lease is over, including those that ignore SIGTERM.
func TestRunLosesItsServer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){
		"stopped": (*redistest.Server).Stop,
		"silent":  (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			const lease = 10 * time.Second // a second and more of it is for being late in
			j := beginFamily(t, srv, "--lease", lease.String(), "--grace", "2s")
			j.readies(3)
			// It has just been renewed, so the end of the lease on the server is known.
			end, still := awaitRenewal(t, srv), kit.Stillness()
			away(srv)
			require.Equal(t, "told", j.line())
			require.Greater(t, time.Until(end)+still(), 500*time.Millisecond, "SIGTERM came too late")
			j.endsBefore(3, end, still)
			took := kit.Stopwatch()
			require.Equal(t, 79, j.code())
			require.Less(t, took(), lease/3+3*time.Second, "it is given back for lease/3 at most, and only once")
			require.Contains(t, j.stderr.String(), "could not be renewed")
		})
	}
}

// A command ends while the server is away. Holdfast tries for a while to give the lock back, and reports it.
func TestRunEndsWithoutItsServer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){
		"stopped": (*redistest.Server).Stop,
		"silent":  (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			j := begin(t, srv, "--lease", "30s", "x", "--", "sh", "-c", "echo ready; read go; exit 3")
			j.readies(1)
			away(srv)
			require.NoError(t, j.stdin.Close())
			require.Empty(t, j.gone())
			took := kit.Stopwatch()
			j.said("releasing the lock takes long")
			require.Less(t, took(), 3*time.Second)
			require.Equal(t, 3, j.code())
			require.Less(t, took(), 7*time.Second)
			require.Contains(t, j.stderr.String(), "it is free in 30s at the latest")
		})
	}
}

// Others cannot be kept out as --take-over should, because the server is away: that is said.
func TestRunCannotKeepOthersOut(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--at-least", "1h", "--take-over", "x", "--", "sh", "-c", "echo ready; read go; exit 0")
	j.readies(1)
	srv.Pause()
	require.NoError(t, j.stdin.Close())
	j.said("others are not kept out: ")
	require.Equal(t, 0, j.code())
	// Nobody knows whether the server will still execute the call that was to keep others out.
	require.Contains(t, j.stderr.String(), "it is free in 1h0m0s at the latest")
}

// awaitRenewal waits until the lock has just been renewed, and returns until when its lease then lasts on the server.
func awaitRenewal(t *testing.T, srv *redistest.Server) (end time.Time) {
	t.Helper()
	return awaitRenewalOrEnd(t, srv, nil)
}

// awaitRenewalOrEnd also returns when the job has ended, which closes ended.
func awaitRenewalOrEnd(t *testing.T, srv *redistest.Server, ended <-chan struct{}) (end time.Time) {
	t.Helper()
	last := srv.Int(t, "PTTL", "x")
	kit.Await(t, "renewed", func() bool {
		before := last
		last = srv.Int(t, "PTTL", "x")
		return last > before || kit.Closed(ended)
	})
	return time.Now().Add(time.Duration(last) * time.Millisecond)
}

// A release grants a waiter the lock for less than its lease. The command has the whole one all the same.
func TestRunThatHasWaitedIsNotStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	first := begin(t, srv, "x", "--", "sh", "-c", "echo ready; read go")
	first.readies(1)
	second := begin(t, srv, "x", "--", "sh", "-c", "echo ready; sleep 6; exit 4")
	kit.Await(t, "somebody who waits", func() bool { return srv.Int(t, "LLEN", "holdfast_line:{x}") == 1 })
	<-time.After(1500 * time.Millisecond) // what it will trust counts from when it was last seen there
	require.NoError(t, first.stdin.Close())
	second.readies(1)
	require.Equal(t, 4, second.code(), second.stderr.String())
}

// A short outage of the server does not affect the command.
func TestRunOutlastsARestart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	j := begin(t, srv, "--lease", "15s", "--grace", "1s", "x", "--", "sh", "-c", "echo ready; read go; exit 4")
	j.readies(1)
	srv.Restart()
	kit.Await(t, "what it has on disk", func() bool {
		_, err := srv.Try("PTTL", "x")
		return err == nil
	})
	awaitRenewal(t, srv)
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 4, j.code(), j.stderr.String())
}

// If holdfast is killed, nobody is left behind, and the lock is free when its lease is over.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "15s")
	j.readies(3)
	j.signal(syscall.SIGKILL)
	require.NotContains(t, j.gone(), "told")
	<-j.ended
	kit.Await(t, "the lock is free", func() bool { return free(t, srv, "x") })
}

// If its guard is killed as well, at least the command itself does not stay.
func TestRunKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	require.NoError(t, syscall.Kill(j.guard(), syscall.SIGKILL))
	j.signal(syscall.SIGKILL)
	require.Empty(t, j.gone())
}

// A holdfast that is stopped renews nothing, so its guard kills the command in time.
func TestRunStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "10s") // a second and more of it is for the guard to be late in
	j.readies(3)
	j.signal(syscall.SIGSTOP)
	end, still := time.Now().Add(time.Duration(srv.Int(t, "PTTL", "x"))*time.Millisecond), kit.Stillness()
	j.endsBefore(3, end, still)
	j.signal(syscall.SIGCONT)
	require.Equal(t, 79, j.code())
}

// A holdfast that was stopped for less than the lease tries to renew it before it takes that for lost.
func TestRunGoesOnAfterAStop(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", lease.String(), "--grace", "1m", "x", "--", "sh", "-c", "echo ready; read go; exit 4")
	j.readies(1)
	end := awaitRenewal(t, srv)
	<-time.After(lease * 3 / 20) // its guard has been told
	j.signal(syscall.SIGSTOP)
	<-time.After(time.Until(end.Add(-4 * time.Second))) // SIGTERM was due 2 s ago, and the guard kills the command in 3 s
	j.signal(syscall.SIGCONT)
	kit.Await(t, "a renewal, or the end", func() bool { return srv.Int(t, "PTTL", "x") > 8000 || free(t, srv, "x") })
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 4, j.code(), &j.stderr)
}

// A holdfast that is stopped as soon as the command runs has told its guard before until when that is.
func TestRunStoppedByItsCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var jobs []*job
	for range 5 { // not every one is stopped so early that it matters
		jobs = append(jobs, beginApart(t, srv, `kill -STOP $PPID; echo ready; `+ticks, "--shared", "--lease", "10s"))
	}
	for _, j := range jobs {
		j.readies(1)
	}
	end := time.Now().Add(time.Duration(srv.Int(t, "PTTL", "x")) * time.Millisecond) // of the last one
	still := kit.Stillness()
	for _, j := range jobs {
		j.endsBefore(1, end, still)
	}
}

// What a guard hears late does not give the command any more time.
func TestRunStoppedAfterItsGuard(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	srv := redistest.Start(t)
	j := beginApart(t, srv, `echo ready; `+ticks, "--lease", lease.String())
	j.readies(1)
	renewed := func() (end time.Time) { // and the guard has been told
		awaitRenewal(t, srv)
		<-time.After(lease * 3 / 20)
		return time.Now().Add(time.Duration(srv.Int(t, "PTTL", "x")) * time.Millisecond)
	}
	renewed()
	guard := j.guard()
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	end, still := renewed(), kit.Stillness()
	j.signal(syscall.SIGSTOP)
	<-time.After(lease / 5) // before the time is over that the guard knows of
	require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
	j.endsBefore(1, end, still)
}

// A guard that learns at the same moment that holdfast is dead and that the time is over, kills the command.
func TestRunKilledWhileItsGuardIsStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "6s", "--grace", "300ms") // so one late renewal does not end it
	j.readies(3)
	guard := j.guard()
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	j.signal(syscall.SIGKILL)
	kit.Await(t, "the lease is over", func() bool { return free(t, srv, "x") })
	require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
	j.gone()
}

// A guard that was itself stopped hears that the lock was renewed meanwhile before it kills the command.
func TestRunGoesOnWhenItsGuardWasStopped(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var jobs []*job
	for range 8 { // with some luck, one hears it before it looks at the time
		jobs = append(jobs, begin(t, srv, "--shared", "--lease", "10s", "x", "--", "sh", "-c", "echo ready; read go"))
	}
	var guards []int
	for _, j := range jobs {
		j.readies(1)
		guards = append(guards, j.guard())
	}
	signalAll := func(sig syscall.Signal) {
		for _, guard := range guards {
			require.NoError(t, syscall.Kill(guard, sig))
		}
	}
	signalAll(syscall.SIGSTOP)
	<-time.After(10 * time.Second) // what they know is over, although the lock was renewed
	signalAll(syscall.SIGCONT)
	<-time.After(500 * time.Millisecond)
	for _, j := range jobs {
		require.NoError(t, j.stdin.Close())
		require.Equal(t, 1, j.code(), &j.stderr) // that of read
	}
}

// A holdfast that was stopped finds that its guard has killed the command. That counts as a loss even if the lock had
// been renewed before, and the guard was not told.
func TestRunKilledByItsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	// A short grace, so that one late renewal does not end it.
	j := begin(t, srv, "--lease", "10s", "--grace", "300ms", "x", "--", "sh", "-c", "echo ready; read go")
	j.readies(1)
	kit.AwaitFor(t, 2*time.Minute, "it was killed", func() bool { // unless its guard had been told in time
		end := time.Now().Add(time.Duration(srv.Int(t, "PTTL", "x")) * time.Millisecond)
		awaitRenewalOrEnd(t, srv, j.ended)
		if kit.Closed(j.ended) {
			return true
		}
		<-time.After(50 * time.Millisecond)       // it knows that by now, and tells its guard within a second
		_ = j.cmd.Process.Signal(syscall.SIGSTOP) // it may be about to end
		<-time.After(time.Until(end))             // a second after what the guard knows
		_ = j.cmd.Process.Signal(syscall.SIGCONT)
		return false
	})
	require.Equal(t, 79, j.code())
	require.Contains(t, j.stderr.String(), "killed the command")
	require.True(t, free(t, srv, "x"))
}

// Without a guard, holdfast itself notices that it is too late when it continues.
func TestRunStoppedWithoutItsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginFamily(t, srv, "--lease", "15s", "--grace", "1h")
	j.readies(3)
	require.NoError(t, syscall.Kill(j.guard(), syscall.SIGKILL))
	j.signal(syscall.SIGSTOP)
	kit.Await(t, "the lease is over", func() bool { return free(t, srv, "x") })
	j.signal(syscall.SIGCONT)
	j.gone()
	require.Equal(t, 79, j.code())
	require.True(t, strings.Contains(j.stderr.String(), "stopping the command"), j.stderr.String())
}
