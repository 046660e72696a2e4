// Package interop runs the real Redisson, in a JVM, so that Go tests can have Java and Go use the same locks.
//
// [Start] builds the program in the java folder, once, and starts it; [Java.Connect] makes a Redisson client in it; a
// [Thread] of the client is a lock owner, as threads are in Java; an [Object] is a lock in the hands of a thread, and
// its methods are called by Redisson's own names:
//
//	java := interop.Start(t)
//	thread := java.Connect(t, interop.Config{Addresses: []string{addr}}).Thread(t, "worker")
//	lock := thread.Object(interop.RLock, "orders:42")
//	lock.Do(t, "lock")
//	waiting := other.Start("lock")         // another thread waits, and the test goes on
//	lock.Do(t, "unlock")
//	waiting.Wait(t)
//
// A machine without a JDK or Maven skips these tests; HOLDFAST_REQUIRE_JAVA=1 makes that a failure.
package interop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/child"
)

// ErrDied answers every call that was under way, or came later, when the JVM ended.
var ErrDied = errors.New("interop: the JVM has ended")

// Slack is how much earlier than its lease what Java has may end: the server's clock shows whole milliseconds.
const Slack = 3 * time.Millisecond

// Java is a JVM that runs Redisson. Its methods may be called from any goroutine.
type Java struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	log     *bytes.Buffer // stderr
	died    chan struct{}
	clients atomic.Int64 // how many there have been, for their names

	mu    sync.Mutex // guards what follows, and writing to stdin
	calls map[int]*Call
	last  int
	dead  bool
}

// Start starts a JVM for the duration of a test, and skips the test where there is no Java.
func Start(tb testing.TB) *Java {
	tb.Helper()
	java, err := Launch("")
	Require(tb, err)
	tb.Cleanup(func() {
		java.Close()
		if tb.Failed() {
			tb.Logf("the JVM's log:\n%s", java.Log())
		}
	})
	return java
}

// Require fails the test for an error of [Launch], or skips it if the error is that there is no Java.
func Require(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrNoJava) && os.Getenv("HOLDFAST_REQUIRE_JAVA") != "1":
		tb.Skipf("NOTHING IS TESTED AGAINST REDISSON HERE: %v (install a JDK ≥ 17 and Maven)", err)
	default:
		tb.Fatal(err)
	}
}

// Command is a program of the java folder, for a test that runs it by itself; without Java the test is skipped.
func Command(tb testing.TB, class string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd, err := command("", class, args...)
	Require(tb, err)
	return cmd
}

// Program is a program in one file of Java, to be run with a release of Redisson, as of [Classpath]; without Java the
// test is skipped.
func Program(tb testing.TB, release, file string, args ...string) *exec.Cmd {
	tb.Helper()
	classpath, err := Classpath(release)
	Require(tb, err)
	return program(classpath, append([]string{file}, args...)...)
}

func command(release, class string, args ...string) (*exec.Cmd, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoJava, err)
	}
	classpath, err := Classpath(release)
	if err != nil {
		return nil, err
	}
	var words []string
	if release == "" {
		words = append(words, "-XX:SharedArchiveFile="+classesOf(classpath))
	}
	words = append(words, "holdfast.interop."+class)
	return program(classpath, append(words, args...)...), nil
}

// program is a JVM for a short life on a small machine: no second compiler, no collector threads, no file of figures.
// Stdout is for answers only.
func program(classpath string, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{
		"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-XX:+DisplayVMOutputToStderr", "-Xlog:disable", "-Xlog:all=warning:stderr",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classpath,
	}, args...)...)
}

// Launch starts a JVM with a release of Redisson, as of [Classpath], which the caller must close. Should the caller die
// first, the JVM sees the end of its stdin and ends too.
func Launch(release string) (*Java, error) {
	cmd, err := command(release, "Driver")
	if err != nil {
		return nil, err
	}
	return start(cmd)
}

func start(cmd *exec.Cmd) (j *Java, err error) {
	j = &Java{cmd: cmd, log: new(bytes.Buffer), died: make(chan struct{}), calls: make(map[int]*Call)}
	j.cmd.Stderr = j.log
	if j.stdin, err = j.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("interop: start java: %w", err)
	}
	go j.read(stdout)
	return j, nil
}

// Close ends the JVM in good order, though without a farewell to Redis, and waits until it has gone.
func (j *Java) Close() {
	_ = j.stdin.Close() // fails if the JVM has ended
	j.Resume()          // if it was paused
	select {
	case <-j.died:
	case <-time.After(patience):
		j.Kill()
	}
}

// Kill ends the JVM as kill -9 does, and waits until it has gone.
func (j *Java) Kill() {
	_ = j.cmd.Process.Kill() // fails only if it has ended by itself
	<-j.died
}

// Ended reports whether the JVM has ended.
func (j *Java) Ended() bool {
	select {
	case <-j.died:
		return true
	default:
		return false
	}
}

// Log is what the JVM has written to stderr, which is Redisson's errors. It waits until the JVM has ended.
func (j *Java) Log() string {
	<-j.died
	return j.log.String()
}

// Pause freezes the whole JVM, as a long garbage collection or a suspended machine would, until [Java.Resume]. It
// returns when all its threads stand still. A JVM is not paused twice.
func (j *Java) Pause() {
	_ = child.Pause(j.cmd.Process) // an error can only mean that it has ended, which every caller finds out by itself
}

// Resume lets a paused JVM go on.
func (j *Java) Resume() { _ = child.Resume(j.cmd.Process) }

// start sends a request for an actor and returns without waiting for the answer.
func (j *Java) start(actor, verb string, args ...any) *Call {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = word(arg)
	}
	call := &Call{what: strings.Join(append([]string{actor, verb}, words...), " "), done: make(chan struct{})}

	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		call.end(Answer{Err: ErrDied})
		return call
	}
	j.last++
	j.calls[j.last] = call
	// A write fails only if the JVM has died, and then the reader answers the call.
	_, _ = fmt.Fprintf(j.stdin, "%d %s\n", j.last, call.what)
	return call
}

// word puts an argument into the protocol's words. Java takes all times in milliseconds.
func word(arg any) string {
	if d, ok := arg.(time.Duration); ok {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	if list, ok := arg.([]string); ok {
		arg = "[" + strings.Join(list, ", ") + "]"
	}
	return url.QueryEscape(fmt.Sprint(arg))
}

// read hands each answer to its call until the JVM ends.
func (j *Java) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		id, answer := parse(strings.TrimSuffix(line, "\n"))
		j.mu.Lock()
		call := j.calls[id]
		delete(j.calls, id)
		j.mu.Unlock()
		call.end(answer)
	}
	_ = j.cmd.Wait() // how it ended says nothing: it is killed, or told to go

	j.mu.Lock()
	defer j.mu.Unlock()
	j.dead = true
	for _, call := range j.calls {
		call.end(Answer{Err: ErrDied})
	}
	close(j.died)
}
