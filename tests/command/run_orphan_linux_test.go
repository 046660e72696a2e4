package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func init() { children["init"] = reapNobody }

// reapNobody runs the command that its argument names, adopts the orphans of the run, and fails if there are any.
func reapNobody() {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	for i := 0; i < 10 && err == nil; i++ {
		// The variable is meant for this process alone.
		run := exec.Command("env", "-u", asChild, os.Args[1], "run", "x", "--", "true")
		if err = run.Run(); err != nil {
			break
		}
		if pid, none := syscall.Wait4(-1, nil, 0, nil); !errors.Is(none, syscall.ECHILD) {
			err = fmt.Errorf("process %d is left: %w", pid, none)
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// Where nobody reaps orphans, as in many containers, one would stay for ever.
func TestRunLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	init := command(t, srv, []string{asChild + "=init"}, "run")
	init.Path, init.Args = os.Args[0], []string{os.Args[0], binary}
	out, err := init.CombinedOutput()
	require.NoError(t, err, string(out))
}

// Only here the main goroutine is on the first thread for certain.
func init() {
	if os.Getenv(asChild) == "headless" {
		go loseFirstThread()
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	}
}

// loseFirstThread waits until the first thread has ended, and goes on as what looks like a process that nobody reaps.
func loseFirstThread() {
	for text := ""; !strings.Contains(text, ") Z "); {
		stat, _ := os.ReadFile("/proc/self/stat")
		text = string(stat)
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
	os.Exit(1)
}

// A process of the group is ended as any other if its first thread has ended before, though it looks like a zombie.
func TestRunEndsWhatHasLostItsFirstThread(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	j := beginWith(t, srv, []string{asChild + "=headless"}, "x", "--", "sh", "-c", `"$0" & read go; exit 5`, os.Args[0])
	j.readies(1)
	require.NoError(t, j.stdin.Close())
	require.Empty(t, j.gone())
	require.Equal(t, 5, j.code())
}

// To wait for what the command has left takes next to none of the processors' time, however much else runs.
func TestRunWaitsAtNoCost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const grace = 5 * time.Second
	cost := func(script string) time.Duration {
		j := begin(t, srv, "--grace", grace.String(), "x", "--", "sh", "-c", script)
		require.Equal(t, 5, j.code())
		return j.cmd.ProcessState.UserTime() + j.cmd.ProcessState.SystemTime()
	}
	alone := cost("exit 5") // on a busy machine, what a process starts with costs more
	require.Less(t, cost(`trap "" TERM; sleep 60 & exit 5`), alone+grace/5)
}
