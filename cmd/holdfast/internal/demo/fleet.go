package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A fleet is the worker processes of a scene.
type fleet struct {
	processes []*process
	events    chan event // of all of them; closed when the last has ended

	cancel context.CancelFunc
	wg     sync.WaitGroup // of the listeners
}

// A process is one worker process.
type process struct {
	number int // from 1
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

// patience is how long a worker may take to end before it is killed.
const patience = 2 * time.Second

// launch starts n worker processes. Close the fleet, also after an error.
func launch(ctx context.Context, n int, with setup) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{events: make(chan event, 256), cancel: cancel}
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	for i := range n {
		if err := f.launchOne(ctx, self, i+1, with); err != nil {
			return f, fmt.Errorf("worker %d: %w", i+1, err)
		}
	}
	return f, nil
}

func (f *fleet) launchOne(ctx context.Context, self string, number int, with setup) error {
	p := &process{number: number, cmd: exec.CommandContext(ctx, self, "demo", "worker")}
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
	p.cmd.SysProcAttr = attributes()
	p.cmd.Cancel = func() error {
		_ = p.wake() // a stopped one would not notice
		return stdin.Close()
	}
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.processes = append(f.processes, p)
	f.wg.Go(func() { f.listen(p, stdout) })
	with.Number = number
	_ = p.orders.Encode(with) // see order
	return nil
}

// listen passes on the events of a process, and at last its end.
func (f *fleet) listen(p *process, stdout io.Reader) {
	events := json.NewDecoder(stdout)
	for {
		var e event
		if events.Decode(&e) != nil {
			break
		}
		e.worker, e.at = p.number, time.Now()
		f.events <- e
	}
	_, _ = io.Copy(io.Discard, stdout) // after text that is no event there may be more
	last := event{What: exited, worker: p.number}
	if err := p.cmd.Wait(); err != nil {
		said := strings.TrimPrefix(strings.TrimSpace(p.stderr.String()), "holdfast: ")
		last.Text = cmp.Or(said, err.Error())
	}
	last.at = time.Now()
	f.events <- last
}

// close ends all processes and waits for them: at most patience, and usually not long.
func (f *fleet) close() {
	f.cancel()
	go func() {
		f.wg.Wait()
		close(f.events)
	}()
	for range f.events { // nobody else listens any more
	}
}

// ended checks the end of a process against its fate.
func (f *fleet) ended(e event) error {
	switch p := f.processes[e.worker-1]; {
	case p.fate == killed, p.fate == finishing && e.Text == "":
		return nil
	case e.Text == "":
		return fmt.Errorf("worker %d ended too early", e.worker)
	default:
		return fmt.Errorf("worker %d: %s", e.worker, e.Text)
	}
}

// order gives an order. A process that can no longer read it has ended, and its end is an event.
func (p *process) order(o order) { _ = p.orders.Encode(o) }

func (p *process) kill() error {
	p.fate = killed
	return p.cmd.Process.Kill()
}

// finish lets the process complete its work and end, unless it was killed.
func (p *process) finish() {
	if p.fate == working {
		p.fate = finishing
		p.order(finish)
	}
}
