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

// awaitStopped leaves the end of a child that ends instead to whoever waits for that.
func awaitStopped(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil), unix.EINTR) {
	}
}
