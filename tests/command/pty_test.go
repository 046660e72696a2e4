package command

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A typist sits at a terminal with a shell that has job control.
type typist struct {
	t      testing.TB
	screen log
	keys   *os.File
	shell  *os.Process
	seen   int // of the screen, in bytes
}

func sitDown(t testing.TB, srv *redistest.Server) *typist {
	t.Helper()
	cmd := command(t, srv, []string{"PS1=", "HF=" + binary}, "run")
	cmd.Path, cmd.Args = shell(t), []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}
	cmd.SysProcAttr = nil // pty gives it its own session
	keys, err := pty.Start(cmd)
	require.NoError(t, err)
	u := &typist{t: t, keys: keys, shell: cmd.Process}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&u.screen, keys)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = keys.Close()
		<-done
	})
	u.types("stty -echo; echo be'gi'n\n")
	u.sees("begin")
	return u
}

func shell(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	return path
}

func (u *typist) types(text string) {
	u.t.Helper()
	_, err := u.keys.WriteString(text)
	require.NoError(u.t, err)
}

// sees waits for a text after those already seen.
func (u *typist) sees(text string) {
	u.t.Helper()
	defer func() {
		if u.t.Failed() {
			u.t.Logf("the screen: %q", u.screen.String())
		}
	}()
	kit.Await(u.t, "on the screen: "+text, func() bool {
		screen := u.screen.String() // only once, because it grows meanwhile
		_, after, found := strings.Cut(screen[u.seen:], text)
		if found {
			u.seen = len(screen) - len(after)
		}
		return found
	})
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

// lasts starts no other program once it is ready: a shell that is about to start one swallows a SIGINT, and waits for
// the program, which has received none. It reads what nobody writes.
const lasts = `mkfifo "$0.pipe"; exec 3<>"$0.pipe"; echo ready; read -r x <&3`

// echoes prints the lines that it reads, until stdin ends.
const echoes = `echo ready; while read -r x; do echo "got:$x"; done; echo end; exit 4`

func TestTerminalIsTheCommands(t *testing.T) {
	t.Parallel()
	u := sitDown(t, redistest.Start(t))
	u.types("$HF run x -- " + script(t, "test -t 0 && test -t 1 && test -t 2 && "+echoes) + "; echo code=$?\n")
	u.sees("ready")
	u.types("one\n")
	u.sees("got:one")
	u.types(ctrlD)
	u.sees("end")
	u.sees("code=4")
	u.types("echo th'er'e\n") // the shell has its terminal back
	u.sees("there")
}

func TestTerminalInterrupts(t *testing.T) {
	t.Parallel()
	u := sitDown(t, redistest.Start(t))
	loop := script(t, `trap "echo interrupted; exit 3" INT; echo ready; while :; do sleep 0.05; done`)
	for name, text := range map[string]string{
		"foreground": "$HF run x -- " + loop + "; echo code=$?\n",
		"redirected": "$HF run x -- " + loop + " </dev/null; echo code=$?\n",
		"piped":      "$HF run x -- " + loop + " | (trap '' INT; cat); echo code=${PIPESTATUS[0]}\n",
	} {
		t.Log(name)
		u.types(text)
		u.sees("ready")
		u.types(ctrlC)
		u.sees("interrupted")
		u.sees("code=3")
	}
}

// Ctrl-C is for the whole job: a surrounding script or loop of the shell does not continue.
func TestTerminalInterruptsTheScript(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	hold, err := rlock.New(open(t, srv, nil), "taken", nil).Lock(t.Context())
	require.NoError(t, err)
	defer hold.Release()
	u := sitDown(t, srv)
	for _, tt := range []struct{ text, until string }{
		{"bash -c '$HF run x -- " + script(t, lasts) + "; echo ne\"\"xt'\n", "ready"},
		{"for i in 1 2 3; do $HF run x -- " + script(t, lasts) + "; echo ne''xt; done\n", "ready"},
		{"bash -c '$HF run taken -- true; echo ne\"\"xt'\n", "waiting for"},
	} {
		u.types(tt.text)
		u.sees(tt.until)
		u.types(ctrlC)
		u.types("echo co'd'e=$?\n")
		u.sees("code=130")
		require.NotContains(t, u.screen.String(), "next")
	}
	require.True(t, free(t, srv, "x"))
}

// A SIGINT that was sent to holdfast alone is no Ctrl-C: the script continues.
func TestTerminalIsNotInterruptedByASignal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	u := sitDown(t, srv)
	u.types("bash -c '$HF run x -- " + script(t, lasts) + "; echo ne\"\"xt'\n")
	u.sees("ready")
	s := open(t, srv, nil)
	kit.Await(t, "a holder that gets the signal", func() bool { return signalHolder(t, s, "x", syscall.SIGINT) })
	u.sees("next")
}

func TestTerminalInterruptsTheWait(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	hold, err := rlock.New(open(t, srv, &holdfast.Options{Anonymous: true}), "x", nil).Lock(t.Context())
	require.NoError(t, err)
	defer hold.Release()
	u := sitDown(t, srv)
	u.types("$HF run x -- echo ran\n")
	u.sees("waiting for \"x\", held by ? " + hold.ID()) // reported without being asked for, since a person is watching
	u.types(ctrlC)
	u.types("echo code=$?\n")
	u.sees("code=130")
}

func TestTerminalStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	u := sitDown(t, srv)
	reader := script(t, echoes)
	for name, text := range map[string]string{
		"foreground": "$HF run x -- " + reader + "\n",
		"in a shell": "sh -c '$HF run x -- " + reader + "; exit 0'\n",
		"piped":      "$HF run x -- " + reader + " | cat\n",
	} {
		t.Log(name)
		u.types(text)
		u.sees("ready")
		if name == "piped" { // it asks for the terminal when it reads, and has it when it answers
			u.types("zero\n")
			u.sees("got:zero")
		}
		u.types(ctrlZ)
		u.sees("Stopped")
		require.False(t, free(t, srv, "x"))
		u.types("echo sh'el'l\n")
		u.sees("shell")
		u.types("fg\n")
		u.types("two\n")
		u.sees("got:two")
		u.types(ctrlD)
		u.sees("end")
		kit.Await(t, "the lock is free", func() bool { return free(t, srv, "x") })
	}
}

// A run that is suspended for longer than its lease has lost the lock, and its command does not continue.
func TestTerminalIsLeftForTooLong(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	u := sitDown(t, srv)
	u.types("$HF run --lease 6s x -- " + script(t, echoes) + "\n")
	u.sees("ready")
	u.types(ctrlZ)
	u.sees("Stopped")
	kit.Await(t, "the lock is free", func() bool { return free(t, srv, "x") })
	u.types("fg; echo code=$?\n")
	u.sees("code=79")
	require.NotContains(t, u.screen.String(), "end\r")
}

// In the background the command has no terminal and stops when it reads; in the foreground it gets the terminal.
func TestTerminalInTheBackground(t *testing.T) {
	t.Parallel()
	u := sitDown(t, redistest.Start(t))
	u.types("$HF run x -- " + script(t, echoes) + " &\n")
	u.sees("ready")
	u.types("until jobs | grep Stopped; do sleep 0.1; done\n") // it reads when it comes to that
	u.sees("Stopped")
	u.types("fg\n")
	u.types("one\n")
	u.sees("got:one")
	u.types(ctrlD)
	u.sees("end")
}

// A job that was stopped and ends in the background leaves the terminal and its modes to the program in the foreground.
func TestTerminalIsNotTakenFromOthers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, u := open(t, srv, nil), sitDown(t, srv)
	u.types("stty ixon; $HF run x -- " + script(t, lasts) + "\n")
	u.sees("ready")
	u.types(ctrlZ)
	u.sees("Stopped")
	u.types("bg; stty -ixon; echo be'hi'nd; cat; stty -a\n")
	u.sees("behind")
	kit.Await(t, "a holder that gets the signal", func() bool { return signalHolder(t, s, "x", syscall.SIGTERM) })
	kit.Await(t, "the lock is free", func() bool { return free(t, srv, "x") })
	for _, line := range []string{"one", "two", "three"} { // a program that reads in the background is stopped
		u.types(line + "\n")
		u.sees(line)
	}
	u.types(ctrlD)
	u.sees(" -ixon")
}

// A command that was killed could not undo its changes to the terminal; holdfast does.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	u := sitDown(t, srv)
	u.types("$HF run --lease 6s --grace 100ms x -- " +
		script(t, "stty raw; echo ready; trap '' TERM; while :; do sleep 0.05; done") + "\n")
	u.sees("ready")
	forceUnlock(t, srv)
	u.sees("stopping the command")
	kit.Await(t, "the lock is free", func() bool { return free(t, srv, "x") })
	u.types("echo co'd'e=$?; stty -a\n")
	u.sees("code=79")
	u.sees(" icanon")
}

// A command that stops when it is told to end does not stop holdfast, which kills it when the grace is over.
func TestTerminalOfACommandThatStopsInsteadOfEnding(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	u := sitDown(t, srv)
	u.types("$HF run --lease 15s --grace 2s x -- " +
		script(t, `trap 'sleep 0.2; kill -STOP $$' TERM; echo ready; while :; do sleep 0.05; done`) + "; echo code=$?\n")
	u.sees("ready")
	forceUnlock(t, srv)
	u.sees("stopping the command")
	u.sees("code=79")
}

// A child takes the terminal before it becomes the command, and also if it cannot.
func TestTerminalIsBackFromWhatCannotRun(t *testing.T) {
	t.Parallel()
	u := sitDown(t, redistest.Start(t))
	broken := program(t, "#!/no/such/interpreter\n")
	u.types("sh -c '$HF run x -- " + broken + "; echo code=$?; read -r x; echo got:$x; exit 0'\n")
	u.sees("code=69")
	u.types("line\n")
	u.sees("got:line")
}

// When the terminal hangs up, the command ends, and the lock is free.
func TestTerminalHangsUp(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	u := sitDown(t, srv)
	u.types("$HF run x -- " + script(t, echoes) + "\n")
	u.sees("ready")
	require.NoError(t, u.shell.Kill())
	kit.Await(t, "the lock is free", func() bool { return free(t, srv, "x") })
}
