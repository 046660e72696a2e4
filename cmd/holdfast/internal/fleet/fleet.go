// Package fleet starts this program again and again: processes that obey orders and say what happens to them, in lines
// of JSON on pipes, and that end when the first one does.
package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Fleet is processes that say values of type E.
type Fleet[E any] struct {
	Processes []*Process
	Heard     chan Heard[E] // of all of them; closed by Close, when the last has ended

	cancel context.CancelFunc
	wg     sync.WaitGroup // of the listeners
}

// A Heard is what a process has said, or its end.
type Heard[E any] struct {
	Said   E
	Worker int       // the number of the process, from 1
	At     time.Time // when it was heard
	Ended  bool
	Err    error // what the process ended with
}

// A Process is one of them.
type Process struct {
	number int
	cmd    *exec.Cmd
	orders *json.Encoder
	stderr bytes.Buffer
	fate   fate
}

// A fate is how a process is expected to end.
type fate uint8

const (
	working   fate = iota // not at all
	finishing             // by itself, without an error
	killed                // somehow
)

// Finish is the order to complete what was begun, and to end. The end of the orders is one to end at once.
const Finish = "finish"

// patience is how long a process may take to end before it is killed.
const patience = 2 * time.Second

// Launch starts n processes with the arguments given. The first order of each is its setup, which does not travel on
// the command line, because everybody on the machine can read that. Close the fleet, also after an error.
func Launch[E any](ctx context.Context, n int, args []string, setup func(number int) any) (*Fleet[E], error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &Fleet[E]{Heard: make(chan Heard[E], 256), cancel: cancel}
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	for i := range n {
		p := &Process{number: i + 1, cmd: exec.CommandContext(ctx, self, args...)}
		if err := f.launch(p); err != nil {
			return f, fmt.Errorf("worker %d: %w", p.number, err)
		}
		p.Order(setup(p.number))
	}
	return f, nil
}

func (f *Fleet[E]) launch(p *Process) error {
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.orders = json.NewEncoder(stdin)
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	DieWithParent(p.cmd.SysProcAttr)
	p.cmd.Cancel = func() error {
		_ = p.Wake() // a stopped one would not notice
		return stdin.Close()
	}
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.Processes = append(f.Processes, p)
	f.wg.Go(func() { f.listen(p, stdout) })
	return nil
}

// listen passes on what a process says, and at last its end.
func (f *Fleet[E]) listen(p *Process, stdout io.Reader) {
	for says := json.NewDecoder(stdout); ; {
		var said E
		if says.Decode(&said) != nil {
			break
		}
		f.Heard <- Heard[E]{Said: said, Worker: p.number, At: time.Now()}
	}
	_, _ = io.Copy(io.Discard, stdout) // there may be more that is nothing of ours
	err := p.cmd.Wait()
	if err != nil {
		err = errors.New(cmp.Or(strings.TrimPrefix(strings.TrimSpace(p.stderr.String()), "holdfast: "), err.Error()))
	}
	f.Heard <- Heard[E]{Worker: p.number, At: time.Now(), Ended: true, Err: err}
}

// Close ends all processes and waits for them: at most patience, and usually not long.
func (f *Fleet[E]) Close() {
	f.cancel()
	go func() {
		f.wg.Wait()
		close(f.Heard)
	}()
	for range f.Heard { // nobody else listens any more
	}
}

// Ended checks the end of a process against what was expected.
func (f *Fleet[E]) Ended(h Heard[E]) error {
	switch p := f.Processes[h.Worker-1]; {
	case p.fate == killed, p.fate == finishing && h.Err == nil:
		return nil
	case h.Err == nil:
		return fmt.Errorf("worker %d ended too early", h.Worker)
	default:
		return fmt.Errorf("worker %d: %w", h.Worker, h.Err)
	}
}

// Order gives an order. A process that can no longer read it has ended, and its end is heard.
func (p *Process) Order(order any) { _ = p.orders.Encode(order) }

// Kill kills the process.
func (p *Process) Kill() error {
	p.fate = killed
	return p.cmd.Process.Kill()
}

// Finish orders all that have not been killed to finish.
func (f *Fleet[E]) Finish() {
	for _, p := range f.Processes {
		if p.fate == working {
			p.fate = finishing
			p.Order(Finish)
		}
	}
}
