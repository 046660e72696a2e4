package fleet

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessesEnd(t *testing.T) {
	p := &Process{number: 1, cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.no-such-flag")}
	f := &Fleet[string]{Heard: make(chan Heard[string], 1)}
	require.NoError(t, f.launch(p))
	failed := <-f.Heard
	require.True(t, failed.Ended)
	require.ErrorContains(t, failed.Err, "-test.no-such-flag")

	require.EqualError(t, f.Ended(failed), "worker 1: "+failed.Err.Error())
	require.EqualError(t, f.Ended(Heard[string]{Worker: 1}), "worker 1 ended too early")
	p.fate = finishing
	require.EqualError(t, f.Ended(failed), "worker 1: "+failed.Err.Error())
	require.NoError(t, f.Ended(Heard[string]{Worker: 1}))
	p.fate = killed
	require.NoError(t, f.Ended(failed))
}
