package fleet

import "syscall"

// DieWithParent makes the kernel kill a process when the thread that started it ends. Elsewhere a process of a fleet
// ends with its stdin, which a stopped one cannot notice.
func DieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
