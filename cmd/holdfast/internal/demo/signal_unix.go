//go:build unix

package demo

import "syscall"

// suspend stops a process wherever it is; wake continues it.
func (p *process) suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) wake() error    { return p.cmd.Process.Signal(syscall.SIGCONT) }
