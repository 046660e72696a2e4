package setlockinterop

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

var (
	// errNoPython means that `make python` has not been run, or could not do its work.
	errNoPython = errors.New("no redis-py")
	// errDied answers every call that was under way, or came later, when the process ended.
	errDied = errors.New("the Python process has ended")
)

// A pythonError is what a Python method raised.
type pythonError struct {
	class   string
	message string
}

func (e *pythonError) Error() string { return e.class + ": " + e.message }

// A python is a process that runs redis-py. Its methods may be called from any goroutine.
type python struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   bytes.Buffer // stderr; complete when died is closed
	died  chan struct{}

	mu    sync.Mutex // guards what follows, and writing to stdin
	calls map[int]chan reply
	last  int
	locks int
}

// A call asks for something; driver.py says what there is.
type call struct {
	ID      int            `json:"id"`
	Lock    string         `json:"lock"`
	Do      string         `json:"do"`
	Addr    string         `json:"addr,omitempty"`
	Name    string         `json:"name,omitempty"`
	Timeout float64        `json:"timeout,omitempty"` // in seconds, as all times of redis-py; 0: none
	Sleep   float64        `json:"sleep,omitempty"`
	Args    map[string]any `json:"args,omitempty"`
	Token   []byte         `json:"token,omitempty"`
}

// A reply is how a call ended.
type reply struct {
	ID      int    `json:"id"`
	Value   any    `json:"value"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

// pythonPath finds the interpreter of the environment that .ci/install makes, if it has what is pinned.
func pythonPath(here string) (string, error) {
	environment := filepath.Join(here, "..", "..", "bin", "python")
	installed, err := os.ReadFile(filepath.Join(environment, "requirements.txt"))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoPython, err)
	}
	pinned, err := os.ReadFile(filepath.Join(here, "python", "requirements.txt"))
	if err != nil {
		return "", err
	}
	if !bytes.Equal(installed, pinned) {
		return "", fmt.Errorf("%w: what is installed is not what is pinned", errNoPython)
	}
	return filepath.Join(environment, "bin", "python"), nil
}

// launchPython starts a process, which the caller must close. Should the caller die first, it ends by itself.
func launchPython() (*python, error) {
	_, self, _, _ := runtime.Caller(0)
	here := filepath.Dir(self)
	path, err := pythonPath(here)
	if err != nil {
		return nil, err
	}
	p := &python{
		cmd:   exec.Command(path, "-B", filepath.Join(here, "python", "driver.py")),
		died:  make(chan struct{}),
		calls: map[int]chan reply{},
	}
	p.cmd.Stderr = &p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Python: %w", err)
	}
	go p.read(stdout)
	return p, nil
}

// read hands each reply to its call until the process ends.
func (p *python) read(stdout io.Reader) {
	defer close(p.died)
	for lines := json.NewDecoder(bufio.NewReader(stdout)); ; {
		var r reply
		if lines.Decode(&r) != nil {
			break
		}
		p.mu.Lock()
		p.calls[r.ID] <- r
		delete(p.calls, r.ID)
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // how it ended says nothing: it is killed, or told to go
}

// do makes a call and waits for the reply as long as the process lives.
func (p *python) do(c call) (any, error) {
	p.mu.Lock()
	p.last++
	c.ID = p.last
	replied := make(chan reply, 1)
	p.calls[c.ID] = replied
	line, err := json.Marshal(c)
	if err == nil {
		// A write fails only if the process has died, which is found out below.
		_, _ = p.stdin.Write(append(line, '\n'))
	}
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case r := <-replied:
		if r.Error != "" {
			return nil, &pythonError{r.Error, r.Message}
		}
		return r.Value, nil
	case <-p.died:
		return nil, errDied
	}
}

// kill ends the process as kill -9 does, and waits until it has gone.
func (p *python) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended by itself
	<-p.died
}

// close ends the process in good order.
func (p *python) close() {
	_ = p.stdin.Close() // fails only if it has ended by itself
	select {
	case <-p.died:
	case <-time.After(patience):
		p.kill()
	}
}

// shared is the process of all tests but those that kill one, started by the first that asks.
var shared struct {
	once   sync.Once
	python *python
	err    error
}

func sharedPython() (*python, error) {
	shared.once.Do(func() { shared.python, shared.err = launchPython() })
	return shared.python, shared.err
}

// closeShared ends the process that was shared, and shows what it complained about.
func closeShared(failed bool) {
	if shared.python == nil {
		return
	}
	shared.python.close()
	if failed {
		fmt.Printf("the log of Python:\n%s\n", shared.python.log.String())
	}
}

// needPython fails the test for an error, or skips it if the error is that there is no redis-py.
func needPython(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errNoPython) && os.Getenv("HOLDFAST_REQUIRE_PYTHON") != "1":
		tb.Skipf("NOTHING IS TESTED AGAINST REDIS-PY HERE: %v (make python installs it)", err)
	default:
		tb.Fatal(err)
	}
}

// A pythonProgram uses redis-py.
type pythonProgram struct {
	python *python
	addr   string
}

func openPython(addr string) (program, error) {
	p, err := sharedPython()
	if err != nil {
		return nil, err
	}
	return &pythonProgram{p, addr}, nil
}

func (p *pythonProgram) close() error { return nil } // the process goes on

func (p *pythonProgram) mutex(s spec) mutex {
	p.python.mu.Lock()
	p.python.locks++
	m := &pythonMutex{python: p.python, handle: fmt.Sprint("lock", p.python.locks), fixed: s.token}
	p.python.mu.Unlock()
	sleep := 100 * time.Millisecond // redis-py's default
	if s.poll > 0 {
		sleep = s.poll
	}
	_, m.made = p.python.do(call{
		Lock: m.handle, Do: "new", Addr: p.addr, Name: s.name, Timeout: s.lease.Seconds(), Sleep: sleep.Seconds(),
	})
	return m
}

// A pythonMutex is a redis.lock.Lock.
type pythonMutex struct {
	python *python
	handle string
	fixed  string // "": Lock makes them
	made   error
}

func (m *pythonMutex) do(method string, args map[string]any) (any, error) {
	return m.doWith(method, args, "")
}

func (m *pythonMutex) doWith(method string, args map[string]any, token string) (any, error) {
	if m.made != nil {
		return nil, m.made
	}
	return m.python.do(call{Lock: m.handle, Do: method, Args: args, Token: []byte(token)})
}

func (m *pythonMutex) try() (bool, error) {
	got, err := m.doWith("acquire", map[string]any{"blocking": false}, m.fixed)
	return got == true, err
}

func (m *pythonMutex) wait() error {
	got, err := m.doWith("acquire", map[string]any{"blocking_timeout": patience.Seconds()}, m.fixed)
	if err == nil && got != true {
		err = errImpatient
	}
	return err
}

func (m *pythonMutex) extend(d time.Duration) error {
	_, err := m.do("extend", map[string]any{"additional_time": d.Seconds(), "replace_ttl": true})
	return err
}

func (m *pythonMutex) release() error {
	_, err := m.do("release", nil)
	return err
}

func (m *pythonMutex) mine() (bool, error) {
	owned, err := m.do("owned", nil)
	return owned == true, err
}

func (m *pythonMutex) token() (string, error) {
	value, err := m.do("token", nil)
	if err != nil {
		return "", err
	}
	text, _ := value.(string)
	token, err := base64.StdEncoding.DecodeString(text)
	return string(token), err
}

func (m *pythonMutex) claim(token string) error {
	_, err := m.doWith("claim", nil, token)
	return err
}

func (m *pythonMutex) letGo() error { return nil } // redis-py does nothing by itself

func (m *pythonMutex) count(_ string, key string, rounds int) error {
	_, err := m.do("count", map[string]any{"key": key, "rounds": rounds})
	return err
}
