//go:build linux || darwin || freebsd || openbsd || dragonfly

package run

import (
	"errors"
	"os"
	"runtime"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A child is the command. It leads a process group of its own, so that one signal reaches all of it.
type child struct {
	pid     int
	mark    string                  // in the environment of its processes
	changed chan syscall.WaitStatus // stopped, continued, ended
}

// spawn starts the command. If terminal is not nil it gets that, as a shell's job does.
func (s *settings) spawn(o outer, terminal *terminal, guard *guard) (*child, error) {
	attr := &os.ProcAttr{
		Env:   o.environ(append(outers(), o)),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if terminal != nil {
		attr.Sys.Foreground, attr.Sys.Ctty = true, int(terminal.file.Fd())
	}
	dieWithParent(attr.Sys)
	adoptOrphans()
	c := &child{mark: o.mark(), changed: make(chan syscall.WaitStatus, 16)}
	started := make(chan error)
	go func() {
		// Where the system kills the child with its parent, the thread that started it counts as that.
		runtime.LockOSThread()
		process, err := os.StartProcess(s.path, s.argv, attr)
		if errors.Is(err, syscall.ENOEXEC) {
			s.byShell()
			process, err = os.StartProcess(s.path, s.argv, attr)
		}
		if err == nil {
			c.pid = process.Pid
		}
		started <- err
		if err == nil {
			c.reap(guard)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// reap waits for the child, for its guard, and for what it left behind, which some systems make holdfast's own.
func (c *child) reap(guard *guard) {
	beside := guard.process.Pid
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == c.pid:
			c.changed <- status
		case pid == beside && (status.Exited() || status.Signaled()):
			close(guard.gone)
			beside = 0 // the number is free for others
		}
	}
}

// signal sends a signal to the whole group.
func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(-c.pid, sig) }

// alive reports whether there is anybody left in the group. Those are not who have ended, and are not
// waited for by a parent that has left it.
func (c *child) alive() bool { return syscall.Kill(-c.pid, 0) == nil && !ended(c.pid) }

// terminate asks everybody to end, also those who are stopped: the group, and who has the mark.
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

// kill kills everybody, the group if there is one. Who was forked meanwhile is found by the next look.
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

// exitCode is the exit status by which a shell would tell of a process that ended so.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return cli.ExitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
