// Package child has what tests do to the processes that they start.
package child

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Pause freezes a child, and returns when all its threads stand still: it may have gone on for a while after the
// signal was sent. A child is not paused twice.
func Pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(stopTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if hasStopped(p.Pid) {
			return nil
		}
	}
	return fmt.Errorf("child %d has not stopped within %v", p.Pid, stopTimeout)
}

// stopTimeout allows for a busy machine; a child that is paused twice does not report it again.
const stopTimeout = 20 * time.Second

// Resume lets a paused child go on.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
