package tests

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// running watches whether this process gets to run.
var running = metronome{beat: make(chan struct{})}

// A metronome beats every few ms, and adds up by how much it was late: the time in which the whole process stood still,
// because the machine did or others were given its processors.
type metronome struct {
	mu   sync.Mutex
	late time.Duration
	beat chan struct{} // closed at the next beat
}

const (
	beats    = 5 * time.Millisecond
	notable  = 20 * time.Millisecond
	alarming = 250 * time.Millisecond // and told, since a failure that follows cannot be understood without it
)

func (m *metronome) run() {
	for {
		began := time.Now()
		time.Sleep(beats)
		late := time.Since(began) - beats
		if late > alarming {
			fmt.Fprintf(os.Stderr, "stood still for %v until %s\n", late.Round(time.Millisecond), time.Now().Format(time.TimeOnly))
		}
		m.mu.Lock()
		if late > notable {
			m.late += late
		}
		close(m.beat)
		m.beat = make(chan struct{})
		m.mu.Unlock()
	}
}

// stoodStill is for how long the process has stood still so far, as far as that is known already.
func (m *metronome) stoodStill() (late time.Duration, next <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.late, m.beat
}

// stopwatch tells how much time has passed since it was called, without that in which this process stood still: how
// long something may take is about the code, not about the machine.
func stopwatch() (elapsed func() time.Duration) {
	began, still := time.Now(), stillness()
	return func() time.Duration { return time.Since(began) - still() }
}

// stillness tells for how long this process has stood still since it was called.
func stillness() (until func() time.Duration) {
	before, _ := running.stoodStill()
	return func() time.Duration {
		_, next := running.stoodStill()
		<-next // which tells of what has just been
		after, _ := running.stoodStill()
		return after - before
	}
}
