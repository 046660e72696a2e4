//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// A guard is a process beside the command that kills it if holdfast is gone, or stopped for so long that
// the hold ends. It learns the first by the end of the pipe to it, and the second by its own clock.
type guard struct {
	process *os.Process
	pipe    io.WriteCloser
	said    io.ReadCloser // what it has said: that it kills
	until   time.Time
	gone    chan struct{} // closed by the child's reap when it has waited for this one, too
}

// startGuard starts a guard of the processes that will have the mark, where the system lets it see that.
func startGuard(mark string) (*guard, error) {
	self, err := itself()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "run", "--guard")
	cmd.Args[0], cmd.Env = "holdfast", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from the terminal and its signals
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
	fmt.Fprintln(g.pipe, mark) // before there is anybody: holdfast may be gone the moment after
	return g, nil
}

// watch tells it of the command's process group.
func (g *guard) watch(c *child) { fmt.Fprintln(g.pipe, c.pid) }

// allow tells it until when the command may run if nothing else is heard; zero: for ever.
func (g *guard) allow(until time.Time) {
	if until.Equal(g.until) {
		return
	}
	g.until = until
	left := int64(-1)
	if !until.IsZero() {
		left = max(0, time.Until(until).Milliseconds())
	}
	fmt.Fprintf(g.pipe, "%d\n", left)
}

// dismiss ends it. Whoever it was to kill lives on.
func (g *guard) dismiss() {
	_ = g.process.Kill()
	_ = g.pipe.Close()
}

// struck reports whether a guard that is gone has killed the command while holdfast lived.
func (g *guard) struck() bool {
	said, _ := io.ReadAll(g.said)
	_ = g.said.Close()
	return len(said) > 0
}

// keepGuard is the guard's process.
func keepGuard(in io.Reader, out io.Writer) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	rename("holdfast-guard")
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	mark := <-lines
	group := 0
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case line, ok := <-lines:
			n, err := strconv.ParseInt(line, 10, 64)
			switch {
			case !ok:
				kill(group, mark)
				return
			case err != nil:
			case group == 0:
				group = int(n)
			default:
				timer.Stop()
				if n >= 0 {
					timer.Reset(time.Duration(n) * time.Millisecond)
				}
			}
		case <-timer.C:
			_, _ = io.WriteString(out, "killed\n") // before anybody can know
			kill(group, mark)
		}
	}
}
