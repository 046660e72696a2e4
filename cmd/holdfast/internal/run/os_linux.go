package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PR_SET_CHILD_SUBREAPER of prctl(2), which package syscall lacks.
const prSetChildSubreaper = 36

// adoptOrphans makes the processes that the command leaves behind children of this one, which can then wait for them.
func adoptOrphans() { _, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0) }

// rename sets the name that killall and pkill -x look for, so that they do not mistake a guard for holdfast.
func rename(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// itself is the program's file, even if it has been replaced since.
func itself() (string, error) { return "/proc/self/exe", nil }

// ended reports whether all threads of all processes of a group have ended, and only nobody has waited for them yet.
func ended(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	found := false
	for _, file := range files {
		text, err := os.ReadFile(file)
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, group
		if err != nil || len(fields) < 18 || fields[2] != strconv.Itoa(group) {
			continue
		}
		if fields[0] != "Z" || fields[17] != "1" {
			return false
		}
		found = true
	}
	return found
}

// marked lists the processes that have the mark in their environment, if there is a mark: the command's, even those
// that have left its process group. It finds none if it may not read /proc. It looks again before it says that there is
// none, because a process that is just being executed has no environment for a moment.
func marked(mark string) (pids []int) {
	for look := 0; look < 5 && mark != "" && len(pids) == 0; look++ {
		time.Sleep(time.Duration(look) * time.Millisecond)
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
	}
	return pids
}
