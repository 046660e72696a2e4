package kit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// running watches whether this process gets processor time.
var running = newMetronome()

// A metronome beats every few ms and adds up its delays: the time in which the whole process stood still, because the
// machine did or because others had its processors. It allocates nothing, as some tests count allocations.
type metronome struct {
	begun  sync.Once
	mu     sync.Mutex
	beaten *sync.Cond // on mu
	beats  int
	late   time.Duration
}

const (
	tempo    = 10 * time.Millisecond
	notable  = 20 * time.Millisecond
	alarming = 250 * time.Millisecond // reported, since a failure that follows cannot be understood without it
)

func newMetronome() *metronome {
	m := &metronome{}
	m.beaten = sync.NewCond(&m.mu)
	return m
}

func (m *metronome) run() {
	for {
		began := time.Now()
		time.Sleep(tempo)
		late := time.Since(began) - tempo
		if late > alarming {
			fmt.Fprintf(os.Stderr, "stood still for %v until %s\n", late.Round(time.Millisecond),
				time.Now().Format(time.TimeOnly))
		}
		m.mu.Lock()
		if late > notable {
			m.late += late
		}
		m.beats++
		m.mu.Unlock()
		m.beaten.Broadcast()
	}
}

// start makes it beat, for the life of the process.
func (m *metronome) start() { m.begun.Do(func() { go m.run() }) }

// stoodStill returns for how long the process has stood still, counted when that many more beats have passed.
func (m *metronome) stoodStill(beats int) time.Duration {
	m.start() // not each package has Main
	m.mu.Lock()
	defer m.mu.Unlock()
	for end := m.beats + beats; m.beats < end; {
		m.beaten.Wait()
	}
	return m.late
}

// Stopwatch returns a function that tells how much time has passed since, without the time in which this process
// stood still: limits are about the code, not about the machine.
func Stopwatch() (elapsed func() time.Duration) {
	began, still := time.Now(), Stillness()
	return func() time.Duration { return time.Since(began) - still() }
}

// Running returns a context that ends when this process has run for d, without the time in which it stood still.
func Running(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for took := Stopwatch(); ctx.Err() == nil && took() < d; { // to read it takes a while
		}
	}()
	return ctx
}

// Stillness returns a function that tells for how long this process has stood still since.
func Stillness() (until func() time.Duration) {
	before := running.stoodStill(0)
	// the next beat includes what has just happened
	return func() time.Duration { return running.stoodStill(1) - before }
}
