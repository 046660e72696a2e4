package demo

import (
	"fmt"
	"time"
)

// A vigil is somebody's stay in the midst of its work, with the lock, which nobody else may have
// meanwhile.
type vigil struct {
	worker, goroutine int
	read              int // of the counter; the number after it is not yet written
	began             time.Time
	until             time.Time // its hold is trusted, as it has last told
	doomed            bool      // most servers are gone, so it may lose the lock

	expired bool
	late    time.Duration // after its last deadline; below zero if that was before
	learned string        // its words then; empty if there are none yet
}

// take takes in what a worker tells.
func (v *vigil) take(e event) error {
	if e.worker != v.worker || e.Goroutine != v.goroutine {
		// Who reads less came before it, and is heard late.
		if e.What == holds && e.Value >= v.read {
			return fmt.Errorf("worker %d has got the lock, in the midst of the work of worker %d", e.worker, v.worker)
		}
		return nil
	}
	switch e.What {
	case renewed:
		v.until = e.at.Add(e.Left)
	case expired:
		v.expired, v.late = true, -e.Left
	case lost:
		v.learned = e.Text
	}
	if v.learned != "" && !v.doomed {
		return fmt.Errorf("worker %d has lost the lock, though most servers are there: %s", v.worker, v.learned)
	}
	return nil
}

// timely says whether the loss was learned when it should be: when the deadline came, and not
// because a server was gone.
func (v *vigil) timely() error {
	switch {
	case !v.expired:
		return fmt.Errorf("the hold of worker %d has not ended by itself: %s", v.worker, v.learned)
	case v.late < -allowance:
		return fmt.Errorf("worker %d was told of its loss %s before its deadline, too early", v.worker, human(-v.late))
	case v.late > allowance:
		return fmt.Errorf("worker %d was told of its loss only %s after its deadline", v.worker, human(v.late))
	}
	return nil
}

// off is by how much it learned of the loss before or after its deadline.
func (v *vigil) off() string {
	if v.late < 0 {
		return human(-v.late) + " before"
	}
	return human(v.late) + " after"
}
