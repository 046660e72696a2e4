//go:build !linux

package child

import (
	"errors"
	"syscall"
)

// Attributes add nothing: without Linux' parent-death signal only a test's cleanup ends a child, unless that notices
// by itself.
func Attributes() *syscall.SysProcAttr { return nil }

func hasStopped(pid int) bool {
	stopped, err := syscall.Wait4(pid, nil, syscall.WUNTRACED|syscall.WNOHANG, nil)
	return stopped > 0 || err != nil && !errors.Is(err, syscall.EINTR)
}
