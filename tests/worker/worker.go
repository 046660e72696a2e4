// Package worker runs parts of a test in processes of their own, which can be killed and stopped.
//
// A worker is the test binary once more, with a role instead of tests. It talks to the test in lines: what it says is
// still heard if it is killed in the next moment. Workers and test share one clock, so that what happened in one can
// be put in order with what happened in another.
package worker

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/tests/child"
)

// roleVariable tells a process that it is a worker, and which.
const roleVariable = "HOLDFAST_TEST_ROLE"

// Run does nothing in the test's own process. In a worker it plays the role, with the arguments that the test gave,
// and ends the process; that also ends when the test does. Call it first thing in TestMain.
func Run(roles map[string]func(args []string)) {
	line, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	words := strings.Split(line, "\n")
	role := roles[words[0]]
	if role == nil {
		fmt.Fprintf(os.Stderr, "no role %q\n", words[0])
		os.Exit(2)
	}
	role(words[1:])
	os.Exit(0)
}

// Stopped is closed, in a worker, when the test has asked it to end, or has ended itself.
var Stopped = sync.OnceValue(func() <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test at the latest
		close(stopped)
	}()
	return stopped
})

// Say tells the test one line. It is written at once and as a whole.
func Say(format string, args ...any) {
	if _, err := os.Stdout.WriteString(fmt.Sprintf(format, args...) + "\n"); err != nil {
		os.Exit(1) // nobody listens
	}
}

// heardAll is what HearOut writes behind all that a worker has said, maybe amid a line that is cut off.
const heardAll = "\x00heard all"

// longestLine is how much at most a worker says in a line.
const longestLine = 4 << 20

// A Worker is a process that plays a role.
type Worker struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File      // the end that the worker writes to
	heard  chan struct{} // gets one for each heardAll
	ended  chan struct{}
	killed atomic.Bool

	stderr strings.Builder // complete when ended is closed, as err is
	err    error
}

// Start starts a worker in a role. What it says is heard line by line, in one goroutine. The worker is killed at the
// end of the test if it still runs, and the test fails if it has ended with an error other than being killed.
func Start(t testing.TB, hear func(line string), role string, args ...string) *Worker {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join(append([]string{role}, args...), "\n"))
	return StartCommand(t, hear, role, cmd)
}

// Hear makes a hear for [Start] of what takes what a worker says as JSON.
func Hear[T any](t testing.TB, take func(said T)) (hear func(line string)) {
	return func(line string) {
		var said T
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Errorf("%q: %v", line, err)
			return
		}
		take(said)
	}
}

// StartCommand starts any program as a worker, which messages about it call by that name.
func StartCommand(t testing.TB, hear func(line string), name string, cmd *exec.Cmd) *Worker {
	t.Helper()
	w := &Worker{cmd: cmd, heard: make(chan struct{}), ended: make(chan struct{})}
	w.cmd.SysProcAttr = child.Attributes()
	w.cmd.Stderr = &w.stderr
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.stdout, w.cmd.Stdout = theirs, theirs
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go w.listen(ours, hear)
	t.Cleanup(func() {
		w.Kill()
		if w.err != nil && !w.killed.Load() {
			t.Errorf("worker %q: %v\n%s", name, w.err, w.stderr.String())
		}
	})
	return w
}

func (w *Worker) listen(stdout *os.File, hear func(line string)) {
	defer close(w.ended)
	defer stdout.Close()
	ended := make(chan error, 1)
	go func() {
		err := w.cmd.Wait()
		_ = w.stdout.Close() // which ends the scanner as well
		ended <- err
	}()
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, longestLine)
	begun := ""
	for scanner.Scan() {
		line, heard := strings.CutSuffix(begun+scanner.Text(), heardAll)
		if heard {
			begun = line
			w.heard <- struct{}{}
			continue
		}
		begun = ""
		hear(line)
	}
	if w.err = scanner.Err(); w.err != nil { // what it says is not heard any more
		_ = w.cmd.Process.Kill()
	}
	if err := <-ended; w.err == nil {
		w.err = err
	}
}

// Ended is closed when the worker has ended and all that it said has been heard.
func (w *Worker) Ended() <-chan struct{} { return w.ended }

// Tell writes a line to the worker's standard input, for a role that reads it instead of waiting for Stopped.
func (w *Worker) Tell(line string) { _, _ = io.WriteString(w.stdin, line+"\n") } // fails only if it has ended

// End asks the worker to end, without waiting for it.
func (w *Worker) End() { _ = w.stdin.Close() }

// Kill kills the worker, paused or not, and waits for its end.
func (w *Worker) Kill() {
	select {
	case <-w.ended:
		return
	default:
	}
	w.killed.Store(true)
	_ = w.cmd.Process.Kill() // fails only if it has ended by itself
	<-w.ended
}

// Pause freezes the worker until Resume: when it has returned the worker does and says nothing more. An error can only
// mean that it has ended.
func (w *Worker) Pause() { _ = child.Pause(w.cmd.Process) }

// HearOut returns when all that a paused worker has said has been heard, or when it has ended.
func (w *Worker) HearOut() {
	_, _ = w.stdout.WriteString(heardAll + "\n") // fails only if it has ended
	select {
	case <-w.heard:
	case <-w.ended:
	}
}

// Resume lets a paused worker go on.
func (w *Worker) Resume() { _ = child.Resume(w.cmd.Process) }
