package history

import (
	"context"
	"errors"
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

// narrate makes the clients of this process use locks, and reports of each call when it began and how it ended.
func narrate(args []string, lease time.Duration, once func(c *client)) {
	s := kit.OpenObserved(args[0], lease, &holdfast.Observer{
		Acquire: func(ctx context.Context, _ holdfast.Subject) func(holdfast.Acquired) {
			return func(a holdfast.Acquired) {
				if c, ok := ctx.Value(asker{}).(*client); ok {
					c.granted.Store(a.Granted)
				}
			}
		},
	})
	first, err := strconv.Atoi(args[1])
	kit.Must(err)
	deeds, err := strconv.Atoi(args[len(args)-1])
	kit.Must(err)
	var wg sync.WaitGroup
	for i := range clientsEach {
		c := &client{session: s, number: first + i, tell: func(d deed) { kit.Say(d) }}
		wg.Go(func() {
			for c.serial.Load() < int64(deeds/clientsEach) {
				once(c)
			}
		})
	}
	wg.Wait()
	_ = s.Close() // what it cannot give back ends with its lease
}

// A client of a history has one grant after another.
type client struct {
	session *holdfast.Session
	number  int
	serial  atomic.Int64
	tell    func(d deed) // called twice for each deed
	granted atomic.Bool  // by a release of another process, what its last call has taken
}

// asker is how a ctx knows the client whose call it is.
type asker struct{}

// tag names the grant that the client gets next.
func (c *client) tag() string { return fmt.Sprintf("%d.%d", c.number, c.serial.Load()) }

// do does a deed, and reports it before and after.
func (c *client) do(d deed, does func() string) string {
	d.Client, d.Serial, d.Call = c.number, int(c.serial.Add(1)), worker.Now()
	c.tell(d)
	d.Out = does()
	d.Granted = c.granted.Swap(false)
	d.Return = worker.Now()
	c.tell(d)
	return d.Out
}

// outcome names the class of an error, as the model knows it.
func outcome(err error) string {
	if errors.Is(err, holdfast.ErrNoReply) {
		return "unknown" // what comes of it later is given back
	}
	class := kit.ClassOf(err)
	for _, known := range []string{"unknown", "lost", "not held"} {
		if strings.Contains(class, known) {
			return known // whatever else it says, such as a deadline
		}
	}
	// These match none of our errors. A connection that ends reports this of a call that cannot have changed
	// anything.
	for _, refusal := range []string{
		": dial tcp ", ": read tcp ", ": write tcp ", ": i/o timeout", ": the call reached the server too late",
		": no connection to the server within",
	} {
		if strings.Contains(class, refusal) {
			return "refused"
		}
	}
	return class
}

// ending names how a release ended. A hold may be lost because its last renewal had no reply: nothing of that is
// unknown.
func ending(err error) string {
	if errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnknown) {
		return "lost"
	}
	return outcome(err)
}

// patience is how long a client waits: in most cases for one attempt only.
func patience() time.Duration { return max(0, rand.N(25*time.Millisecond)-20*time.Millisecond) }

// hurried sometimes leaves so little time that replies come too late.
func hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	if rand.N(50) == 0 {
		return context.WithTimeout(ctx, rand.N(2*time.Millisecond))
	}
	return ctx, func() {}
}

// anyLock is the name of one of the locks.
func anyLock() string { return fmt.Sprint("lock ", rand.N(historyLocks)) }

// lastDeadline is the moment until which at least one of the holds is trusted.
func lastDeadline(holds []*holdfast.Hold) (last time.Duration) {
	for _, h := range holds {
		last = max(last, worker.Now()+time.Until(h.Deadline()))
	}
	return last
}

// look looks at a lock. What it sees counts if the call succeeds and the holds in question are still held.
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
