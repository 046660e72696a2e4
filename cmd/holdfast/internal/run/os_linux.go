package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Of prctl(2); package syscall does not have all of them.
const prSetChildSubreaper = 36

// dieWithParent has the system kill the process when the thread that starts it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptOrphans makes what the command leaves behind children of this process, which can then wait for them.
func adoptOrphans() { _, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0) }

// rename sets the name that killall and pkill -x go by, so that they do not take a guard for holdfast.
func rename(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// itself is the program's file, also if it has been replaced meanwhile.
func itself() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// ended reports whether all of a process group have ended, and are only not waited for.
func ended(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	found := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, group
		if err != nil || len(fields) < 3 || fields[2] != strconv.Itoa(group) {
			continue
		}
		if fields[0] != "Z" {
			return false
		}
		found = true
	}
	return found
}

// marked lists the processes that have the mark in their environment, if there is one: those that the command has
// started, also where they have left its process group. It finds none where /proc is missing or belongs to others.
func marked(mark string) (pids []int) {
	if mark == "" {
		return nil
	}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte(mark)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
