//go:build !linux

package child

import (
	"errors"
	"syscall"
)

// Attributes add nothing: without Linux' parent-death signal only a test's cleanup ends a child, unless that notices
// by itself.
func Attributes() *syscall.SysProcAttr { return nil }

func awaitStopped(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, syscall.WUNTRACED, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
