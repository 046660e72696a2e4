package command

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestRunForwardsSignals(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginWith(t, srv, []string{asChild + "=signals"}, "x", "--", os.Args[0])
	j.readies(1)
	for _, tt := range []struct {
		sig  syscall.Signal
		name string
	}{
		{syscall.SIGHUP, "hangup"},
		{syscall.SIGINT, "interrupt"},
		{syscall.SIGQUIT, "quit"},
		{syscall.SIGTERM, "terminated"},
		{syscall.SIGUSR1, "user defined signal 1"},
		{syscall.SIGUSR2, "user defined signal 2"},
	} {
		j.signal(tt.sig)
		require.Equal(t, tt.name, j.line())
	}
	require.NoError(t, j.stdin.Close())
	require.Equal(t, 0, j.code())
	require.True(t, free(t, srv, "x"))

	j = begin(t, srv, "x", "--", "sh", "-c", "echo ready; exec sleep 60")
	j.readies(1)
	j.signal(syscall.SIGALRM) // the command does not expect this one
	require.Equal(t, 128+int(syscall.SIGALRM), j.code())
	require.True(t, free(t, srv, "x"))
}

// tellSignals is a command that prints the signals that it receives, until its stdin ends.
func tellSignals() {
	got := make(chan os.Signal, 10)
	signal.Notify(got, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1,
		syscall.SIGUSR2)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	fmt.Println("ready")
	for {
		select {
		case sig := <-got:
			fmt.Println(sig)
		case <-over:
			return
		}
	}
}

// A signal ends a run that waits, and nothing of the wait is left.
func TestRunInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, flag := range map[string]string{"plain": "--fair=false", "fair": "--fair"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := open(t, srv, &holdfast.Options{Anonymous: true})
			var lock holdfast.Locker = rlock.New(s, "x", nil)
			if name == "fair" {
				lock = fairlock.New(s, "x", nil)
			}
			hold, err := lock.Lock(t.Context())
			require.NoError(t, err)
			for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
				j := begin(t, srv, "--verbose", flag, "x", "--", "echo", "ran")
				j.said("waiting for")
				j.signal(sig)
				require.Equal(t, 128+int(sig), j.code())
				require.Empty(t, j.gone())
			}
			require.NoError(t, hold.Release())
			kit.Await(t, "nothing left", func() bool { return len(srv.Keyspace(t)) == 0 })
		})
	}
}

// A run that waits for its lock also waits for a server that goes away meanwhile.
func TestRunWaitsForTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	_, err := rlock.New(open(t, srv, nil), "x", nil).Lock(t.Context())
	require.NoError(t, err)
	j := begin(t, srv, "--verbose", "x", "--", "echo", "ran")
	j.said("waiting for")
	srv.Restart() // without its data: the lock is free
	require.Equal(t, []string{"ran"}, j.gone())
	require.Equal(t, 0, j.code())
}

// As with nohup, an ignored signal stays ignored, also for the command.
func TestRunIgnoresWhatWasIgnored(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	starter := script(t, `trap "" HUP INT; exec "$@"`)
	cmd := command(t, srv, nil, "run")
	r := runProgram(t, cmd.Env, starter, binary, "run", "x", "--", "sh", "-c",
		`kill -HUP $PPID $$; kill -INT $PPID $$; echo alive`)
	require.Equal(t, "alive\n", r)
}

// The command has ended, and the server is silent: a signal ends the wait for the server.
func TestRunDoesNotGiveBackForLongAfterASignal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := begin(t, srv, "--lease", "1m", "x", "--", "sh", "-c", "echo $$; read go; exit 3")
	pid, err := strconv.Atoi(j.line())
	require.NoError(t, err)
	srv.Pause()
	t.Cleanup(srv.Resume)
	require.NoError(t, j.stdin.Close())
	kit.Await(t, "the command's end", func() bool { return syscall.Kill(pid, 0) != nil })
	took := kit.Stopwatch()
	for ended := false; !ended; { // a signal before holdfast knows of the end is for the command
		require.Less(t, took(), 4*time.Second)
		_ = j.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-j.ended:
			ended = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	require.Equal(t, 3, j.code(), "what the command said: %s", &j.stderr)
	require.Contains(t, j.stderr.String(), "it is free in 1m0s at the latest")
}
