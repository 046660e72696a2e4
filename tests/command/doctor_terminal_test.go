package command

import (
	"bytes"
	"io"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// screenOf runs the command on a terminal and returns what it shows.
func screenOf(t testing.TB, srv *redistest.Server, env []string, args ...string) string {
	t.Helper()
	cmd := command(t, srv, append([]string{"TERM=xterm"}, env...), args...)
	cmd.SysProcAttr = nil // pty gives it its own session
	screen, err := pty.Start(cmd)
	require.NoError(t, err)
	defer screen.Close()
	var text bytes.Buffer
	_, _ = io.Copy(&text, screen) // ends with an error when nobody has the terminal open
	_ = cmd.Wait()                // with the exit code
	return text.String()
}

func TestDoctorOnATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	text := screenOf(t, srv, nil, "doctor")
	require.Contains(t, text, "\x1b[32mok   \x1b[mversion: ")
	require.Contains(t, text, "\x1b[33mwarn \x1b[mpersistence: nothing is written to disk\r\n     A restart forgets")
	require.Contains(t, text, "\r\n     Fix: CONFIG SET appendonly yes")
	require.Contains(t, text, "14 ok, 1 to note, 1 to mend soon, 0 to mend now")
	text = screenOf(t, srv, []string{"NO_COLOR=1"}, "doctor")
	require.NotContains(t, text, "\x1b")
	require.Contains(t, text, "warn persistence: nothing is written to disk\r\n     A restart")
	require.NotContains(t, screenOf(t, srv, nil, "doctor", "--json"), "\x1b")
}

func TestLatchAndSemaphoreOnATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.Equal(t, "gate is closed until 2 have counted down\r\n", screenOf(t, srv, nil, "latch", "set", "gate", "2"))
	require.Equal(t, "gate is closed: 1 still to count down\r\n", screenOf(t, srv, nil, "latch", "down", "gate"))
	require.Equal(t, "gate is open\r\n", screenOf(t, srv, nil, "latch", "down", "gate"))
	require.Equal(t, "pool has 3 permits\r\n", screenOf(t, srv, nil, "semaphore", "set", "pool", "3"))
	require.Equal(t, "pool: 3 free\r\n", screenOf(t, srv, nil, "semaphore", "count", "pool"))
}
