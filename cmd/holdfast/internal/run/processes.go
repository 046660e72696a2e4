//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fleet"
)

// A child is the command. It leads a process group of its own, so that one signal reaches all its processes.
type child struct {
	pid     int
	mark    string                  // in the environment of its processes
	changed chan syscall.WaitStatus // stopped, continued, ended
	lives   string                  // what tells of a process of the group that was alive
}

// spawn starts the command. It gives it the terminal, if that is to be lent, as a shell gives it to a job.
func (w *watcher) spawn(o outer) (*child, error) {
	attr := &os.ProcAttr{
		Env:   o.environ(append(outers(), o)),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if w.lent {
		attr.Sys.Foreground, attr.Sys.Ctty = true, int(w.terminal.file.Fd())
	}
	fleet.DieWithParent(attr.Sys)
	adoptOrphans()
	c := &child{mark: o.mark(), changed: make(chan syscall.WaitStatus, 16)}
	started := make(chan error)
	go func() {
		// Where the system kills a child with its parent, the parent is the thread that started it.
		runtime.LockOSThread()
		process, err := os.StartProcess(w.path, w.argv, attr)
		if errors.Is(err, syscall.ENOEXEC) {
			w.byShell()
			process, err = os.StartProcess(w.path, w.argv, attr)
		}
		if err == nil {
			c.pid = process.Pid
		}
		started <- err
		if err == nil {
			c.reap(w.guard)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// reap waits for the child, for its guard, and meanwhile for the orphans that become children of holdfast on Linux.
func (c *child) reap(guard *guard) {
	for lives, beside := true, guard.process.Pid; lives || beside != 0; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == c.pid:
			c.changed <- status
			lives = !status.Exited() && !status.Signaled()
		case pid == beside && (status.Exited() || status.Signaled()):
			close(guard.gone)
			beside = 0 // another process may get the number
		}
	}
}

// signal sends a signal to the whole group.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// alive reports whether a process of the group is left, be it another user's, which nobody may end. Zombies do not
// count: their parent may have left the group, and never wait for them.
func (c *child) alive() bool {
	return !errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) && !ended(c.pid, &c.lives)
}

// terminate asks the processes of the group, and those with the mark, to end, and continues them so that they can.
func terminate(group int, mark string) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		_ = syscall.Kill(-group, sig)
		for _, pid := range marked(mark) {
			if of, err := syscall.Getpgid(pid); err == nil && of != group {
				_ = syscall.Kill(pid, sig)
			}
		}
	}
}

// kill kills the group, if there is one, and the processes with the mark. It looks again for those forked meanwhile.
func kill(group int, mark string) {
	if group > 1 {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	for range 100 {
		list := marked(mark)
		if len(list) == 0 {
			return
		}
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// A guard is a process that kills the command if holdfast dies, or is stopped for so long that the hold ends. It
// notices the one by the end of its stdin, and the other by its own clock. Each line that it reads is a word and what
// it is told: "mark" and "group" say whom to kill, "until" when.
type guard struct {
	process *os.Process
	pipe    io.WriteCloser
	said    io.ReadCloser // its stdout: it says that it kills
	until   time.Time
	gone    chan struct{} // closed by the child's reap when it has waited for the guard
}

// startGuard starts a guard for the processes that will have the mark, which it can see only on Linux.
func startGuard(mark string) (*guard, error) {
	self, err := itself()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "run", "--guard")
	cmd.Args[0], cmd.Env = "holdfast", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without the terminal and its signals
	g := &guard{gone: make(chan struct{})}
	if g.pipe, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if g.said, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.process = cmd.Process
	g.tell("mark", mark) // before the command starts: holdfast may die right after
	return g, nil
}

func (g *guard) tell(word string, what any) { fmt.Fprintln(g.pipe, word, what) }

// allow tells the guard until when the command may run if it hears nothing else; zero means forever. It tells a time,
// not how much is left, because a process that is stopped meanwhile tells it late, or hears it late.
func (g *guard) allow(until time.Time) {
	if until.Equal(g.until) {
		return
	}
	g.until = until
	end := int64(0)
	if !until.IsZero() {
		end = int64(fleet.Uptime()) // first: it may take long to get to the next one
		end += int64(time.Until(until))
	}
	g.tell("until", end)
}

// dismiss ends the guard, and lets the command live.
func (g *guard) dismiss() {
	_ = g.process.Kill()
	_ = g.pipe.Close()
}

// struck reports whether the guard, which has ended, killed the command while holdfast lived.
func (g *guard) struck() bool {
	said, _ := io.ReadAll(g.said)
	_ = g.said.Close()
	return len(said) > 0
}

// keepGuard is what the guard's process does.
func keepGuard(in *os.File, out io.Writer) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
		syscall.SIGPIPE) // holdfast, to which it writes, may have died
	rename("holdfast-guard")
	mark, group, end := "", 0, int64(0)
	for lines := bufio.NewReader(in); ; {
		left, wait := time.Duration(end)-fleet.Uptime(), -1
		if end != 0 {
			wait = int(max(0, min(left, time.Hour)+time.Millisecond-1) / time.Millisecond) // an int32 on some systems
		}
		if lines.Buffered() == 0 {
			// What holdfast has said counts even if the time is over: this process may have stood still.
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}, wait)
			if err != nil || n == 0 && left > 0 { // a signal, or an hour
				continue
			}
			if n == 0 {
				_, _ = io.WriteString(out, "killed\n") // first: holdfast reads this when the command is dead
				kill(group, mark)
				end = 0
				continue
			}
		}
		line, err := lines.ReadString('\n') // a whole one: they are written at once
		if err != nil {
			kill(group, mark)
			return
		}
		switch word, what, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "mark":
			mark = what
		case "group":
			group, _ = strconv.Atoi(what)
		case "until":
			end, _ = strconv.ParseInt(what, 10, 64)
		}
	}
}
