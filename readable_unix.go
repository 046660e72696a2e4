//go:build unix

package holdfast

import (
	"net"
	"syscall"
)

// readable reports whether there is something to be read from a connection, be it that it has ended. It reads nothing.
func readable(conn net.Conn) (is bool) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK) // it does not block
		is = err != syscall.EAGAIN && err != syscall.EINTR
	})
	return is
}
