package interop_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
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
	jvm := ownJava(t)
	return loner{newJavaThread(t, jvm.Connect(t, f.config()), "loner", k, lock), jvm}
}

// goLoner is this test binary, in the role of [beLoner].
type goLoner struct {
	kind   kind
	server *redistest.Server
	gate   string
	worker *worker.Worker
	says   chan string
}

func newGoLoner(t *testing.T, f *fleet, k kind, lock string) loner {
	t.Helper()
	l := &goLoner{kind: k, server: f.server(), gate: "gate of " + lock, says: make(chan string, 2)}
	hear := func(line string) { l.says <- line }
	l.worker = worker.Start(t, hear, "loner", f.written(), f.options.lease.String(), k.name, lock, l.gate)
	hearFirst(t, l.worker, l.says)
	return loner{l, l}
}

// hearFirst is the first thing that a worker says.
func hearFirst(t *testing.T, w *worker.Worker, says <-chan string) string {
	t.Helper()
	select {
	case line := <-says:
		return line
	case <-w.Ended():
		t.Fatal("the process ended")
	case <-time.After(30 * time.Second):
		t.Fatal("the process does not start")
	}
	panic("not reached")
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

func (l *goLoner) Pause()  { l.worker.Pause() }
func (l *goLoner) Resume() { l.worker.Resume() }
func (l *goLoner) Kill()   { l.worker.Kill() }

// beLoner is the program of a [goLoner]. It says when it is ready to be let in, and when it has the lock, which it
// releases when it is told to end.
func beLoner(args []string) {
	kind, name, gate := args[2], args[3], args[4]
	err := func() error {
		sessions, err := openWritten(args[0], args[1])
		if err != nil {
			return err
		}
		for _, session := range sessions {
			defer session.Close()
		}
		doorman, err := redistest.Dial(strings.Split(args[0], ",")[0])
		if err != nil {
			return err
		}
		defer doorman.Close()
		worker.Say("ready")
		if err := doorman.Send("BLPOP", gate, "0"); err != nil {
			return err
		}
		if _, err := doorman.Receive(); err != nil {
			return err
		}
		hold, err := kindNamed(kind).golang(sessions, name, 0).Lock(context.Background())
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

// written are the addresses of the fleet's sessions, for a process that is to use the same servers: see [openWritten].
func (f *fleet) written() string {
	var homes []string
	for _, addresses := range f.homes() {
		homes = append(homes, strings.Join(addresses, " "))
	}
	return strings.Join(homes, ",")
}

// openWritten opens such sessions, with that lease.
func openWritten(homes, lease string) (sessions []*holdfast.Session, err error) {
	renewed, err := time.ParseDuration(lease)
	if err != nil {
		return nil, err
	}
	for addresses := range strings.SplitSeq(homes, ",") {
		session, err := holdfast.Open(rueidis.ClientOption{InitAddress: strings.Split(addresses, " ")},
			&holdfast.Options{Lease: renewed})
		if err != nil {
			return nil, err
		}
		if err := learnClock(context.Background(), session); err != nil {
			return nil, err
		}
		sessions = append(sessions, session)
	}
	return sessions, nil
}

func newJavaVictim(t *testing.T, grabs []grab) process {
	t.Helper()
	jvm, clients := ownJava(t), map[*fleet]*interop.Client{}
	for _, g := range grabs {
		if clients[g.fleet] == nil {
			clients[g.fleet] = jvm.Connect(t, g.fleet.config())
		}
		newJavaThread(t, clients[g.fleet], g.lock, g.kind, g.lock).lock(t)
	}
	return jvm
}

func newGoVictim(t *testing.T, grabs []grab) process {
	t.Helper()
	var args []string
	for _, g := range grabs {
		args = append(args, g.fleet.written(), g.fleet.options.lease.String(), g.kind.name, g.lock)
	}
	says := make(chan string, 1)
	w := worker.Start(t, func(line string) { says <- line }, "victim", args...)
	hearFirst(t, w, says)
	return w
}

// beVictim is the program of a victim in Go. It takes locks, of each of which it is told the servers, the lease, the
// kind and the name; says that it has them, and keeps them.
func beVictim(args []string) {
	err := func() error {
		opened := map[string][]*holdfast.Session{}
		for lock := range slices.Chunk(args, 4) {
			homes := lock[0]
			if opened[homes] == nil {
				sessions, err := openWritten(homes, lock[1])
				if err != nil {
					return err
				}
				opened[homes] = sessions
			}
			if _, err := kindNamed(lock[2]).golang(opened[homes], lock[3], 0).Lock(context.Background()); err != nil {
				return err
			}
		}
		worker.Say("held")
		<-worker.Stopped()
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func kindNamed(name string) kind {
	for _, k := range slices.Concat([]kind{mortal}, severalKinds, kinds, fairKinds, halves) {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}
