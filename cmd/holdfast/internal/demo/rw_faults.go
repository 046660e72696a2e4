package demo

import (
	"fmt"
	"time"
)

// A downgrade is a writer going on to read what it wrote.
type downgrade struct {
	worker int
	wrote  int
	at     time.Time

	joined time.Duration // in which all readers came in
	over   bool          // it was told to let go
	kept   time.Duration // after which it read the same once more; 0 if it has not yet
}

// take looks at an event for what concerns the downgrade.
func (d *downgrade) take(e event) error {
	switch {
	case e.worker == d.worker && e.What == saw:
		if e.Value != d.wrote {
			return fmt.Errorf("worker %d wrote %d, went on reading, and has read %d", d.worker, d.wrote, e.Value)
		}
		d.kept = e.at.Sub(d.at)
	case e.worker != d.worker && rwWrites(e.worker) && e.What == holds && !d.over:
		return fmt.Errorf("worker %d got in to write while worker %d went on reading", e.worker, d.worker)
	}
	return nil
}

// A deadReader is a worker that was killed while it read.
type deadReader struct {
	worker int
	at     time.Time

	readOn int           // how many reads the others finished after that, before a writer asked
	gone   time.Duration // after which a writer got in; 0 if none has yet
}
