// Package child has what tests do to the processes that they start.
package child

import (
	"os"
	"syscall"
)

// Pause freezes a child, and returns when all its threads stand still: it may have gone on for a while after the
// signal was sent. A child is not paused twice.
func Pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	awaitStopped(p.Pid)
	return nil
}

// Resume lets a paused child go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
