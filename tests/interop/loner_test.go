package interop_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// loner is an owner in a process of its own, which can be frozen and killed.
type loner struct {
	waiter
	process
}

// process is what can be done to a loner's process; an [interop.Java] is one.
type process interface {
	Pause() // returns when the whole process stands still
	Resume()
	Kill() // also if it is paused
}

func newJavaLoner(t *testing.T, f *fleet, k kind, lock string) loner {
	t.Helper()
	jvm := interop.Start(t)
	client := jvm.Connect(t, interop.Config{
		Addresses: []string{f.server().Addr()}, Watchdog: f.options.lease, FairWait: f.options.javaWait,
	})
	return loner{newJavaThread(t, client, "loner", k, lock), jvm}
}

// goLoner is this test binary, in the role of [beLoner].
type goLoner struct {
	kind   kind
	server *redistest.Server
	gate   string
	worker *worker.Worker
	pid    int
	says   chan string
}

func newGoLoner(t *testing.T, f *fleet, k kind, lock string) loner {
	t.Helper()
	l := &goLoner{kind: k, server: f.server(), gate: "gate of " + lock, says: make(chan string, 2)}
	hear := func(line string) { l.says <- line }
	l.worker = worker.Start(t, hear, "loner", f.server().Addr(), f.options.lease.String(), k.name, lock, l.gate)
	select {
	case pid := <-l.says:
		l.pid = must(strconv.Atoi(pid))(t)
	case <-l.worker.Ended():
		t.Fatal("the process ended")
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not start")
	}
	return loner{l, l}
}

func (l *goLoner) of() kind               { return l.kind }
func (l *goLoner) asleep(*testing.T) bool { return true }

func (l *goLoner) start() *attempt {
	a := &attempt{done: make(chan struct{})}
	_, a.err = l.server.Try("RPUSH", l.gate, "open")
	go func() {
		defer close(a.done)
		select {
		case <-l.says:
		case <-l.worker.Ended():
			a.err = interop.ErrDied
		}
		a.granted = time.Now()
	}()
	return a
}

func (l *goLoner) unlock(t *testing.T) {
	t.Helper()
	l.worker.End()
	select {
	case <-l.worker.Ended():
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not end")
	}
}

func (l *goLoner) Pause() {
	l.worker.Pause()
	interop.AwaitStopped(l.pid)
}

func (l *goLoner) Resume() { l.worker.Resume() }
func (l *goLoner) Kill()   { l.worker.Kill() }

// beLoner is the program of a [goLoner]. It says its process id when it is ready to be let in, and something else when
// it has the lock, which it releases when it is told to end.
func beLoner(args []string) {
	address, lease, kind, name, gate := args[0], args[1], args[2], args[3], args[4]
	err := func() error {
		renewed, err := time.ParseDuration(lease)
		if err != nil {
			return err
		}
		session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{address}}, &holdfast.Options{Lease: renewed})
		if err != nil {
			return err
		}
		defer session.Close()
		if err := learnClock(context.Background(), session); err != nil {
			return err
		}
		doorman, err := redistest.Dial(address)
		if err != nil {
			return err
		}
		defer doorman.Close()
		worker.Say("%d", os.Getpid())
		if err := doorman.Send("BLPOP", gate, "0"); err != nil {
			return err
		}
		if _, err := doorman.Receive(); err != nil {
			return err
		}
		hold, err := kindNamed(kind).golang(session, name, 0).Lock(context.Background())
		if err != nil {
			return err
		}
		worker.Say("held")
		<-worker.Stopped()
		return hold.Release()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func kindNamed(name string) kind {
	for _, k := range slices.Concat([]kind{mortal}, kinds, fairKinds, halves) {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}
