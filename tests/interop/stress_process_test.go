package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// stressProcess is a process as the test sees it.
type stressProcess struct {
	plan     stressPlan
	language string
	kill     func()
	stop     func()
	ended    <-chan struct{}
	killed   time.Duration // 0: it was not

	mu       sync.Mutex
	open     map[string]stay // by worker
	had      []stay
	meetings []meeting
	failures []string
}

func (p *stressProcess) note(n stressNote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n.Got != nil:
		p.open[n.Got.Who] = *n.Got
	case n.Left != nil:
		delete(p.open, n.Left.Who)
		p.had = append(p.had, *n.Left)
	case n.Met != nil:
		p.meetings = append(p.meetings, *n.Met)
	default:
		p.failures = append(p.failures, n.Fail)
	}
}

// hear is note, of a line.
func (p *stressProcess) hear(line string) {
	var n stressNote
	if err := json.Unmarshal([]byte(line), &n); err != nil {
		n = stressNote{Fail: fmt.Sprintf("%q: %v", line, err)}
	}
	p.note(n)
}

// stays are what its workers surely had. It must have ended.
func (p *stressProcess) stays() []stay {
	p.mu.Lock()
	defer p.mu.Unlock()
	return upTo(p.killed, slices.AppendSeq(slices.Clone(p.had), maps.Values(p.open)))
}

func (p *stressProcess) grants() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.had) + len(p.open)
}

// blow kills the process. What its workers say they had later they have not surely had.
func (p *stressProcess) blow() {
	p.killed = worker.Now()
	p.kill()
}

// state is what its workers have, for a message that it does not end.
func (p *stressProcess) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.plan.Process, ": ", p.open, p.failures)
}

// startStressGo starts a process in Go: this test binary in the role of [beStressed].
func startStressGo(t *testing.T, plan stressPlan) *stressProcess {
	t.Helper()
	p := &stressProcess{plan: plan, language: golang.name, open: map[string]stay{}}
	w := worker.Start(t, p.hear, "stressed", string(must(json.Marshal(plan))(t)))
	p.kill, p.stop, p.ended = w.Kill, w.End, w.Ended()
	return p
}

// beStressed is the program of a process in Go.
func beStressed(args []string) {
	err := func() error {
		var plan stressPlan
		if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
			return err
		}
		sessions := make([]*holdfast.Session, 1+len(plan.Others))
		for i, address := range append([]string{plan.Address}, plan.Others...) {
			session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{address}},
				&holdfast.Options{Lease: stressLease})
			if err != nil {
				return err
			}
			sessions[i] = session
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-worker.Stopped()
			cancel()
		}()
		workTogether(plan, ctx.Done(), sayNote,
			func(int) hands { return &goHands{ctx: ctx, session: sessions[0], independent: sessions[1:]} })
		var errs []error
		for _, s := range sessions {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sayNote(n stressNote) {
	line, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	worker.Say("%s", line)
}

// workTogether has the workers of a process work until all have stopped.
func workTogether(plan stressPlan, stopped <-chan struct{}, note func(stressNote), hands func(number int) hands) {
	var workers sync.WaitGroup
	for number := range survivorJobs {
		w := &stressWorker{plan: plan, number: number, hands: hands(number), note: note, stopped: stopped}
		workers.Go(w.work)
	}
	workers.Wait()
}

// startStressJava has the threads of a JVM work.
func startStressJava(t *testing.T, jvm *interop.Java, plan stressPlan) *stressProcess {
	t.Helper()
	client := jvm.Connect(t, interop.Config{Addresses: []string{plan.Address}, Watchdog: stressLease, FairWait: calmWait})
	independent := jvm.Connect(t, interop.Config{Addresses: plan.Others, Watchdog: stressLease})
	var threads []*javaHands
	for number := range survivorJobs {
		name := fmt.Sprint("worker ", number)
		threads = append(threads, &javaHands{client.Thread(t, name), independent.Thread(t, name)})
	}
	stopped, ended := make(chan struct{}), make(chan struct{})
	p := &stressProcess{
		plan: plan, language: java.name, open: map[string]stay{},
		kill: jvm.Kill, stop: sync.OnceFunc(func() { close(stopped) }), ended: ended,
	}
	t.Cleanup(p.stop)
	go func() {
		defer close(ended)
		workTogether(plan, stopped, p.note, func(number int) hands { return threads[number] })
	}()
	return p
}
