package demo

import (
	"fmt"
	"time"
)

// A fault is what was done to a worker while it held the lock.
type fault struct {
	done   string // "killed", "stopped"
	worker int
	read   int // of the counter; the number after it was not yet written
	at     time.Time

	heir  int           // the worker that had the lock next; 0 if none yet
	after time.Duration // how much later

	resumed time.Time     // if stopped
	counter int           // by then
	learned string        // the worker's words when it went on; empty if there are none yet
	delay   time.Duration // from resumed to learned
}

// take looks at an event, of a goroutine that did something before, for what concerns the fault.
func (f *fault) take(e event, before what) error {
	if e.worker != f.worker {
		// Who reads what the victim has read comes after it: who came before has counted.
		if e.What == holds && e.Value >= f.read && f.heir == 0 {
			f.heir, f.after = e.worker, e.at.Sub(f.at)
		}
		return nil
	}
	switch {
	case before != lingers: // not the goroutine that held the lock
	case e.What == lost:
		f.learned, f.delay = e.Text, e.at.Sub(f.resumed)
	case e.What == wrote && f.heir != 0:
		return fmt.Errorf("worker %d wrote %d when worker %d had taken over", e.worker, e.Value, f.heir)
	}
	return nil
}

// sentence tells a fault and what came of it.
func (f *fault) sentence() string {
	s := fmt.Sprintf("Worker %d was %s while it held the lock; worker %d had it %s later.",
		f.worker, f.done, f.heir, human(f.after))
	if !f.resumed.IsZero() {
		s += fmt.Sprintf("\nResumed after %s, it asked its hold before writing, learned that it had lost\n"+
			"the lock, and did not write %d: the counter was %d by then.", human(f.resumed.Sub(f.at)), f.read+1, f.counter)
	}
	return s
}
