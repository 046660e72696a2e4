package run

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
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

// ended reports whether all threads of all processes of a group have ended, and only nobody has waited for them yet. It
// remembers one that lives, and looks at all processes of the machine only when that has ended.
func ended(group int, lives *string) (found bool) {
	if _, alive := member(group, *lives); alive {
		return false
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	return !slices.ContainsFunc(files, func(file string) bool {
		is, alive := member(group, file)
		*lives, found = file, found || is
		return alive
	}) && found
}

// member reports whether the process that a file tells of is in the group, and whether a thread of it has not ended.
func member(group int, file string) (is, alive bool) {
	text, err := os.ReadFile(file)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, group, …, threads
	is = err == nil && len(fields) >= 18 && fields[2] == strconv.Itoa(group)
	return is, is && (fields[0] != "Z" || fields[17] != "1")
}

// marked lists the processes that have the mark in their environment, if there is a mark: the command's, even those
// that have left its process group. It finds none if it may not read /proc. Before it says that there is none, it looks
// again at those without an environment: a process that is just being executed has none for a moment.
func marked(mark string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for look := 0; look < 5 && mark != "" && len(pids) == 0; look++ {
		time.Sleep(time.Duration(look) * time.Millisecond)
		files = slices.DeleteFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if bytes.Contains(text, []byte(mark)) && pid != os.Getpid() {
				pids = append(pids, pid)
			}
			return err != nil || len(text) > 0
		})
	}
	return pids
}
