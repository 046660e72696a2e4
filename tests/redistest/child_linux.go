package redistest

import "syscall"

// childAttributes make the kernel kill a server with the test binary, however that ends: a panic, a timeout or a
// kill -9 runs no cleanup. The signal is tied to the thread that started the child; the Go runtime keeps its threads
// until the process ends, except one that a goroutine locked and never unlocked.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
