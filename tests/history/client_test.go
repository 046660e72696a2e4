package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// narrate has the clients of this process do things to locks, and say of each when it began and what came of it.
func narrate(args []string, lease time.Duration, once func(c *client)) {
	s := kit.OpenWorker(args[0], lease)
	first, err := strconv.Atoi(args[1])
	kit.Must(err)
	var wg sync.WaitGroup
	for i := range clientsEach {
		c := &client{session: s, number: first + i, tell: func(d deed) { kit.Say(d) }}
		wg.Go(func() {
			for c.serial.Load() < deedsEach/clientsEach {
				once(c)
			}
		})
	}
	wg.Wait()
	_ = s.Close() // what it cannot give back ends with the lease
}

// A client of a history has one grant after the other.
type client struct {
	session *holdfast.Session
	number  int
	serial  atomic.Int64
	tell    func(d deed) // hears each deed twice
}

// tag names the grant that the client has next.
func (c *client) tag() string { return fmt.Sprintf("%d.%d", c.number, c.serial.Load()) }

// do does a deed and says so, before and after.
func (c *client) do(d deed, does func() string) string {
	d.Client, d.Serial, d.Call = c.number, int(c.serial.Add(1)), worker.Now()
	c.tell(d)
	d.Out = does()
	d.Return = worker.Now()
	c.tell(d)
	return d.Out
}

// outcome is the class of an error, as the model knows it.
func outcome(err error) string {
	class := kit.ClassOf(err)
	for _, known := range []string{"unknown", "lost", "not held"} {
		if strings.Contains(class, known) {
			return known // whatever else it says, such as a deadline
		}
	}
	// These match no error of ours. A connection that ends says so of a call that could not have changed anything.
	for _, refusal := range []string{": dial tcp ", ": read tcp ", ": the call reached the server too late"} {
		if strings.Contains(class, refusal) {
			return "refused"
		}
	}
	return class
}

// patience is how long a client waits: mostly for one attempt.
func patience() time.Duration { return max(0, rand.N(25*time.Millisecond)-20*time.Millisecond) }

// hurried sometimes leaves little time, so that replies come too late.
func hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	if rand.N(50) == 0 {
		return context.WithTimeout(ctx, rand.N(2*time.Millisecond))
	}
	return ctx, func() {}
}

// anyLock is the name of one of the locks.
func anyLock() string { return fmt.Sprint("lock ", rand.N(historyLocks)) }

// lastDeadline is the moment until which one of the holds is trusted.
func lastDeadline(holds []*holdfast.Hold) (last time.Duration) {
	for _, h := range holds {
		last = max(last, worker.Now()+time.Until(h.Deadline()))
	}
	return last
}

// look looks at a lock. What it sees counts if it sees anything, and if the holds that it is about are held still.
func (c *client) look(d deed, holds []*holdfast.Hold, at func() (any, error)) {
	c.do(d, func() string {
		seen, err := at()
		for _, h := range holds {
			if h.Err() != nil {
				return "nothing"
			}
		}
		if err != nil {
			return "nothing"
		}
		return fmt.Sprint(seen)
	})
}
