//go:build unix

package demo

import "syscall"

// suspend stops a process in its tracks; wake has it go on where it was.
func (p *process) suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) wake() error    { return p.cmd.Process.Signal(syscall.SIGCONT) }
