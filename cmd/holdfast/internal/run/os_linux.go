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
func ended(group int, lives *string) bool {
	files, found := []string{*lives}, false
	for i := 0; i < len(files); i++ {
		text, err := os.ReadFile(files[i])
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, group, …, threads
		switch {
		case err != nil || len(fields) < 18 || fields[2] != strconv.Itoa(group):
		case fields[0] != "Z" || fields[17] != "1":
			*lives = files[i]
			return false
		default:
			found = true
		}
		if i == 0 {
			all, _ := filepath.Glob("/proc/[0-9]*/stat")
			files = append(files, all...)
		}
	}
	return found
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
