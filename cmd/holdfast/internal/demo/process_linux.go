package demo

import "syscall"

// attributes make the kernel kill a worker with the coordinator, however that ends. Elsewhere
// a worker ends with its stdin, which a stopped one cannot notice.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
