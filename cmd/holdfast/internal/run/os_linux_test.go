package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is executed again and again is found, although it has no environment for moments.
func TestMarkedFindsWhatIsBeingExecuted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o700))
	const mark = `"owner":"of this test"`
	cmd := exec.Command(path)
	cmd.Env = []string{"RUNS=" + mark}
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for range 100 {
		require.NotEmpty(t, marked(mark))
	}
}
