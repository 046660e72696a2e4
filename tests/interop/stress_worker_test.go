package interop_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// goers are the workers of each survivor who meet at a latch now and then.
const goers = 2

func goes(number int) bool { return number == 3 || number == 4 }

// stressPlan is what all processes know.
type stressPlan struct {
	Address  string
	Others   []string // servers of RedLocks
	Process  string
	Survives bool
	Began    time.Duration
	Rounds   int // at latches
}

// grip is what a worker has got.
type grip struct {
	token   int64
	ended   func() (time.Duration, bool) // when, if it has; nil: nobody knows
	again   func() error                 // takes and releases it once more
	release func() error
}

// hands are how a language takes things.
type hands interface {
	take(k stressKind, names []string, n int, wait time.Duration) (grip, error)
	gate(name string) stressGate
}

// stressGate is a latch.
type stressGate struct{ set, countDown, await func() error }

// A stressNote is what a worker tells: one of these.
type stressNote struct {
	Got  *stay    `json:",omitempty"`
	Left *stay    `json:",omitempty"` // as it was got, with its end
	Met  *meeting `json:",omitempty"`
	Fail string   `json:",omitempty"`
}

// stressWorker takes and leaves one thing after the other until it is told to stop.
type stressWorker struct {
	plan    stressPlan
	number  int
	hands   hands
	note    func(stressNote)
	stopped <-chan struct{}
	round   int
}

// work returns when the worker is told to stop, or its process has died, or something has failed.
func (w *stressWorker) work() {
	jobs := victimJobs[w.number]
	if w.plan.Survives {
		jobs = survivorJobs[w.number]
	}
	err := func() error {
		for {
			if err := w.meet(); err != nil {
				return err
			}
			select {
			case <-w.stopped:
				return nil
			default:
			}
			if err := w.once(stressKinds[oneOf(jobs...)()]); err != nil {
				return err
			}
			time.Sleep(rand.N(5 * time.Millisecond))
		}
	}()
	if err != nil && !errors.Is(err, interop.ErrDied) {
		w.note(stressNote{Fail: w.name() + ": " + err.Error()})
	}
}

func (w *stressWorker) name() string { return fmt.Sprint(w.plan.Process, " ", w.number) }

// meet goes to the latches whose time has come. When all has come to its end, it has been to all of them: the others
// wait.
func (w *stressWorker) meet() error {
	if !w.plan.Survives || !goes(w.number) {
		return nil
	}
	for w.round < w.plan.Rounds && worker.Now() >= w.plan.Began+time.Duration(w.round)*stressRound {
		w.round++
		m := meeting{Who: w.name(), Round: w.round}
		gate := w.hands.gate(fmt.Sprint("latch ", w.round))
		if err := gate.set(); err != nil {
			return fmt.Errorf("set latch %d: %w", w.round, err)
		}
		m.Counted = worker.Now()
		if err := gate.countDown(); err != nil {
			return fmt.Errorf("count down latch %d: %w", w.round, err)
		}
		if err := gate.await(); err != nil {
			return fmt.Errorf("await latch %d: %w", w.round, err)
		}
		m.Passed = worker.Now()
		w.note(stressNote{Met: &m})
	}
	return nil
}

// once takes something, has it for a while, and gives it back.
func (w *stressWorker) once(k stressKind) error {
	s := stay{Who: w.name(), Kind: k.name, Names: k.names(), N: k.n(), Asked: worker.Now()}
	g, err := w.hands.take(k, s.Names, s.N, k.wait())
	if errors.Is(err, errPassed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take %s: %w", k.name, err)
	}
	s.From, s.Token = worker.Now(), g.token
	w.note(stressNote{Got: &s})
	time.Sleep(k.hold())
	if k.again && rand.N(4) == 0 {
		if err := g.again(); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, errPassed) {
			return fmt.Errorf("take %s again: %w", k.name, err)
		}
	}
	s.To = worker.Now()
	if g.ended != nil {
		if end, ended := g.ended(); ended {
			s.To, s.Lost = end, true
		}
	}
	w.note(stressNote{Left: &s})
	if err := g.release(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		return fmt.Errorf("release %s: %w", k.name, err)
	}
	return nil
}
