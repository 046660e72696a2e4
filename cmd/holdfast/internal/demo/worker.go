package demo

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fleet"
)

// A worker is the inside of a worker process.
type worker struct {
	setup
	ordered map[order]chan struct{} // holds one order; closed by the orders to start and to finish

	mu     sync.Mutex // guards events
	events *json.Encoder
}

// work is what a worker process does. It ends when its orders do, and they end with the coordinator.
func work(ctx context.Context, orders io.Reader, events io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoder := json.NewDecoder(orders)
	w := &worker{ordered: make(map[order]chan struct{}), events: json.NewEncoder(events)}
	i := -1
	if decoder.Decode(&w.setup) == nil {
		i = slices.IndexFunc(scenes(), func(s scene) bool { return s.name == w.Scene })
	}
	if i < 0 {
		return errors.New("demo worker: this command is for the demo alone; use \"holdfast demo\"")
	}
	for _, do := range []order{start, linger, proceed, giveUp, finish} {
		w.ordered[do] = make(chan struct{}, 1)
	}
	go w.obey(decoder, cancel)
	session, err := cli.At(w.Redis).Open(&holdfast.Options{Lease: w.Lease})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // what it cannot release ends with its lease
	if err := w.tell(event{What: ready, Text: session.ID()}); err != nil {
		return err
	}
	select {
	case <-w.ordered[start]:
	case <-ctx.Done():
		return nil
	}
	return w.employ(ctx, scenes()[i].work(w, session))
}

// obey follows orders until the end of stdin, or of the process.
func (w *worker) obey(orders *json.Decoder, cancel context.CancelFunc) {
	defer cancel()
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		if o == start || o == finish {
			close(w.ordered[o])
		} else {
			w.ordered[o] <- struct{}{}
		}
	}
}

// employ runs the goroutines. Each does the same again and again until the order to finish.
func (w *worker) employ(ctx context.Context, do func(ctx context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for range w.Goroutines {
		all.Go(func() error {
			for {
				select {
				case <-w.ordered[finish]:
					return nil
				case <-ctx.Done():
					return nil
				default:
				}
				err := do(ctx)
				switch { // nothing was written, so it may try again
				case errors.Is(err, holdfast.ErrLost):
					err = w.tell(event{What: lost, Text: err.Error()})
				case errors.Is(err, errGaveUp):
					err = nil
				}
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

// errGaveUp is why a goroutine that was told to give up stops waiting.
var errGaveUp = errors.New("gave up")

// tell reports an event. When it returns, the event is in the coordinator's pipe and survives the process.
func (w *worker) tell(e event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events.Encode(e)
}

// compute takes as long as work does. After the order to linger it waits for the order to proceed, or for ctx.
func (w *worker) compute(ctx context.Context, hold *holdfast.Hold, read int, takes time.Duration) error {
	select {
	case <-w.ordered[linger]:
		if err := w.tell(event{What: lingers, Value: read, Text: hold.ID()}); err != nil {
			return err
		}
		select {
		case <-w.ordered[proceed]:
		case <-ctx.Done():
		}
	case <-time.After(takes):
	case <-ctx.Done():
	}
	return nil
}

// An order is what the coordinator tells a worker process: a string of JSON on its stdin, after a setup. The end of
// stdin is an order too: stop at once.
type order string

const (
	start   order = "start"   // begin to work
	linger  order = "linger"  // the next goroutine that gets the lock keeps it …
	proceed order = "proceed" // … until now
	giveUp  order = "give up" // one waiting goroutine stops waiting
	finish  order = fleet.Finish
)

// A setup is what a worker process needs to know first. It does not travel on the command line, which
// everybody on the machine can read, because a URL may carry a password.
type setup struct {
	Scene      string        `json:"scene"`
	Redis      string        `json:"redis"` // the server's URL
	Name       string        `json:"name"`  // of the lock
	File       string        `json:"file"`  // shared, and protected by the lock alone
	Number     int           `json:"number"`
	Goroutines int           `json:"goroutines"`
	Lease      time.Duration `json:"lease"`
	Pace       time.Duration `json:"pace"` // how long the work under the lock takes
}

// An event is what happened in a worker process: one line of JSON on its stdout.
type event struct {
	What  what   `json:"what"`
	Value int    `json:"value,omitempty"` // the number that was read or written
	Text  string `json:"text,omitempty"`

	worker int       // the process that tells it, from 1
	at     time.Time // when the coordinator heard it
}

type what string

const (
	ready   what = "ready"   // connected; Text is the session's id
	holds   what = "holds"   // got the lock as hold Text, and has read Value; or a permit, and Value are at work
	lingers what = "lingers" // as ordered; the hold is Text, and Value has been read
	wrote   what = "wrote"   // Value; the lock is still held
	lost    what = "lost"    // found out that the lock was lost, and did not write; Text is the error
	did     what = "did"     // a job; the permit is still held
)
