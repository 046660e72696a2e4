//go:build !linux

package demo

import "syscall"

// attributes adds nothing: only Linux kills children with their parent.
func attributes() *syscall.SysProcAttr { return nil }
