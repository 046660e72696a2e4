//go:build unix

package demo

import (
	"os"
	"syscall"
)

// suspend stops a process in its tracks; wake has it go on where it was.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func wake(p *os.Process) error    { return p.Signal(syscall.SIGCONT) }
