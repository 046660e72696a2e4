//go:build !linux

package worker

import (
	"syscall"
	"time"
)

// Now is the wall clock: the one that all processes of the machine share everywhere.
func Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// attributes add nothing: a worker notices by itself that its test has ended.
func attributes() *syscall.SysProcAttr { return nil }
