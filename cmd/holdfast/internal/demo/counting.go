package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// A counting is the work of the scenes with a lock: it adds one to a number in a file, which nothing but the lock
// protects. The command's help shows it beside the same in Java. Before the write it asks whether the lock is still
// ours. Java has to ask the server; a hold answers from its own clock.
type counting struct {
	*worker
	lock holdfast.Locker
}

func (c counting) increment(ctx context.Context) error {
	hold, err := c.lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	ctx = hold.Context(ctx)

	n, err := counter(c.File).read()
	if err != nil {
		return err
	}
	if err := c.tell(event{What: holds, Value: n, Text: hold.ID()}); err != nil {
		return err
	}
	return c.save(ctx, n+1)
}

func (c counting) save(ctx context.Context, n int) error {
	hold, err := c.lock.Lock(ctx) // already ours: re-enters
	if err != nil {
		return err
	}
	defer hold.Release()

	if err := c.compute(ctx, hold, n-1, c.Pace); err != nil {
		return err
	}
	if err := hold.Err(); err != nil { // is the lock still ours?
		return fmt.Errorf("did not write %d: %w", n, err)
	}
	if err := counter(c.File).write(n); err != nil {
		return err
	}
	return c.tell(event{What: wrote, Value: n})
}

// A counter is a file with a number in it. Its width is fixed, so that a write is one step: without
// a lock updates get lost, but no number is torn.
type counter string

func (c counter) read() (int, error) {
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func (c counter) write(n int) error {
	file, err := os.OpenFile(string(c), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%012d", n)
	return errors.Join(err, file.Close())
}

// A ledger is what the coordinator knows of the counter. Under a lock that works, the numbers
// written are 1, 2, 3 and so on, each once. A number written twice is a lost update: the second
// writer had not seen the first. Workers report a write before they release the lock, so a killed
// one leaves no gap.
type ledger map[int]int // the writer, by number

// take records an event, and fails at the first lost update.
func (l ledger) take(e event) error {
	if e.What != wrote {
		return nil
	}
	if first := l[e.Value]; first > 0 {
		return fmt.Errorf("a lost update: worker %d and worker %d both wrote %d", first, e.worker, e.Value)
	}
	l[e.Value] = e.worker
	return nil
}

// audit compares the writes that were reported with the counter.
func (l ledger) audit(count int) error {
	if count != len(l) {
		return fmt.Errorf("lost updates: the counter is %d after %d writes", count, len(l))
	}
	for n := 1; n <= count; n++ {
		if l[n] == 0 {
			return fmt.Errorf("nobody reported writing %d, and the counter is %d", n, count)
		}
	}
	return nil
}
