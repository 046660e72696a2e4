package child

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Attributes make the kernel kill a child with the test binary, however that ends: a panic, a timeout or a kill -9
// runs no cleanup. The signal is tied to the thread that started the child; the Go runtime keeps its threads until
// the process ends, except one that a goroutine locked and never unlocked.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// hasStopped is also true of a child that has ended instead; whoever waits for it handles its end.
func hasStopped(pid int) bool {
	var what unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &what, unix.WSTOPPED|unix.WNOHANG, nil)
	return what.Signo != 0 || err != nil && !errors.Is(err, unix.EINTR)
}
