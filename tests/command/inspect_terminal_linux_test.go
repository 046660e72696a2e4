package command

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A terminal is a person's side of a pseudo-terminal on which a command runs.
type terminal struct {
	person, device *os.File
	run            *running

	mu   sync.Mutex // guards seen
	seen strings.Builder
	read chan struct{} // closed when the command has closed its side
}

// onTerminal starts the command on its own terminal.
func onTerminal(t *testing.T, srv *redistest.Server, args ...string) *terminal {
	t.Helper()
	person, device, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	require.NoError(t, pty.Setsize(device, &pty.Winsize{Rows: 10, Cols: 120}))
	x := &terminal{
		person: person, device: device, read: make(chan struct{}),
		run: &running{cmd: command(t, srv, []string{"TERM=xterm"}, args...)},
	}
	cmd := x.run.cmd
	cmd.Stdin, cmd.Stdout, cmd.Stderr = device, device, device
	cmd.SysProcAttr.Setpgid = false
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	require.NoError(t, cmd.Start())
	go func() {
		defer close(x.read)
		var chunk [4096]byte
		for {
			n, err := person.Read(chunk[:])
			x.mu.Lock()
			x.seen.Write(chunk[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return x
}

// sees returns everything that was printed.
func (x *terminal) sees() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

func (x *terminal) awaits(t *testing.T, text string) {
	t.Helper()
	kit.Await(t, fmt.Sprintf("%q on the terminal", text), func() bool { return strings.Contains(x.sees(), text) })
}

func (x *terminal) types(t *testing.T, text string) {
	t.Helper()
	_, err := x.person.WriteString(text)
	require.NoError(t, err)
}

// ends waits for the command's end and returns its code, and checks that the terminal is as it was.
func (x *terminal) ends(t *testing.T) int {
	t.Helper()
	code := x.run.end(t)
	mode, err := unix.IoctlGetTermios(int(x.device.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.NotZero(t, mode.Lflag&unix.ECHO)
	assert.NotZero(t, mode.Lflag&unix.ICANON)
	require.NoError(t, x.device.Close())
	<-x.read
	return code
}

func TestUnlockAsksOnATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "x", java1, "1")
	for _, answer := range []string{"n\n", "\n", "\x04", "yess\n"} {
		x := onTerminal(t, srv, "unlock", "x")
		x.awaits(t, "[y/N] ")
		assert.Contains(t, x.sees(), java1)
		x.types(t, answer)
		assert.Equal(t, 1, x.ends(t), "%q", answer)
		require.EqualValues(t, 1, srv.Int(t, "EXISTS", "x"))
	}
	x := onTerminal(t, srv, "unlock", "x")
	x.awaits(t, "[y/N] ")
	x.types(t, "y\n")
	assert.Equal(t, 0, x.ends(t))
	assert.Contains(t, x.sees(), "x: freed")
	assert.EqualValues(t, 0, srv.Int(t, "EXISTS", "x"))

	srv.Do(t, "HSET", "x", java1, "1")
	x = onTerminal(t, srv, "unlock", "x")
	x.awaits(t, "[y/N] ")
	srv.Do(t, "DEL", "x")
	srv.Do(t, "HSET", "x", java2, "1")
	x.types(t, "y\n")
	assert.Equal(t, 1, x.ends(t))
	assert.Contains(t, x.sees(), "by now it is held by ? "+java2)
	assert.EqualValues(t, 1, srv.Int(t, "EXISTS", "x"))
}

func TestLsOnATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "x", java1, "1")
	srv.Do(t, "SET", "a longer name than others have", "1")
	x := onTerminal(t, srv, "ls")
	assert.Equal(t, 0, x.ends(t))
	lines := strings.Split(strings.TrimSpace(x.sees()), "\r\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, `^NAME +KIND +STATE +COUNT +LEASE +WAITERS$`, lines[0])
	assert.NotContains(t, x.sees(), "\t")
}

// One long name, as a URL or a mistake can be, does not make the other rows as long.
func TestLsOfALongNameOnATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	fill(t, srv, 50)
	srv.Do(t, "SET", strings.Repeat("long", 1000), "1")
	x := onTerminal(t, srv, "ls")
	assert.Equal(t, 0, x.ends(t))
	assert.Less(t, len(x.sees()), 4000+52*200)
	assert.Contains(t, x.sees(), "longlong")
}

func TestLsWatch(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	fill(t, srv, 50)
	x := onTerminal(t, srv, "ls", "--watch=100ms")
	x.awaits(t, "50 names")
	x.awaits(t, "the first 7 shown")
	x.awaits(t, "job:13")
	assert.NotContains(t, x.sees(), "job:20")
	srv.Do(t, "HSET", "job:0", java1, "1")
	srv.Do(t, "HSET", "job:00 "+strings.Repeat("long ", 30), java1, "1") // is cut
	x.awaits(t, "job:0 ")
	x.awaits(t, "long long")
	assert.NotRegexp(t, `[^\n]{140}`, regexp.MustCompile(`\x1b\[[0-9]*[A-Za-z]`).ReplaceAllString(x.sees(), "\n"))
	x.types(t, ctrlC)
	assert.Equal(t, 130, x.ends(t))
}

// A server that goes away is shown as such, and the command looks again when it is back.
func TestLsWatchOutlivesTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	fill(t, srv, 5)
	x := onTerminal(t, srv, "ls", "--watch=100ms")
	x.awaits(t, "5 names")
	srv.Stop()
	x.awaits(t, "refused")
	srv.Restart() // and forgets everything
	x.awaits(t, " 0 names")
	fill(t, srv, 3)
	x.awaits(t, " 3 names")
	x.types(t, ctrlC)
	assert.Equal(t, 130, x.ends(t))
}

// With a silent server, too, Ctrl-C ends the command.
func TestLsWatchEndsBesideASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	x := onTerminal(t, srv, "ls", "--watch=100ms")
	x.awaits(t, "0 names")
	srv.Pause()
	t.Cleanup(srv.Resume)
	<-time.After(300 * time.Millisecond)
	began := time.Now()
	x.types(t, ctrlC)
	assert.Equal(t, 130, x.ends(t))
	assert.Less(t, time.Since(began), 5*time.Second)
}

// Ctrl-Z stops it, and fg continues.
func TestLsWatchStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	fill(t, srv, 5)
	u := sitDown(t, srv)
	u.types("TERM=xterm $HF ls --watch=100ms; echo code=$?\n")
	u.sees("5 names")
	u.types(ctrlZ)
	u.sees("Stopped")
	u.types("stty -a\n")
	u.sees(" icanon")
	u.types("fg; echo code=$?\n")
	u.sees("5 names")
	u.types(ctrlC)
	u.sees("code=130")
}
