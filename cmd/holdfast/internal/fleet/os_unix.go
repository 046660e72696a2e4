//go:build unix

package fleet

import "syscall"

// Suspend stops the process wherever it is.
func (p *Process) Suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Wake continues it.
func (p *Process) Wake() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
