package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

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
