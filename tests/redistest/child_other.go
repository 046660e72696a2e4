//go:build !linux

package redistest

import "syscall"

// childAttributes adds nothing: without Linux' parent-death signal, only the test's cleanup ends a server.
func childAttributes() *syscall.SysProcAttr { return nil }
