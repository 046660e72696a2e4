//go:build !linux

package fleet

import "syscall"

// DieWithParent does nothing: only Linux kills children with their parent.
func DieWithParent(*syscall.SysProcAttr) {}
